package builtin

import (
	"cmp"
	"container/heap"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/seed93082962/agenthost/runtime/tool"
)

type globInput struct {
	Pattern string `json:"pattern"`
	Path    string `json:"path"`
}

const (
	noFiles    = "No files found."
	maxFound   = 1000 // files that Glob answers
	maxPattern = 1000 // bytes
	maxChoices = 256  // ways to read the braces of a pattern, each of which may have to be tried
)

func newGlob(c *Config) tool.Tool {
	return typed(tool.Spec{
		Name: "Glob",
		Description: `Finds files by their names, the last changed first, at most 1000. Use it to learn what files there are.
In a pattern * stands for anything within one name, ** for any directories, ? for one character, [a-z] for one of a set and {a,b} for either: **/*.go, src/**/*.{ts,tsx}. A pattern without ** looks no deeper than it has slashes.
Paths in the answer are relative to the working directory. Hidden files are found, .git directories are left out, links to directories are not followed.`,
		InputSchema: json.RawMessage(globSchema),
		ReadOnly:    true,
	}, func(ctx context.Context, in globInput) (tool.Result, error) {
		base, pattern, err := c.globBase(in)
		if err != nil {
			return tool.Result{}, err
		}
		in.Path = cmp.Or(in.Path, ".")
		if s, err := c.searchIn(in.Path); err != nil {
			return tool.Result{}, err
		} else if s.file {
			return tool.Result{}, fmt.Errorf("%s is a file: give the directory to look in", shown(in.Path))
		}
		start, err := c.searchIn(base)
		if _, missing := c.Dir.Stat(base); start.file || errors.Is(missing, fs.ErrNotExist) || errors.Is(missing, syscall.ENOTDIR) {
			return tool.Result{Output: noFiles}, nil
		} else if err != nil {
			return tool.Result{}, err
		}
		newest, total, err := c.glob(ctx, start, pattern)
		if err != nil {
			return tool.Result{}, err
		}
		return c.globResult(newest, total), nil
	})
}

// globBase splits a pattern into the directory to walk and what is to be matched below it.
func (c *Config) globBase(in globInput) (base, pattern string, err error) {
	pattern = filepath.ToSlash(in.Pattern)
	if err := checkPattern(pattern); err != nil {
		return "", "", err
	}
	for part := range strings.SplitSeq(pattern, "/") {
		if part == ".." {
			return "", "", fmt.Errorf("the pattern %s has .. in it: give the directory to look in as path", shown(in.Pattern))
		}
	}
	base, pattern = doublestar.SplitPattern(path.Clean(pattern))
	base = filepath.FromSlash(base)
	if !filepath.IsAbs(base) {
		base = filepath.Join(cmp.Or(in.Path, "."), base)
	}
	return base, pattern, nil
}

// checkPattern refuses what is no pattern, and what could take longer to match than anybody waits.
func checkPattern(pattern string) error {
	if pattern == "" || strings.IndexByte(pattern, 0) >= 0 || !doublestar.ValidatePattern(pattern) {
		return fmt.Errorf("%q is no valid pattern: look for a bracket or brace that is not closed", pattern)
	}
	if len(pattern) > maxPattern {
		return fmt.Errorf("the pattern is longer than %d bytes", maxPattern)
	}
	choices := 1
	groups := strings.Split(pattern, "{")
	for _, group := range groups[1:] {
		if choices *= strings.Count(group, ",") + 1; choices > maxChoices {
			return fmt.Errorf("the braces of the pattern make more than %d patterns of it: give fewer", maxChoices)
		}
	}
	return nil
}

// glob finds the files that match, of which it keeps the newest.
func (c *Config) glob(ctx context.Context, start search, pattern string) (newest files, total int, err error) {
	depth := endless
	if !strings.Contains(pattern, "**") {
		depth = strings.Count(pattern, "/") // those in braces count too: never too few
	}
	for entry, err := range c.walk(ctx, start.place, depth) {
		if err != nil {
			return nil, 0, c.walkError(ctx, start, err)
		}
		rel := relative(start.place, entry.Name)
		if !doublestar.MatchUnvalidated(pattern, rel) || c.leavesOut(start, entry) {
			continue
		}
		total++
		newest.keep(file{entry.Name, entry.ModTime})
	}
	slices.SortFunc(newest, func(a, b file) int { return -a.compare(b) })
	return newest, total, nil
}

func (c *Config) globResult(newest files, total int) tool.Result {
	if total == 0 {
		return tool.Result{Output: noFiles}
	}
	var out strings.Builder
	for i, f := range newest {
		name := shown(f.name)
		if i > 0 && out.Len()+len(name) > c.MaxOutput-closing {
			newest = newest[:i]
			break
		}
		out.WriteString(name + "\n")
	}
	if len(newest) < total {
		fmt.Fprintf(&out, "[These are %d of %d files, the last changed. Give a narrower pattern or a path.]\n", len(newest), total)
	}
	res := c.result(out.String())
	res.Truncated = len(newest) < total
	return res
}

// file is one that was found.
type file struct {
	name    string
	changed time.Time
}

// compare orders the older before the newer, and of the same time the later name first.
func (f file) compare(other file) int {
	return cmp.Or(f.changed.Compare(other.changed), -cmp.Compare(f.name, other.name))
}

// files is a heap with the oldest on top.
type files []file

func (f files) Len() int           { return len(f) }
func (f files) Less(i, j int) bool { return f[i].compare(f[j]) < 0 }
func (f files) Swap(i, j int)      { f[i], f[j] = f[j], f[i] }
func (f *files) Push(x any)        { *f = append(*f, x.(file)) }
func (f *files) Pop() any {
	last := len(*f) - 1
	x := (*f)[last]
	*f = (*f)[:last]
	return x
}

// keep takes one more file in, and drops the oldest if there are too many.
func (f *files) keep(x file) {
	switch {
	case len(*f) < maxFound:
		heap.Push(f, x)
	case (*f)[0].compare(x) < 0:
		(*f)[0] = x
		heap.Fix(f, 0)
	}
}

const globSchema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "properties": {
    "pattern": {"type": "string", "minLength": 1, "maxLength": 1000, "description": "The pattern, relative to path: **/*.go"},
    "path": {"type": "string", "description": "The directory to look in; default the working directory"}
  },
  "required": ["pattern"],
  "additionalProperties": false
}`
