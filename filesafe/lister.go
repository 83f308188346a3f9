package filesafe

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"
)

// Bounds of one listing.
const (
	maxKeys  = 1 << 16 // names in memory, over all levels, in addition to those of one directory
	maxRoots = 16      // open directories, with two descriptors each
)

// errStopped ends a listing after the caller stopped the iteration.
var errStopped = errors.New("stopped")

// half selects the entries of one pass over a tree: all directories come before all other files.
type half int

const (
	both half = iota
	directories
	others
)

// level is one directory on the current path.
type level struct {
	shown, resolved string
	depth           int      // 0 for the top directory
	root            *os.Root // nil until needed, like file
	file            *os.File // the same directory
	fd              int      // of file, valid until it is closed
	keys            []key    // the next keys, in order
	last            key      // the key before them
	more            bool     // there may be further keys
}

type lister struct {
	dir    *Dir
	ctx    context.Context // of the call that created the lister
	yield  func(Entry, error) bool
	half   half
	depth  int
	levels []*level
	held   int // number of keys on all levels
	look   looker
	*scratch
}

func (l *lister) close() {
	scratches.Put(l.scratch)
	for _, level := range l.levels {
		level.close()
	}
}

func (l *level) close() {
	if l.file != nil { // it was only read
		_ = l.file.Close()
	}
	if l.root != nil {
		_ = l.root.Close()
	}
	l.root, l.file = nil, nil
}

// run traverses the tree once. Its error concerns only the top directory.
func (l *lister) run(shown, resolved string) error {
	if err := l.enter(shown, resolved); err != nil {
		return err
	}
	for steps := 0; len(l.levels) > 0; steps++ {
		if steps%64 == 0 && l.ctx.Err() != nil {
			return l.stop(context.Cause(l.ctx))
		}
		level := l.levels[len(l.levels)-1]
		if len(level.keys) == 0 {
			if !level.more {
				l.leave()
				continue
			}
			if err := l.load(level); fatal(err) || err != nil && level.depth == 0 {
				return err
			} else if err != nil {
				l.leave()
			}
			continue
		}
		next := level.keys[0]
		level.last, level.keys = next, level.keys[1:]
		l.held--
		if next.kind == enterDir {
			// Unreadable directories are omitted.
			if err := l.enter(path.Join(level.shown, next.name), filepath.Join(level.resolved, next.name)); fatal(err) {
				return err
			}
		} else if err := l.list(level, next); err != nil {
			return err
		}
	}
	return nil
}

// fatal reports whether an error ends the listing, in contrast to an unreadable subdirectory. A
// listing must not be incomplete because the process lacks resources.
func fatal(err error) bool {
	for _, e := range []error{errStopped, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, fs.ErrClosed} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// stop yields a cause as the last value.
func (l *lister) stop(cause error) error {
	l.yield(Entry{}, cause)
	return errStopped
}

func (l *lister) list(level *level, next key) error {
	if err := l.open(level); err != nil {
		if fatal(err) || level.depth == 0 {
			return err
		}
		l.held -= len(level.keys)
		level.keys, level.more = nil, false
		return nil
	}
	found, err := l.look.at(level.root, level.fd, next.name)
	if there := err == nil && found.mode.IsDir() == (next.kind == listDir); !there { // it was removed or replaced
		return nil
	}
	e := l.dir.entry(found, level.resolved, next.name)
	if l.depth != flat && level.shown != "." {
		e.Name = level.shown + "/" + e.Name
	}
	if !l.yield(e, nil) {
		return errStopped
	}
	return nil
}

func (l *lister) enter(shown, resolved string) error {
	level := &level{shown: shown, resolved: resolved, depth: len(l.levels), more: true}
	if err := l.load(level); err != nil {
		level.close()
		return err
	}
	l.levels = append(l.levels, level)
	if n := len(l.levels) - 1 - maxRoots; n >= 0 {
		l.levels[n].close()
	}
	// Dropped keys of upper levels are read again later.
	for _, above := range l.levels[:len(l.levels)-1] {
		if l.held <= maxKeys {
			break
		}
		if len(above.keys) > 0 {
			l.held -= len(above.keys)
			above.keys, above.more = nil, true
		}
	}
	return nil
}

func (l *lister) leave() {
	last := len(l.levels) - 1
	l.held -= len(l.levels[last].keys)
	l.levels[last].close()
	l.levels = l.levels[:last]
}

// open opens the directory of the level, if needed. A path that ends in "." makes os.Root open the
// element before it as a directory, which never blocks, even if the file was replaced.
func (l *lister) open(level *level) (err error) {
	if level.file != nil {
		return nil
	}
	defer func() {
		if err != nil {
			level.close()
		}
	}()
	if above := level.depth - 1; above >= 0 && l.levels[above].root != nil {
		level.root, err = l.levels[above].root.OpenRoot(filepath.Base(level.resolved) + "/.")
	} else {
		level.root, err = l.dir.root.OpenRoot(level.resolved + "/.")
	}
	if err == nil {
		level.file, err = level.root.OpenFile(".", os.O_RDONLY|syscall.O_NONBLOCK, 0)
	}
	var conn syscall.RawConn
	if err == nil {
		conn, err = level.file.SyscallConn()
	}
	if err == nil { // Fd would make two system calls
		err = conn.Control(func(fd uintptr) { level.fd = int(fd) })
	}
	return err
}

// load reads the next keys of a directory, at most maxKeys of them.
func (l *lister) load(level *level) error {
	if err := l.open(level); err != nil {
		return err
	}
	if level.last.name != "" { // the directory was read before
		if _, err := level.file.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
	defer l.empty()
	s := selection{lister: l, level: level}
	if err := cmp.Or(readDir(level.file, level.fd, l.buf[:], s.add), s.err); err != nil {
		return err
	}
	level.keys, level.more = s.first(), s.cut
	l.held += len(level.keys)
	return nil
}
