package builtin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/seed93082962/agenthost/filesafe"
	"github.com/seed93082962/agenthost/runtime/tool"
)

type grepInput struct {
	Pattern    string `json:"pattern"`
	Path       string `json:"path"`
	Glob       string `json:"glob"`
	OutputMode string `json:"output_mode"`
	IgnoreCase bool   `json:"-i"`
	Numbers    *bool  `json:"-n"`
	After      int    `json:"-A"`
	Before     int    `json:"-B"`
	Context    int    `json:"-C"`
	HeadLimit  *int   `json:"head_limit"`
}

// Output modes of Grep.
const (
	modeFiles   = "files_with_matches"
	modeContent = "content"
	modeCount   = "count"
)

const (
	defaultHead = 250
	maxContext  = 100 // lines before and after a match
)

func newGrep(c *Config) tool.Tool {
	return typed(tool.Spec{
		Name: "Grep",
		Description: `Searches the text of files with a regular expression, one line at a time. Use it in place of grep or rg in Bash.
The syntax is RE2's, as in Go: log.*Error, func\s+\w+\(, (?:a|b). There are no look-arounds and no back references; write \{ for a brace.
output_mode files_with_matches (the default) gives the paths of files that match, content the lines as path:number:text (lines of context as path-number-text), count the number of lines that match as path:number.
Paths in the answer are relative to the working directory. Binary files and .git directories are left out, links are not followed.`,
		InputSchema: json.RawMessage(grepSchema),
		ReadOnly:    true,
	}, func(ctx context.Context, in grepInput) (tool.Result, error) {
		match, err := newMatcher(in.Pattern, in.IgnoreCase)
		if err != nil {
			return tool.Result{}, err
		}
		wanted, err := globFilter(in.Glob)
		if err != nil {
			return tool.Result{}, err
		}
		g := grep{config: c, ctx: ctx, wanted: wanted, mode: cmp.Or(in.OutputMode, modeFiles), limit: defaultHead, numbers: true}
		if in.HeadLimit != nil {
			g.limit = *in.HeadLimit
		}
		if in.Numbers != nil {
			g.numbers = *in.Numbers
		}
		g.scan = scanner{match: match, sink: &g}
		switch g.mode {
		case modeContent:
			g.scan.before = min(max(cmp.Or(in.Before, in.Context), 0), maxContext)
			g.scan.after = min(max(cmp.Or(in.After, in.Context), 0), maxContext)
		case modeFiles, modeCount:
		default:
			return tool.Result{}, fmt.Errorf("output_mode cannot be %q: use %s, %s or %s", in.OutputMode, modeContent, modeFiles, modeCount)
		}
		return g.search(cmp.Or(in.Path, "."))
	})
}

// grep is one search. It is the sink of its scanner.
type grep struct {
	config  *Config
	ctx     context.Context //nolint:containedctx // it lives as long as one call
	wanted  func(paths ...string) bool
	mode    string
	limit   int // of lines or files; 0 is none but that of the output
	numbers bool
	scan    scanner

	out    []byte
	count  int // lines or files in out
	name   string
	last   int  // number of the last line of this file that is in out
	groups bool // there is a group of lines in out
	found  int  // matching lines of this file
}

// errEnough ends a search, or the search in one file.
var errEnough = errors.New("enough")

func (g *grep) search(asked string) (tool.Result, error) {
	start, err := g.config.searchIn(asked)
	if err != nil {
		return tool.Result{}, err
	}
	if start.file {
		if g.config.leavesOut(start, filesafe.Entry{Name: start.place}) {
			return tool.Result{}, fmt.Errorf("%s may not be read", shown(asked))
		}
		if err := g.searchFile(start.place); err != nil && !errors.Is(err, errEnough) {
			return tool.Result{}, g.config.walkError(g.ctx, start, err)
		}
		return g.result(), nil
	}
	for entry, err := range g.config.walk(g.ctx, start.place, endless) {
		if err == nil && entry.Type == "file" && g.wanted(entry.Name, relative(start.place, entry.Name)) &&
			!g.config.leavesOut(start, entry) {
			err = g.searchFile(entry.Name)
			if g.ctx.Err() == nil && !errors.Is(err, errEnough) { // a file that cannot be read is left out
				err = nil
			}
		}
		if errors.Is(err, errEnough) {
			break
		}
		if err != nil {
			return tool.Result{}, g.config.walkError(g.ctx, start, err)
		}
	}
	return g.result(), nil
}

func (g *grep) result() tool.Result {
	over := g.limit > 0 && g.count > g.limit || len(g.out) > g.config.MaxOutput-closing
	if len(g.out) == 0 {
		return tool.Result{Output: "No matches found."}
	}
	if !over {
		return g.config.result(string(g.out))
	}
	// The last line is one too many.
	g.out = g.out[:strings.LastIndexByte(string(g.out[:len(g.out)-1]), '\n')+1]
	if g.count--; g.groups {
		g.out = []byte(strings.TrimSuffix(string(g.out), "--\n"))
	}
	what := "lines"
	if g.mode != modeContent {
		what = "files"
	}
	g.out = fmt.Appendf(g.out, "[There is more than these %d %s. Give a narrower pattern, path or glob, or another head_limit.]\n", g.count, what)
	res := g.config.result(string(g.out))
	res.Truncated = true
	return res
}

// searchFile answers errEnough when there is no more room.
func (g *grep) searchFile(name string) error {
	f, err := g.config.Dir.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	g.name, g.last, g.found = shown(name), 0, 0
	if err = g.scan.file(g.ctx, f); err != nil && !errors.Is(err, errEnough) {
		return err
	}
	if g.mode == modeContent || g.found == 0 {
		return err
	}
	g.out = append(g.out, g.name...)
	if g.mode == modeCount {
		g.out = fmt.Appendf(g.out, ":%d", g.found)
	}
	g.out = append(g.out, '\n')
	return g.added()
}

// line is called with the lines of a file that match or stand around one that does.
func (g *grep) line(number int, text []byte, more int64, matches bool) error {
	if g.mode != modeContent {
		g.found++
		if g.mode == modeFiles {
			return errEnough
		}
		return nil
	}
	if g.scan.before+g.scan.after > 0 {
		if g.groups && (g.last == 0 || number != g.last+1) {
			g.out = append(g.out, "--\n"...)
		}
		g.groups = true
	}
	g.last = number
	mark := byte('-')
	if matches {
		mark = ':'
	}
	g.out = append(append(g.out, g.name...), mark)
	if g.numbers {
		g.out = append(fmt.Appendf(g.out, "%d", number), mark)
	}
	g.out = append(appendLine(g.out, text, more), '\n')
	return g.added()
}

// added goes one line over the limit, so that it is known whether there is more.
func (g *grep) added() error {
	g.count++
	if g.limit > 0 && g.count > g.limit || len(g.out) > g.config.MaxOutput-closing {
		return errEnough
	}
	return nil
}

// globFilter makes the glob of Grep a test of a file by its paths, of which one has to match. As with rg, a glob without
// a slash is about the name alone, and ! at the start turns it round.
func globFilter(glob string) (func(paths ...string) bool, error) {
	if glob == "" {
		return func(...string) bool { return true }, nil
	}
	glob, not := strings.CutPrefix(glob, "!")
	if err := checkPattern(glob); err != nil {
		return nil, fmt.Errorf("glob: %w", err)
	}
	anchored := strings.Contains(glob, "/")
	glob = path.Clean(strings.TrimPrefix(glob, "/"))
	return func(paths ...string) bool {
		for _, name := range paths {
			if !anchored {
				name = path.Base(name)
			}
			if doublestar.MatchUnvalidated(glob, name) {
				return !not
			}
		}
		return not
	}, nil
}

const grepSchema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "properties": {
    "pattern": {"type": "string", "minLength": 1, "description": "The regular expression, in RE2 syntax"},
    "path": {"type": "string", "description": "The file or directory to search; default the working directory"},
    "glob": {"type": "string", "description": "Only files that match: *.go by name, src/**/*.ts by path; ! at the start turns it round"},
    "output_mode": {"type": "string", "enum": ["content", "files_with_matches", "count"], "description": "Default files_with_matches"},
    "-i": {"type": "boolean", "description": "Letter case does not matter"},
    "-n": {"type": "boolean", "description": "Line numbers in content mode; default true"},
    "-A": {"type": "integer", "minimum": 0, "description": "Lines after each match in content mode, at most 100"},
    "-B": {"type": "integer", "minimum": 0, "description": "Lines before each match in content mode, at most 100"},
    "-C": {"type": "integer", "minimum": 0, "description": "Lines before and after each match in content mode, at most 100"},
    "head_limit": {"type": "integer", "minimum": 0, "description": "Lines or files to answer at most; default 250, 0 for as many as fit"}
  },
  "required": ["pattern"],
  "additionalProperties": false
}`
