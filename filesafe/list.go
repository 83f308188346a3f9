package filesafe

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"path"
	"path/filepath"
	"time"
)

// List yields the entries of a directory: first directories, then other files, each in byte order
// of their names. Links are listed and not followed. An error is the last value; it is the only one
// if the directory cannot be listed.
//
// Entries are read while the caller iterates, and entries that disappear are omitted. Memory is
// bounded for directories of any size; one with more than 65,536 entries is read several times.
func (d *Dir) List(ctx context.Context, name string) iter.Seq2[Entry, error] {
	return d.entries(ctx, name, flat)
}

// Walk is List including subdirectories down to depth levels, or all levels if depth is negative:
// first all directories, then all other files, each in byte order of their paths. An unreadable
// subdirectory is listed without its contents. Each half reads the tree once.
func (d *Dir) Walk(ctx context.Context, name string, depth int) iter.Seq2[Entry, error] {
	if depth < 0 {
		depth = maxDepth
	}
	return d.entries(ctx, name, depth)
}

const (
	flat     = -1
	maxDepth = int(^uint(0) >> 1)
)

func (d *Dir) entries(ctx context.Context, name string, depth int) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		resolved, err := d.resolveDir(name)
		if err != nil {
			yield(Entry{}, err)
			return
		}
		shown := filepath.ToSlash(name)
		if filepath.IsAbs(name) || climbs(name) {
			shown = filepath.ToSlash(resolved)
		}
		l := lister{dir: d, ctx: ctx, yield: yield, depth: depth, scratch: scratches.Get().(*scratch)}
		defer l.close()
		halves := []half{directories, others}
		if depth == flat {
			halves = []half{both}
		}
		for _, l.half = range halves {
			err := l.run(path.Clean(shown), resolved)
			if errors.Is(err, errStopped) {
				return
			} else if err != nil {
				yield(Entry{}, pathError("list", name, err))
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

// status holds the properties of a file that a listing needs. Only the type of mode is set.
type status struct {
	mode     fs.FileMode
	size     int64
	modified time.Time
}

// entry returns the entry for a file at name in a directory with a resolved path.
func (d *Dir) entry(found status, resolved, name string) Entry {
	e := Entry{Name: name, Type: typeOf(found.mode), ModTime: found.modified}
	switch {
	case found.mode.IsRegular():
		e.Size, e.MIME = found.size, mimeOf(name)
	case found.mode&fs.ModeSymlink != 0:
		rel, err := d.follow(filepath.Join(d.path, resolved), name)
		if err != nil {
			break
		}
		info, err := d.root.Lstat(rel)
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
