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

// Bounds on what one listing holds.
const (
	maxKeys  = 1 << 16 // names in memory, over all levels, plus what one directory adds
	maxRoots = 16      // open directories, of two descriptors each
)

// errStopped ends a listing whose caller wants no more.
var errStopped = errors.New("stopped")

// half is what one pass over a tree tells: all directories come before all others.
type half int

const (
	both half = iota
	directories
	others
)

// level is one directory on the way down.
type level struct {
	shown, resolved string
	depth           int      // of the top directory 0
	root            *os.Root // nil until it is needed, as is the next
	file            *os.File // the same directory
	fd              int      // the file's, good until it is closed
	keys            []key    // the next ones, in order
	last            key      // the one before them
	more            bool     // others may come after them
}

type lister struct {
	dir    *Dir
	ctx    context.Context // lives as long as the one call
	yield  func(Entry, error) bool
	half   half
	depth  int
	levels []*level
	held   int // keys on all levels
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

// run goes through the tree once. Its error tells of the top directory alone.
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
			// What cannot be read is left out.
			if err := l.enter(path.Join(level.shown, next.name), filepath.Join(level.resolved, next.name)); fatal(err) {
				return err
			}
		} else if err := l.tell(level, next); err != nil {
			return err
		}
	}
	return nil
}

// fatal tells errors that end a listing from those of a subdirectory that cannot be read. An answer that lacks files
// because this process lacks something would be a wrong one.
func fatal(err error) bool {
	for _, e := range []error{errStopped, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, fs.ErrClosed} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// stop hands a cause to the caller, as the last thing it gets.
func (l *lister) stop(cause error) error {
	l.yield(Entry{}, cause)
	return errStopped
}

func (l *lister) tell(level *level, next key) error {
	if err := l.open(level); err != nil {
		if fatal(err) || level.depth == 0 {
			return err
		}
		l.held -= len(level.keys)
		level.keys, level.more = nil, false
		return nil
	}
	found, err := l.look.at(level.root, level.fd, next.name)
	if there := err == nil && found.mode.IsDir() == (next.kind == tellDir); !there { // it is gone, or another by now
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
	// What levels above hold is read again when they are come back to.
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

// open makes sure that the level's directory is open. That a path ends in "." makes os.Root open what is before it as a
// directory only, which never blocks, whatever was put there since.
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

// load reads the next keys of a directory. Of more than maxKeys it keeps the first ones.
func (l *lister) load(level *level) error {
	if err := l.open(level); err != nil {
		return err
	}
	if level.last.name != "" { // it was read before, or a part of it
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
