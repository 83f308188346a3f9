package filesafe

import (
	"context"
	"errors"
	"iter"
	"path"
	"path/filepath"
)

// Bounds of one listing.
const (
	maxSteps = 1 << 16 // entries in memory, over all levels, in addition to those of one directory
	maxRoots = 16      // open directories
	batch    = 64      // entries that are read at a time

	freeSteps = 2 * batch // entries for which no memory is reserved
	stepBytes = 384       // of one entry with the longest name, while the list of entries grows
)

// List yields the entries of a directory: first directories, then other files, each in byte order
// of their names. Links are listed and not followed. An error is the last value; it is the only one
// if the directory cannot be listed.
//
// Memory is bounded for directories of any size; one with more than 65,536 entries is read several
// times.
func (d *Dir) List(ctx context.Context, name string) iter.Seq2[FileEntry, error] {
	return lister{dir: d, ctx: ctx, byKind: true}.entries(name)
}

// Walk is List including subdirectories down to depth levels, or all levels if depth is negative:
// first all directories, then all other files, each in byte order of their paths. An unreadable
// subdirectory is listed without its contents, and so is one whose path is the longest that a path
// may be. Each half reads the tree once.
func (d *Dir) Walk(ctx context.Context, name string, depth int) iter.Seq2[FileEntry, error] {
	return lister{dir: d, ctx: ctx, depth: depth}.entries(name)
}

// entries yields the entries of a directory.
func (l lister) entries(name string) iter.Seq2[FileEntry, error] {
	return func(yield func(FileEntry, error) bool) {
		l := l // the state of one iteration
		top, err := l.dir.resolveDir(name)
		if err != nil {
			yield(FileEntry{}, err)
			return
		}

		shown := filepath.ToSlash(name)
		if filepath.IsAbs(name) || climbs(name) {
			shown = filepath.ToSlash(top)
		}

		l.yield = yield
		l.top = top
		if shown = path.Clean(shown); !l.byKind && shown != "." {
			l.prefix = shown + "/"
		}

		passes := 2
		if l.byKind {
			passes = 1
		}

		defer l.close()
		for l.pass = range passes {
			if err := l.run(); errors.Is(err, errStopped) {
				return
			} else if err != nil {
				yield(FileEntry{}, pathError("list", name, err))
				return
			}
		}
	}
}

// resolveDir returns the path of a directory without links. Reading it may still fail.
func (d *Dir) resolveDir(name string) (string, error) {
	rel, info, err := d.stat("list", name)
	if err != nil {
		return "", err
	}

	if !info.IsDir() {
		return "", pathError("list", name, ErrNotDirectory)
	}

	if rel, err = d.Resolve(rel); err != nil {
		return "", pathError("list", name, err)
	}

	return rel, nil
}

// errStopped ends a listing after the caller stopped the iteration.
var errStopped = errors.New("stopped")

// lister traverses a tree in the order of whole paths. Only the entries of the directories on the
// current path are in memory.
type lister struct {
	dir    *Dir
	ctx    context.Context // of the call that created the lister
	yield  func(FileEntry, error) bool
	top    string // the resolved path of the top directory
	prefix string // of the names of a walk: the path of the top directory, with "/"
	byKind bool   // one pass over one directory, which yields its directories first
	depth  int    // levels of subdirectories, or negative
	pass   int    // of a walk: 0 yields directories, 1 other files
	path   []byte // the last level, relative to the top directory: "" or with "/" at its end
	levels []*level
	held   int // number of steps on all levels

	reserve  func(bytes int) error // nil for no limit
	reserved int
}
