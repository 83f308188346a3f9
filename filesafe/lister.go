package filesafe

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Bounds on what one listing holds.
const (
	maxKeys  = 1 << 16 // names in memory, over all levels, plus what one directory adds
	maxRoots = 32      // open directories
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

// kind is what is done at a key.
type kind byte

const (
	tellDir   kind = iota
	enterDir       // go through what is in it
	tellOther      // whatever is no directory
)

// key is one step in a directory. The steps of all levels, in their order, give whole paths in byte order, with no more in
// memory than the siblings on the way: a directory is told at its name, and gone through at its name with "/", between
// which siblings may come (a, a-b, a/c).
type key struct {
	name string
	kind kind
}

func (l *lister) compare(a, b key) int {
	if l.half == both {
		return compareFlat(a, b)
	}
	return comparePaths(a, b)
}

func compareFlat(a, b key) int {
	if a.kind != b.kind {
		return int(a.kind) - int(b.kind)
	}
	return strings.Compare(a.name, b.name)
}

func comparePaths(a, b key) int {
	n := min(len(a.name), len(b.name))
	if c := strings.Compare(a.name[:n], b.name[:n]); c != 0 {
		return c
	}
	return a.at(n) - b.at(n)
}

// at is the byte at n of the key's path, of which n is at most the end; no name holds "/".
func (k key) at(n int) int {
	switch {
	case n < len(k.name):
		return int(k.name[n])
	case k.kind == enterDir:
		return '/'
	}
	return -1
}

// level is one directory on the way down.
type level struct {
	shown, resolved string
	depth           int      // of the top directory 0
	root            *os.Root // nil until it is needed
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
	buf    []byte
}

func (l *lister) close() {
	for _, level := range l.levels {
		level.close()
	}
}

func (l *level) close() {
	if l.root != nil {
		_ = l.root.Close() // it was only read
		l.root = nil
	}
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
	e, ok := l.dir.entry(level.root, level.resolved, next.name)
	if !ok || (e.Type == "directory") != (next.kind == tellDir) { // it is gone, or another by now
		return nil
	}
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
	if level.root != nil {
		return nil
	}
	if above := level.depth - 1; above >= 0 && l.levels[above].root != nil {
		level.root, err = l.levels[above].root.OpenRoot(filepath.Base(level.resolved) + "/.")
	} else {
		level.root, err = l.dir.root.OpenRoot(level.resolved + "/.")
	}
	return err
}

// load reads the next keys of a directory. Of more than maxKeys it keeps the first ones.
func (l *lister) load(level *level) error {
	if err := l.open(level); err != nil {
		return err
	}
	f, err := level.root.OpenFile(".", os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	s := selection{lister: l, level: level}
	if err := cmp.Or(readDir(f, l.buf, s.add), s.err); err != nil {
		return err
	}
	s.trim()
	level.keys, level.more = s.keys, s.cut
	l.held += len(s.keys)
	return nil
}

// selection collects the first keys of a directory that come after level.last.
type selection struct {
	lister *lister
	level  *level
	keys   []key
	cut    bool // keys of the directory were dropped, all of them after limit
	limit  key
	seen   int // entries
	err    error
}

func (s *selection) add(name []byte, typ fs.FileMode) bool {
	l := s.lister
	if s.seen++; s.seen%4096 == 0 && l.ctx.Err() != nil {
		s.err = l.stop(context.Cause(l.ctx))
		return false
	}
	if typ == unknownType {
		info, err := s.level.root.Lstat(string(name))
		if err != nil {
			return true
		}
		typ = info.Mode().Type()
	}
	if typ != fs.ModeDir {
		if l.half != directories {
			s.keep(name, tellOther)
		}
		return true
	}
	if l.half != others {
		s.keep(name, tellDir)
	}
	if l.depth > s.level.depth {
		s.keep(name, enterDir)
	}
	return true
}

func (s *selection) keep(name []byte, kind kind) {
	if s.level.last.name != "" || s.cut {
		k := key{string(name), kind}
		if s.level.last.name != "" && s.lister.compare(k, s.level.last) <= 0 || s.cut && s.lister.compare(k, s.limit) > 0 {
			return
		}
	}
	if s.keys = append(s.keys, key{string(name), kind}); len(s.keys) >= 2*maxKeys {
		s.trim()
	}
}

func (s *selection) trim() {
	if s.lister.half == both {
		slices.SortFunc(s.keys, compareFlat)
	} else {
		slices.SortFunc(s.keys, comparePaths)
	}
	if len(s.keys) > maxKeys {
		clear(s.keys[maxKeys:]) // lets go of the names
		s.keys = s.keys[:maxKeys]
		s.cut, s.limit = true, s.keys[maxKeys-1]
	}
}
