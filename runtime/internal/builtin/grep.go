package builtin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

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
	defaultHeadLimit = 250
	maxContext       = 100 // lines before and after a match
)

func newGrep(c *Config) tool.Tool {
	return tool.Typed(tool.Spec{
		Name: "Grep",
		Description: `Searches the lines of files for a regular expression. Use it instead of grep or rg in Bash.
The syntax is that of RE2 and Go: log.*Error, func\s+\w+\(, (?:a|b). Lookarounds and backreferences are not supported. Write \{ for a brace.
output_mode files_with_matches (the default) returns the paths of files with matches, content returns matching lines as path:number:text and context lines as path-number-text, and count returns the number of matching lines as path:number.
The paths are relative to the working directory. Binary files, .git directories and links are skipped.`,
		InputSchema: inputSchema(`"pattern"`, `
    "pattern": {"type": "string", "minLength": 1, "description": "The regular expression, in RE2 syntax"},
    "path": {"type": "string", "description": "The file or directory to search; defaults to the working directory"},
    "glob": {"type": "string", "description": "Only files that match, by name (*.go) or by path (src/**/*.ts); a leading ! negates it"},
    "output_mode": {"type": "string", "enum": ["content", "files_with_matches", "count"], "description": "Defaults to files_with_matches"},
    "-i": {"type": "boolean", "description": "Ignore letter case"},
    "-n": {"type": "boolean", "description": "Line numbers in content mode; defaults to true"},
    "-A": {"type": "integer", "minimum": 0, "description": "Lines after each match in content mode, at most 100"},
    "-B": {"type": "integer", "minimum": 0, "description": "Lines before each match in content mode, at most 100"},
    "-C": {"type": "integer", "minimum": 0, "description": "Lines before and after each match in content mode, at most 100"},
    "head_limit": {"type": "integer", "minimum": 0, "description": "Maximum number of lines or files; defaults to 250, 0 means unlimited"}`),
		ReadOnly: true,
	}, func(ctx context.Context, in grepInput) (tool.Result, error) {
		match, err := newMatcher(in.Pattern, in.IgnoreCase)
		if err != nil {
			return tool.Result{}, err
		}

		included, err := globFilter(in.Glob)
		if err != nil {
			return tool.Result{}, err
		}

		g := grep{config: c, ctx: ctx, included: included, mode: cmp.Or(in.OutputMode, modeFiles), limit: defaultHeadLimit, numbers: true}
		if in.HeadLimit != nil {
			g.limit = *in.HeadLimit
		}

		if in.Numbers != nil {
			g.numbers = *in.Numbers
		}

		g.scan = scanner{match: match, emit: g.line}
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

// grep is one search.
type grep struct {
	config   *Config
	ctx      context.Context // for one call
	included func(paths ...string) bool
	mode     string
	limit    int // of lines or files; 0 is unlimited
	numbers  bool
	scan     scanner

	out    []byte
	count  int    // lines or files in out
	name   string // of the current file
	last   int    // the number of its last line in out
	groups bool   // out contains a group of lines
	found  int    // matching lines of the current file
}

// errLimit ends a search, or the search in one file.
var errLimit = errors.New("limit reached")

func (g *grep) search(given string) (tool.Result, error) {
	start, err := g.config.searchRoot(given)
	if err != nil {
		return tool.Result{}, err
	}

	if start.file {
		if err := g.searchFile(start.real); err != nil && !errors.Is(err, errLimit) {
			return tool.Result{}, g.config.walkError(g.ctx, start, err)
		}

		return g.result(), nil
	}

	for entry, err := range g.config.walk(g.ctx, start.real, unlimited) {
		if err == nil && entry.Type == "file" && g.included(entry.Name, relative(start.real, entry.Name)) &&
			!g.config.hidesFound(start, entry) {
			err = g.searchFile(entry.Name)
			if g.ctx.Err() == nil && !errors.Is(err, errLimit) { // skip unreadable files
				err = nil
			}
		}

		if errors.Is(err, errLimit) {
			break
		}

		if err != nil {
			return tool.Result{}, g.config.walkError(g.ctx, start, err)
		}
	}

	return g.result(), nil
}

func (g *grep) result() tool.Result {
	over := g.limit > 0 && g.count > g.limit || len(g.out) > g.config.MaxOutput-noteRoom
	if len(g.out) == 0 {
		return tool.Result{Output: "No matches found."}
	}

	if !over {
		return g.config.result(string(g.out))
	}

	// The last line is over the limit.
	g.out = g.out[:strings.LastIndexByte(string(g.out[:len(g.out)-1]), '\n')+1]
	if g.count--; g.groups {
		g.out = []byte(strings.TrimSuffix(string(g.out), "--\n"))
	}

	unit := "lines"
	if g.mode != modeContent {
		unit = "files"
	}

	g.out = fmt.Appendf(g.out, "[Only the first %d %s. Use a narrower pattern, path or glob, or another head_limit.]\n", g.count, unit)
	res := g.config.result(string(g.out))
	res.Truncated = true
	return res
}

// searchFile returns errLimit if the output has reached its limit.
func (g *grep) searchFile(name string) error {
	f, err := g.config.Dir.Open(name)
	if err != nil {
		return err
	}

	defer func() { _ = f.Close() }() // it was only read
	g.name, g.last, g.found = display(name), 0, 0
	if err = g.scan.file(g.ctx, f); err != nil && !errors.Is(err, errLimit) {
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
	return g.checkLimit()
}

// line is called for each matching line and each line of context.
func (g *grep) line(number int, text []byte, more int64, match bool) error {
	if g.mode != modeContent {
		g.found++
		if g.mode == modeFiles {
			return errLimit
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
	if match {
		mark = ':'
	}

	g.out = append(append(g.out, g.name...), mark)
	if g.numbers {
		g.out = append(fmt.Appendf(g.out, "%d", number), mark)
	}

	g.out = append(appendLine(g.out, text, more), '\n')
	return g.checkLimit()
}

// checkLimit is called after each line or file. The limit must be exceeded by one, which shows that
// there is more.
func (g *grep) checkLimit() error {
	g.count++
	if g.limit > 0 && g.count > g.limit || len(g.out) > g.config.MaxOutput-noteRoom {
		return errLimit
	}

	return nil
}

// globFilter returns a function that reports whether one of the paths of a file matches the glob of
// a search. As in rg, a glob without a slash is compared with the name, and a leading "!" negates
// it.
func globFilter(glob string) (func(paths ...string) bool, error) {
	if glob == "" {
		return func(...string) bool { return true }, nil
	}

	glob, negated := strings.CutPrefix(glob, "!")
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
				return !negated
			}
		}

		return negated
	}, nil
}
