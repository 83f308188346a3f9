package builtin

import (
	"context"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/filesafe"
)

// unlimited is the depth of a walk through a whole tree.
const unlimited = -1

// walk yields the files below a directory, and the links that lead to files in the working
// directory. The path of the directory must contain no links. Names are relative to the working
// directory. The files of a directory come first, by name, then its subdirectories. .git
// directories, hidden directories and directories that cannot be read are skipped. An error for the
// first directory, or of the context, is yielded last.
func (c *Config) walk(ctx context.Context, start string, depth int) iter.Seq2[filesafe.FileEntry, error] {
	type directory struct {
		name  string
		depth int
	}
	return func(yield func(filesafe.FileEntry, error) bool) {
		for pending := []directory{{start, depth}}; len(pending) > 0; {
			at := pending[len(pending)-1]
			pending = pending[:len(pending)-1]
			first := len(pending)
			for entry, err := range c.Dir.List(ctx, at.name) {
				if ctx.Err() != nil {
					yield(filesafe.FileEntry{}, context.Cause(ctx))
					return
				}

				if err != nil {
					if at.name == start {
						yield(filesafe.FileEntry{}, err)
						return
					}

					break
				}

				name := entry.Name
				entry.Name = path.Join(at.name, name)
				switch {
				case entry.Type == "directory":
					if name != ".git" && at.depth != 0 && !c.Hides(entry.Name+"/") {
						pending = append(pending, directory{entry.Name, max(at.depth-1, unlimited)})
					}
				case entry.Type == "file", entry.Type == "symlink" && leadsToFile(c.Dir, entry):
					if !yield(entry, nil) {
						return
					}
				}
			}

			slices.Reverse(pending[first:]) // the last directory is read next
		}
	}
}

func leadsToFile(dir *filesafe.Dir, link filesafe.FileEntry) bool {
	if link.Target == "" {
		return false
	}

	info, err := dir.Stat(link.Target)
	return err == nil && info.Mode().IsRegular()
}

// searchRoot is the file or directory that a search starts in.
type searchRoot struct {
	given string // as in the input
	real  string // relative to the working directory, without links, with "/"
	file  bool   // it is a regular file
}

func (c *Config) searchRoot(given string) (searchRoot, error) {
	info, err := c.Dir.Stat(given)
	if (err != nil || !info.IsDir()) && c.hidesPath(given) { // the same error if it does not exist
		return searchRoot{}, fmt.Errorf("%s: a rule denies reading it", display(given))
	}

	if err != nil {
		return searchRoot{}, pathError(c.Dir, given, err)
	}

	root := searchRoot{given: given, file: info.Mode().IsRegular()}
	if !root.file && !info.IsDir() {
		return searchRoot{}, pathError(c.Dir, given, &fs.PathError{Op: "search", Path: given, Err: filesafe.ErrNotFile})
	}

	resolved, err := c.Dir.Resolve(given)
	if err != nil {
		return searchRoot{}, pathError(c.Dir, given, err)
	}

	root.real = filepath.ToSlash(resolved)
	return root, nil
}

// hidesFound reports whether Read is denied a file that a search finds: by its own path, by the
// path below the given root, or by the path that a link leads to.
func (c *Config) hidesFound(root searchRoot, entry filesafe.FileEntry) bool {
	if c.Hides(entry.Name) || entry.Target != "" && c.Hides(entry.Target) {
		return true
	}

	given := path.Join(c.relativeToDir(root.given), relative(root.real, entry.Name))
	return given != entry.Name && filepath.IsLocal(given) && c.Hides(given)
}

// hidesPath reports whether Read is denied a file: by the path that the model gave, or by the path
// that it leads to. The file may not exist.
func (c *Config) hidesPath(given string) bool {
	if rel := path.Clean(c.relativeToDir(given)); filepath.IsLocal(rel) && c.Hides(rel) {
		return true
	}

	resolved, _ := c.Dir.Resolve(given)
	return resolved != "" && c.Hides(filepath.ToSlash(resolved))
}

// relativeToDir returns a path from an input relative to the working directory, with "/".
func (c *Config) relativeToDir(given string) string {
	if filepath.IsAbs(given) {
		given, _ = filepath.Rel(c.Dir.Path(), given)
	}

	return filepath.ToSlash(given)
}

// relative returns a path relative to a directory that contains it. Both are relative to the
// working directory.
func relative(dir, name string) string {
	switch dir {
	case ".":
		return name
	case name:
		return "."
	}

	return strings.TrimPrefix(name, dir+"/")
}

// walkError returns the error of a walk for the model.
func (c *Config) walkError(ctx context.Context, root searchRoot, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}

	return pathError(c.Dir, root.given, err)
}
