package permission

import (
	"context"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
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

	targets, all := d.linkTargets(ctx)
	for _, target := range targets {
		found(within(target, p))
	}

	if outermost == "" && !all {
		outermost, _, _ = strings.Cut(p, "/")
	}

	return outermost
}

const (
	maxSearched = 64 << 20 // bytes of the paths of files in which links are searched
	maxLinks    = 1000     // protected names that are links

	// reuse is how long the links of a search are used, in times of its duration. A link that a
	// command creates in the meantime does not protect: the command could change its target.
	reuse = 20
)

// links are the links in the working directory whose name is protected, as a repository may have
// .vscode as a link to another directory.
type links struct {
	turn    chan struct{} // has an element while a call uses the fields below
	targets []string
	all     bool // there are no others
	until   time.Time
}

// linkTargets returns where the links lead whose name is protected, and whether all of them were
// found.
func (d *directory) linkTargets(ctx context.Context) ([]string, bool) {
	if d.resolve == nil || d.cwd == "" {
		return nil, true
	}

	l := d.links
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return nil, false
	}

	started := time.Now()
	if started.Before(l.until) {
		return l.targets, l.all
	}

	l.targets, l.all = d.searchLinks(ctx)
	if ended := time.Now(); ctx.Err() == nil {
		l.until = ended.Add(reuse * ended.Sub(started))
	}

	return l.targets, l.all
}

// searchLinks is linkTargets without the result of a former search. A directory that cannot be
// read has no links.
func (d *directory) searchLinks(ctx context.Context) ([]string, bool) {
	left := maxSearched
	links := 0
	var targets []string
	for next := []string{"."}; len(next) > 0; next = next[1:] {
		for entry := range entriesOf(d.absolute(next[0])) {
			name := path.Join(next[0], entry.Name())
			if left -= len(name); left < 0 || links > maxLinks || ctx.Err() != nil {
				return targets, false
			}

			switch {
			case entry.IsDir():
				next = append(next, name)
			case entry.Type() == fs.ModeSymlink && ProtectedName(entry.Name()):
				links++
				if target, err := d.resolve(name); err == nil {
					targets = append(targets, path.Clean(target))
				}
			}
		}
	}

	return targets, true
}

// entriesOf iterates over the entries of a directory.
func entriesOf(dir string) iter.Seq[fs.DirEntry] {
	return func(yield func(fs.DirEntry) bool) {
		f, err := os.Open(filepath.Clean(dir))
		if err != nil {
			return
		}

		defer func() { _ = f.Close() }() // it was only read
		for err == nil {
			var entries []fs.DirEntry
			entries, err = f.ReadDir(1000)
			for _, entry := range entries {
				if !yield(entry) {
					return
				}
			}
		}
	}
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
