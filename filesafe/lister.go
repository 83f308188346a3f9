package filesafe

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/seed93082962/agenthost/internal/leaf/longpath"
)

// level is one directory on the current path.
type level struct {
	above int      // bytes of the path that are above it
	root  *os.Root // nil if it was closed
	steps []step   // the next ones, in order
	held  int      // number of steps that were read and not dropped
	last  step     // the one before them
	more  bool     // there may be further steps
}

// step yields an entry, or enters a directory. The keys of all levels are in the order of whole
// paths, because a directory is entered at its name with "/", which no name contains: siblings may
// come between the two (a, a-b, a/).
type step struct {
	key      string
	mode     fs.FileMode
	size     int64
	modified time.Time
}

func (s *step) enters() bool { return strings.HasSuffix(s.key, "/") }

func (l *lister) compare(a, b step) int {
	if l.byKind && a.mode.IsDir() != b.mode.IsDir() {
		if a.mode.IsDir() {
			return -1
		}

		return 1
	}

	return strings.Compare(a.key, b.key)
}

// run traverses the tree once. Its error concerns only the top directory.
func (l *lister) run() error {
	if err := l.enter(""); err != nil {
		return err
	}

	for n := 0; len(l.levels) > 0; n++ {
		if n%64 == 0 && l.ctx.Err() != nil {
			return l.stop(context.Cause(l.ctx))
		}

		at := l.levels[len(l.levels)-1]
		if len(at.steps) == 0 {
			var err error
			if at.more {
				err = l.load(at)
			}

			if fatal(err) || err != nil && len(l.levels) == 1 {
				return err
			}

			if err != nil || len(at.steps) == 0 {
				l.leave()
			}

			continue
		}

		next := at.steps[0]
		at.last = next
		at.steps = at.steps[1:]
		if next.enters() { // unreadable directories are omitted
			if err := l.enter(next.key); fatal(err) {
				return err
			}
		} else if !l.yield(l.entry(next), nil) {
			return errStopped
		}
	}

	return nil
}

// fatal reports whether an error ends the listing, in contrast to an unreadable subdirectory. A
// listing must not be incomplete because the process lacks resources.
func fatal(err error) bool {
	return isAny(err, errStopped, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, fs.ErrClosed)
}

// stop yields an error as the last value.
func (l *lister) stop(err error) error {
	l.yield(FileEntry{}, err)
	return errStopped
}

// hold reserves memory for the steps in memory and more steps, or releases it.
func (l *lister) hold(more int) error {
	if l.reserve == nil {
		return nil
	}

	bytes := stepBytes * max(0, l.held+more-freeSteps)
	if err := l.reserve(bytes - l.reserved); err != nil {
		return l.stop(err)
	}

	l.reserved = bytes
	return nil
}

// drop removes the steps of a level from memory.
func (l *lister) drop(at *level) {
	l.held -= at.held
	at.held = 0
	at.steps = nil
	_ = l.hold(0) // it only releases
}

func (l *lister) close() {
	for len(l.levels) > 0 {
		l.leave()
	}
}

func (l *lister) leave() {
	last := l.levels[len(l.levels)-1]
	l.drop(last)
	last.close()
	l.path = l.path[:last.above]
	l.levels = l.levels[:len(l.levels)-1]
}

func (at *level) close() {
	if at.root != nil {
		_ = at.root.Close() // it was only read
	}

	at.root = nil
}

// enter reads a directory below the last level. Its key is "" for the top directory.
func (l *lister) enter(key string) error {
	at := &level{above: len(l.path)}
	l.path = append(l.path, key...)
	l.levels = append(l.levels, at)
	if err := l.load(at); err != nil {
		l.leave()
		return err
	}

	if n := len(l.levels) - 1 - maxRoots; n >= 0 {
		l.levels[n].close()
	}

	// Dropped steps of upper levels are read again later.
	for _, above := range l.levels[:len(l.levels)-1] {
		if l.held <= maxSteps {
			break
		}

		above.more = above.more || len(above.steps) > 0
		l.drop(above)
	}

	return nil
}

// load reads the next steps of the last level, at most maxSteps of them.
func (l *lister) load(at *level) error {
	if at.root == nil {
		// A path that ends in "." makes os.Root open the element before it as a directory, which
		// never blocks, even if the file was replaced.
		parent := l.dir.root
		name := filepath.Join(l.top, string(l.path))
		if n := len(l.levels) - 2; n >= 0 && l.levels[n].root != nil {
			parent = l.levels[n].root
			name = filepath.Base(name)
		}

		root, err := parent.OpenRoot(name + "/.")
		if err != nil {
			return err
		}

		at.root = root
	}

	f, err := at.root.Open(".")
	if err != nil {
		return err
	}

	defer func() { _ = f.Close() }() // it was only read
	l.drop(at)
	var steps []step
	cut := false // steps after the last of the first maxSteps were dropped
	shorten := func() {
		slices.SortFunc(steps, l.compare)
		if cut = cut || len(steps) > maxSteps; cut {
			steps = slices.Clone(steps[:maxSteps]) // releases the names
		}
	}
	needed := func(s step) bool {
		return (at.last.key == "" || l.compare(s, at.last) > 0) && (!cut || l.compare(s, steps[maxSteps-1]) < 0)
	}
	const dir = fs.ModeDir
	for {
		if err := l.hold(len(steps) + 2*batch); err != nil {
			return err
		}

		names, err := f.Readdirnames(batch)
		for _, name := range names {
			// Each reading of a huge directory calls stat only for the files that it may need.
			if !needed(step{key: name}) && !needed(step{key: name, mode: dir}) && !needed(step{key: name + "/", mode: dir}) {
				continue
			}

			info, err := at.root.Lstat(name)
			if fatal(err) {
				return err
			} else if err != nil { // it was removed
				continue
			}

			s := step{key: name, mode: info.Mode(), size: info.Size(), modified: info.ModTime()}
			if (l.byKind || s.mode.IsDir() == (l.pass == 0)) && needed(s) {
				steps = append(steps, s)
			}

			if s.mode.IsDir() && !l.byKind && (l.depth < 0 || len(l.levels) <= l.depth) {
				if s.key += "/"; needed(s) && l.fits(s.key) {
					steps = append(steps, s)
				}
			}
		}

		if len(steps) >= 2*maxSteps {
			shorten()
		}

		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}

		if l.ctx.Err() != nil {
			return l.stop(context.Cause(l.ctx))
		}
	}

	shorten()
	at.steps = steps
	at.more = cut
	at.held = len(steps)
	l.held += at.held
	return l.hold(0)
}

// fits reports whether paths of files in a directory may be short enough.
func (l *lister) fits(key string) bool {
	names := strings.Count(l.top, string(filepath.Separator)) + len(l.levels)
	return names < longpath.MaxNames && len(l.top)+len(l.path)+len(key) < longpath.MaxBytes
}

// entry returns the entry for a file in the directory of the last level.
func (l *lister) entry(s step) FileEntry {
	e := FileEntry{Name: l.prefix + string(l.path) + s.key, Type: typeOf(s.mode), ModTime: s.modified}
	switch e.Type {
	case typeFile:
		e.Size = s.size
		e.MIME = mimeOf(s.key)
	case typeSymlink:
		rel, err := l.dir.follow(filepath.Join(l.dir.path, l.top, string(l.path)), s.key)
		if err != nil {
			break
		}

		info, err := l.dir.root.Lstat(rel)
		if err != nil {
			break
		}

		e.Target = filepath.ToSlash(rel)
		if info.Mode().IsRegular() {
			e.Size = info.Size()
		}
	}

	return e
}
