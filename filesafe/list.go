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

// List yields the entries of a directory: directories first, then the others, each in byte order of their names. Links are
// told, not followed. An error is the last thing that is yielded, the first if there is nothing to list.
//
// Entries are looked at one by one while the caller goes on, and what disappears meanwhile is left out. Memory is bounded
// however large the directory is; one of more than 65,536 entries is read several times instead.
func (d *Dir) List(ctx context.Context, name string) iter.Seq2[Entry, error] {
	return d.entries(ctx, name, flat)
}

// Walk is List with all that is in subdirectories down to depth levels, without end if depth is negative: first all
// directories, then all others, each in byte order of their paths. A subdirectory that cannot be read is told without what
// is in it. A tree is read twice, once for each half.
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
				yield(Entry{}, fault("list", name, err))
				return
			}
		}
	}
}

// resolveDir answers the path of a directory, free of links. A caller that has it may still be refused when it reads.
func (d *Dir) resolveDir(name string) (string, error) {
	rel, info, err := d.stat("list", name)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return "", fault("list", name, ErrNotDirectory)
	}
	if rel, err = d.Resolve(rel); err != nil {
		return "", fault("list", name, err)
	}
	return rel, nil
}

// status is what a listing asks of a file. Of the mode, the type counts.
type status struct {
	mode     fs.FileMode
	size     int64
	modified time.Time
}

// entry describes what was found at name in a directory, whose path is resolved.
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
