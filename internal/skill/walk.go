package skill

import (
	"cmp"
	"context"
	"crypto/sha256"
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

// walk is one scan of one root.
type walk struct {
	root
	log    *slog.Logger
	guard  *os.Root // of a project; nil elsewhere
	within string   // path of guard, without links
	seen   map[string]bool
	links  []string // not followed yet
	buf    []byte
	skills []Skill
}

// place is a directory: the path on which the scan reached it, and the path without links.
type place struct{ path, real string }

func (w *walk) confine(dir string) error {
	var err error
	if w.within, err = filepath.EvalSymlinks(dir); err != nil {
		return err
	}

	w.guard, err = os.OpenRoot(w.within)
	return err
}

// run follows links last, so that a directory is first reached under its own path.
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

// below visits a directory, which is the root or a link, and all directories below it.
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

		return nil // a link to a file
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

// target resolves the links of a path.
func (w *walk) target(path string) (string, error) {
	target, err := filepath.EvalSymlinks(path)
	if err == nil && !inside(w.within, target) {
		err = errOutside
	}

	return target, err
}

// visit adds the skill of a directory and returns the directories in it, the first one last.
func (w *walk) visit(ctx context.Context, at place) []place {
	dirs, files, err := w.list(at)
	// The file can be accessible in a directory that cannot be listed.
	switch info, statErr := os.Lstat(filepath.Join(at.real, fileName)); {
	case statErr == nil && !info.IsDir():
		files = append([]string{fileName}, slices.DeleteFunc(files, func(name string) bool { return name == fileName })...)
	case err == nil && statErr != nil && !errors.Is(statErr, fs.ErrNotExist):
		err, dirs = statErr, nil
	}

	if err != nil {
		w.log.WarnContext(ctx, "directory is left out of the scan for skills", "path", at.path, "err", err)
	}

	if len(files) > 1 {
		w.log.WarnContext(ctx, "a directory has several skill files", "path", at.path, "used", files[0], "unused", files[1:])
	}

	if len(files) > 0 {
		w.take(ctx, at, files[0])
	}

	return dirs
}

// list returns the directories in a directory, the first one last, and in byte order the names of
// its files that are SKILL.md in any letter case. Other links are followed later.
func (w *walk) list(at place) ([]place, []string, error) {
	f, err := os.Open(at.real)
	if err != nil {
		return nil, nil, err
	}

	defer func() { _ = f.Close() }()
	var dirs []place
	var files []string
	for {
		entries, err := f.ReadDir(batch)
		for _, entry := range entries {
			name := entry.Name()
			path := filepath.Join(at.path, name)
			switch {
			case entry.IsDir():
				dirs = append(dirs, place{path, filepath.Join(at.real, name)})
			case len(name) == len(fileName) && strings.EqualFold(name, fileName): // a letter outside ASCII is longer
				files = append(files, name)
			case entry.Type()&fs.ModeSymlink != 0:
				w.links = append(w.links, path)
			}
		}

		if err != nil {
			slices.Sort(files)
			slices.SortFunc(dirs, func(a, b place) int { return cmp.Compare(b.path, a.path) })
			if errors.Is(err, io.EOF) {
				err = nil
			}

			return dirs, files, err
		}
	}
}

// take adds the skill of a file in a directory.
func (w *walk) take(ctx context.Context, at place, file string) {
	skill := Skill{Source: w.source, Location: filepath.Join(at.path, file), within: w.within}
	head, size, err := w.head(filepath.Join(at.real, file))
	if err != nil {
		w.log.WarnContext(ctx, "skill is left out", "path", skill.Location, "err", err)
		return
	}

	skill.sum = sha256.Sum256(head)
	var problems, hints []string // of each mistake in the file, and its correction
	add := func(err error, hint string) {
		problems, hints = append(problems, strings.ReplaceAll(err.Error(), "\n", " ")), append(hints, hint)
	}
	if size > MaxBytes {
		add(fmt.Errorf("it has %d bytes, at most %d are read", size, MaxBytes), "move rarely needed parts into other files")
	}

	if front, _, err := split(head); err != nil { // then it has no description either
		add(err, hintFrontmatter)
	} else {
		var doc Document
		doc, err = fields(front)
		skill.Hidden = doc.Hidden
		skill.Name, skill.Description = doc.Name, doc.Description
		// Other programs accept values that YAML does not. Those that were read are no problem.
		named := linesOf(string(front), keyName) != nil
		if err != nil && (skill.Description == "" || named && skill.Name == "") {
			add(err, hintYAML)
		}

		if skill.Description == "" {
			add(errNoDescription, hintDescription)
		}
	}

	if skill.Name == "" {
		skill.Name = nameOf(at.path)
	}

	if problems != nil {
		w.log.WarnContext(ctx, "skill has problems", "path", skill.Location, "name", skill.Name, "err", strings.Join(problems, "; "), "hint", strings.Join(hints, "; "))
	}

	w.skills = append(w.skills, skill)
}

// head reads the part of a SKILL.md that can contain frontmatter. It is valid until the next call.
func (w *walk) head(path string) ([]byte, int64, error) {
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

// inside reports whether path is dir or below it. Both have no links. Every path is inside "".
func inside(dir, path string) bool {
	if dir == "" {
		return true
	}

	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// nameOf returns the name of a skill whose file has none. The name of a directory can be any text.
func nameOf(dir string) string {
	if name := oneLine(filepath.Base(dir)); name != "" {
		return name
	}

	return strings.ToLower(strings.TrimSuffix(fileName, ".md"))
}
