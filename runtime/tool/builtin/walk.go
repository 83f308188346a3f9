package builtin

import (
	"context"
	"io/fs"
	"iter"
	"path"
	"path/filepath"
	"strings"

	"github.com/seed93082962/agenthost/filesafe"
)

// endless is the depth of a walk that goes down to the end.
const endless = -1

// walk yields the files below the directory at start, a path free of links, and the links to files that end inside. The
// names are relative to the working directory: first what is in a directory, by name, then what is in those below it.
// .git directories and hidden ones are left out, and so is what cannot be read, but an error at start itself is yielded. An error ends it.
func (c *Config) walk(ctx context.Context, start string, depth int) iter.Seq2[filesafe.Entry, error] {
	type place struct {
		name  string
		depth int
	}
	return func(yield func(filesafe.Entry, error) bool) {
		for todo := []place{{start, depth}}; len(todo) > 0; {
			at := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			first := len(todo)
			for entry, err := range c.Dir.List(ctx, at.name) {
				if ctx.Err() != nil {
					yield(filesafe.Entry{}, context.Cause(ctx))
					return
				}
				if err != nil {
					if at.name == start {
						yield(filesafe.Entry{}, err)
						return
					}
					break
				}
				name := entry.Name
				entry.Name = path.Join(at.name, name)
				switch {
				case entry.Type == "directory":
					if name != ".git" && at.depth != 0 && !c.Hides(entry.Name+"/") {
						todo = append(todo, place{entry.Name, max(at.depth-1, endless)})
					}
				case entry.Type == "file", entry.Type == "symlink" && leadsToFile(c.Dir, entry):
					if !yield(entry, nil) {
						return
					}
				}
			}
			for i, j := first, len(todo)-1; i < j; i, j = i+1, j-1 { // the last is the next
				todo[i], todo[j] = todo[j], todo[i]
			}
		}
	}
}

func leadsToFile(dir *filesafe.Dir, link filesafe.Entry) bool {
	if link.Target == "" {
		return false
	}
	info, err := dir.Stat(link.Target)
	return err == nil && info.Mode().IsRegular()
}

// search is where a walk begins.
type search struct {
	place string // relative to the working directory, free of links, with "/"
	asked string // as the model said it
	file  bool   // place is a regular file
}

// searchIn finds the directory or file that Glob or Grep is to work on; the default is the working directory.
func (c *Config) searchIn(asked string) (search, error) {
	info, err := c.Dir.Stat(asked)
	if err != nil {
		return search{}, explain(c.Dir, asked, err)
	}
	s := search{asked: asked, file: info.Mode().IsRegular()}
	if !s.file && !info.IsDir() {
		return search{}, explain(c.Dir, asked, &fs.PathError{Op: "search", Path: asked, Err: filesafe.ErrNotFile})
	}
	place, err := c.Dir.Resolve(asked)
	if err != nil {
		return search{}, explain(c.Dir, asked, err)
	}
	s.place = filepath.ToSlash(place)
	return s, nil
}

// leavesOut says whether Read is denied a file, by its own path, by the one that the model gave, or by that of a link's end.
func (c *Config) leavesOut(s search, entry filesafe.Entry) bool {
	if c.Hides(entry.Name) || entry.Target != "" && c.Hides(entry.Target) {
		return true
	}
	asked := s.asked
	if filepath.IsAbs(asked) {
		asked, _ = filepath.Rel(c.Dir.Path(), asked)
	}
	asked = path.Join(filepath.ToSlash(asked), relative(s.place, entry.Name))
	return asked != entry.Name && filepath.IsLocal(asked) && c.Hides(asked)
}

// hidden says whether Read is denied the file that a path leads to.
func (c *Config) hidden(asked string) bool {
	s, err := c.searchIn(asked)
	return err == nil && c.leavesOut(s, filesafe.Entry{Name: s.place})
}

// relative is a path in a directory, relative to it. Both are relative to the working directory.
func relative(dir, name string) string {
	switch dir {
	case ".":
		return name
	case name:
		return "."
	}
	return strings.TrimPrefix(name, dir+"/")
}

// walkError tells the end of ctx as it is, and explains the rest.
func (c *Config) walkError(ctx context.Context, s search, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return explain(c.Dir, s.asked, err)
}
