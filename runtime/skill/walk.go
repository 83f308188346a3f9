package skill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// fileName is matched by the file system: where that ignores case, so does a scan.
const fileName = "SKILL.md"

// batch is how many entries of a directory are in memory at once.
const batch = 1024

// walk is one scan of one root.
type walk struct {
	root
	log    *slog.Logger
	guard  *os.Root // of a project; nil elsewhere
	within string   // path of guard, free of links
	seen   map[string]bool
	links  []string // met on the way, and not followed yet
	buf    []byte
	skills []Skill
}

// place is a directory: the path on which it was met, and the same free of links.
type place struct{ path, real string }

func (w *walk) confine(dir string) (err error) {
	if w.within, err = filepath.EvalSymlinks(dir); err != nil {
		return err
	}
	w.guard, err = os.OpenRoot(w.within)
	return err
}

// run follows links after all that is reached without them, so that a directory is met under its own path first.
func (w *walk) run(ctx context.Context) error {
	for next := []string{w.dir}; len(next) > 0; next, w.links = w.links, nil {
		slices.Sort(next)
		for _, path := range next {
			if err := w.below(ctx, path); err != nil {
				return err
			}
		}
	}
	return nil
}

// below visits the directory at path, which is the root or a link, and all below it.
func (w *walk) below(ctx context.Context, path string) error {
	target, err := w.target(path)
	if errors.Is(err, fs.ErrNotExist) && path == w.dir {
		w.log.DebugContext(ctx, "no skills: directory does not exist", "path", path)
		return nil
	}
	var info fs.FileInfo
	if err == nil {
		info, err = os.Stat(target)
	}
	if err != nil {
		w.log.WarnContext(ctx, "link or directory is left out of the scan for skills", "path", path, "err", err)
		return nil
	}
	if !info.IsDir() {
		if path == w.dir {
			w.log.WarnContext(ctx, "no skills: path is not a directory", "path", path)
		}
		return nil // a link to a file among the directories
	}
	for stack := []place{{path, target}}; len(stack) > 0; {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		at := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if !w.seen[at.real] {
			w.seen[at.real] = true
			stack = append(stack, w.visit(ctx, at)...)
		}
	}
	return nil
}

// target is where path leads, free of links.
func (w *walk) target(path string) (string, error) {
	target, err := filepath.EvalSymlinks(path)
	if err == nil && !inside(w.within, target) {
		err = errOutside
	}
	return target, err
}

// visit takes the skill at a directory, or returns the directories in it, the first one last.
func (w *walk) visit(ctx context.Context, at place) []place {
	switch info, err := os.Lstat(filepath.Join(at.real, fileName)); {
	case err == nil && !info.IsDir():
		w.take(ctx, at)
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		w.log.WarnContext(ctx, "directory is left out of the scan for skills", "path", at.path, "err", err)
		return nil
	}
	dirs, err := w.list(at)
	if err != nil {
		w.log.WarnContext(ctx, "directory is left out of the scan for skills", "path", at.path, "err", err)
	}
	return dirs
}

func (w *walk) list(at place) ([]place, error) {
	f, err := os.Open(at.real)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	var dirs []place
	for {
		entries, err := f.ReadDir(batch)
		for _, entry := range entries {
			path := filepath.Join(at.path, entry.Name())
			switch {
			case entry.IsDir():
				dirs = append(dirs, place{path, filepath.Join(at.real, entry.Name())})
			case entry.Type()&fs.ModeSymlink != 0:
				w.links = append(w.links, path)
			}
		}
		if err != nil {
			slices.SortFunc(dirs, func(a, b place) int { return cmp.Compare(b.path, a.path) })
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return dirs, err
		}
	}
}

// take adds the skill at a directory.
func (w *walk) take(ctx context.Context, at place) {
	skill := Skill{Source: w.source, Location: filepath.Join(at.path, fileName), within: w.within}
	head, size, err := w.head(filepath.Join(at.real, fileName))
	if err != nil {
		w.log.WarnContext(ctx, "skill is left out", "path", skill.Location, "err", err)
		return
	}
	var found faults
	if size > MaxBytes {
		found.add(fmt.Errorf("it has %d bytes, and more than %d are not read", size, MaxBytes), "move what is seldom needed into files beside it")
	}
	if front, _, err := split(head); err != nil { // so that it has no description either
		found.add(err, hintFrontmatter)
	} else {
		if skill.Name, skill.Description, err = fields(front); err != nil {
			found.add(err, hintYAML)
		}
		if skill.Description == "" {
			found.add(errNoDescription, hintDescription)
		}
	}
	if skill.Name == "" {
		skill.Name = nameOf(at.path)
	}
	if found != nil {
		w.log.WarnContext(ctx, "skill has faults", "path", skill.Location, "name", skill.Name, "err", found.text(), "hint", found.hint())
	}
	w.skills = append(w.skills, skill)
}

// head reads the part of a SKILL.md that can have frontmatter in it. It is valid until the next call.
func (w *walk) head(path string) (head []byte, size int64, err error) {
	target, err := w.target(path)
	if err != nil {
		return nil, 0, err
	}
	f, size, err := open(w.guard, w.within, target)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = f.Close() }()
	if w.buf == nil {
		w.buf = make([]byte, headBytes)
	}
	n, err := io.ReadFull(f, w.buf)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return w.buf[:n], size, err
}

// inside tells whether path is dir or below it, both free of links. All is inside of "".
func inside(dir, path string) bool {
	if dir == "" {
		return true
	}
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// nameOf is the fallback for a name: a directory may be called anything.
func nameOf(dir string) string {
	if name := oneLine(filepath.Base(dir)); name != "" {
		return name
	}
	return strings.ToLower(strings.TrimSuffix(fileName, ".md"))
}
