package permission

import (
	"context"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// protects returns the outermost file or directory because of which a path of the working directory
// is protected, or "". It returns early when ctx ends.
func (d *directory) protects(ctx context.Context, p string) string {
	if outside(p) {
		return ""
	}
	outermost := ""
	found := func(at string) {
		if at != "" && (outermost == "" || len(at) < len(outermost)) {
			outermost = at
		}
	}
	for end, name := range prefixes(p) {
		if ProtectedName(name) {
			found(p[:end])
			break
		}
	}
	for _, dir := range d.protected {
		found(within(dir, p))
		found(d.leadsTo(dir, p))
	}
	if outermost != "" {
		return outermost
	}
	for link := range d.protectedLinks(ctx) {
		found(d.leadsTo(link, p))
	}
	return outermost
}

// maxEntries bounds the search for links in the working directory, in files and directories. In a
// larger directory, links that are not found protect nothing.
const maxEntries = 100_000

// protectedLinks iterates over the links in the working directory whose name is protected, as a
// repository may have .vscode as a link to another directory. Directories at the top come first.
func (d *directory) protectedLinks(ctx context.Context) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		if d.resolve == nil || d.cwd == "" {
			return
		}
		left := maxEntries
		for next := []string{"."}; len(next) > 0 && left > 0 && ctx.Err() == nil; next = next[1:] {
			entries, err := readEntries(d.absolute(next[0]), left)
			if err != nil {
				continue // another program has removed it, or it cannot be read
			}
			left -= len(entries)
			for _, entry := range entries {
				name := path.Join(next[0], entry.Name())
				switch {
				case entry.IsDir():
					next = append(next, name)
				case entry.Type() == fs.ModeSymlink && ProtectedName(entry.Name()) && !yield(name):
					return
				}
			}
		}
	}
}

// readEntries returns at most so many entries of a directory.
func readEntries(dir string, most int) ([]fs.DirEntry, error) {
	f, err := os.Open(filepath.Clean(dir))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	entries, err := f.ReadDir(most)
	if len(entries) > 0 {
		err = nil
	}
	return entries, err
}

// prefixes iterates over the names in a path, and where they end.
func prefixes(p string) func(yield func(end int, name string) bool) {
	return func(yield func(int, string) bool) {
		for from := 0; from <= len(p); {
			end := len(p)
			if i := strings.IndexByte(p[from:], '/'); i >= 0 {
				end = from + i
			}
			if !yield(end, p[from:end]) {
				return
			}
			from = end + 1
		}
	}
}

// within returns the part of a path that is a directory or file, or "" if the path is neither that
// nor in it. Names are compared without letter case, as in some file systems.
func within(dir, p string) string {
	switch {
	case dir == ".":
		return dir
	case outside(dir):
		return ""
	}
	left := strings.Count(dir, "/")
	for end := range prefixes(p) {
		if left == 0 && fold(p[:end]) == fold(dir) {
			return p[:end]
		}
		left--
	}
	return ""
}

// leadsTo returns the part of a path that another path leads to, or "".
func (d *directory) leadsTo(dir, p string) string {
	if d.resolve == nil {
		return ""
	}
	resolved, err := d.resolve(dir)
	if err != nil {
		return ""
	}
	return within(path.Clean(resolved), p)
}
