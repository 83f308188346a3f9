package builtin

import (
	"cmp"
	"context"
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
	noFiles         = "No files found."
	maxFiles        = 1000 // files in a result
	maxPattern      = 1000 // bytes
	maxAlternatives = 256  // patterns that braces expand to; a match may try each
)

func newGlob(c *Config) tool.Tool {
	return tool.Typed(tool.Spec{
		Name: "Glob",
		Description: `Finds files by name. Returns at most 1000 paths, the most recently modified first.
In a pattern, * matches any text within one name, ** any number of directories, ? one character, [a-z] one character of a set, and {a,b} either alternative. Examples: **/*.go, src/**/*.{ts,tsx}.
The paths are relative to the working directory. Hidden files are included. .git directories and links to directories are skipped.`,
		InputSchema: inputSchema(`"pattern"`, `
    "pattern": {"type": "string", "minLength": 1, "maxLength": 1000, "description": "The pattern, relative to path, such as **/*.go"},
    "path": {"type": "string", "description": "The directory to search; defaults to the working directory"}`),
		ReadOnly: true,
	}, func(ctx context.Context, in globInput) (tool.Result, error) {
		base, pattern, err := c.globBase(in)
		if err != nil {
			return tool.Result{}, err
		}

		in.Path = cmp.Or(in.Path, ".")
		if root, err := c.searchRoot(in.Path); err != nil {
			return tool.Result{}, err
		} else if root.file {
			return tool.Result{}, fmt.Errorf("%s is a file: set path to a directory", display(in.Path))
		}

		info, err := c.Dir.Stat(base)
		if err == nil && info.Mode().IsRegular() || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			return tool.Result{Output: noFiles}, nil
		}

		start, err := c.searchRoot(base)
		if err != nil {
			return tool.Result{}, err
		}

		newest, total, err := c.glob(ctx, start, pattern)
		if err != nil {
			return tool.Result{}, err
		}

		return c.globResult(newest, total), nil
	})
}

// globBase splits a pattern into a directory and the pattern for files below it.
func (c *Config) globBase(in globInput) (string, string, error) {
	pattern := filepath.ToSlash(in.Pattern)
	if err := checkPattern(pattern); err != nil {
		return "", "", err
	}

	for part := range strings.SplitSeq(pattern, "/") {
		if part == ".." {
			return "", "", fmt.Errorf("the pattern %s contains ..: set path to the directory instead", display(in.Pattern))
		}
	}

	base, pattern := doublestar.SplitPattern(path.Clean(pattern))
	base = filepath.FromSlash(base)
	if !filepath.IsAbs(base) {
		base = filepath.Join(cmp.Or(in.Path, "."), base)
	}

	return base, pattern, nil
}

// checkPattern returns an error for an invalid pattern, or one that may take too long to match.
func checkPattern(pattern string) error {
	if len(pattern) > maxPattern {
		return fmt.Errorf("the pattern is longer than %d bytes", maxPattern)
	}

	if pattern == "" || strings.IndexByte(pattern, 0) >= 0 || !doublestar.ValidatePattern(pattern) {
		return fmt.Errorf("%q is not a valid pattern: check for unclosed brackets and braces", pattern)
	}

	alternatives := 1
	groups := strings.Split(pattern, "{")
	for _, group := range groups[1:] {
		if alternatives *= strings.Count(group, ",") + 1; alternatives > maxAlternatives {
			return fmt.Errorf("the braces of the pattern expand to more than %d patterns: use fewer alternatives", maxAlternatives)
		}
	}

	return nil
}

// glob returns the newest matching files, and the number of all matching files.
func (c *Config) glob(ctx context.Context, start searchRoot, pattern string) (files, int, error) {
	depth := unlimited
	if !strings.Contains(pattern, "**") {
		depth = strings.Count(pattern, "/") // including slashes in braces
	}

	var newest files
	var total int
	for entry, err := range c.walk(ctx, start.real, depth) {
		if err != nil {
			return nil, 0, c.walkError(ctx, start, err)
		}

		rel := relative(start.real, entry.Name)
		if !doublestar.MatchUnvalidated(pattern, rel) || c.hidesFound(start, entry) {
			continue
		}

		total++
		newest.add(file{entry.Name, entry.ModTime})
	}

	newest.cut()
	return newest, total, nil
}

func (c *Config) globResult(newest files, total int) tool.Result {
	if total == 0 {
		return tool.Result{Output: noFiles}
	}

	var out strings.Builder
	for i, f := range newest {
		name := display(f.name)
		if i > 0 && out.Len()+len(name) > c.MaxOutput-noteRoom {
			newest = newest[:i]
			break
		}

		out.WriteString(name + "\n")
	}

	if len(newest) < total {
		fmt.Fprintf(&out, "[Only the %d most recently modified of %d files. Use a narrower pattern or path.]\n", len(newest), total)
	}

	res := c.result(out.String())
	res.Truncated = len(newest) < total
	return res
}

type file struct {
	name     string
	modified time.Time
}

// files are the newest files that were added, at most twice maxFiles.
type files []file

func (f *files) add(x file) {
	if *f = append(*f, x); len(*f) == 2*maxFiles {
		f.cut()
	}
}

// cut sorts the files, the newest first and those of the same time by name, and removes the ones
// after maxFiles.
func (f *files) cut() {
	slices.SortFunc(*f, func(a, b file) int { return cmp.Or(b.modified.Compare(a.modified), cmp.Compare(a.name, b.name)) })
	*f = (*f)[:min(len(*f), maxFiles)]
}
