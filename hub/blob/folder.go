package blob

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/seed93082962/agenthost/internal/diskspace"
)

const (
	// tempDir is the directory of incomplete files, below the folder because rename(2) needs the
	// same file system.
	tempDir = ".tmp"

	// tempAge is the age at which a file in tempDir is one of a hub that was killed.
	tempAge = time.Hour

	// tries bounds how often a directory is created again that a deletion removes concurrently.
	tries = 8
)

// Folder contains blobs as files of a directory, which several hubs may share. No path and no
// symbolic link leads outside.
type Folder struct{ root *os.Root }

// OpenFolder opens the directory dir, and creates it if it does not exist.
func OpenFolder(dir string) (*Folder, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create folder of artifacts: %w", err)
	}

	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open folder of artifacts: %w", err)
	}

	f := &Folder{root}
	if err := f.removeTemporary(); err != nil {
		return nil, errors.Join(fmt.Errorf("clean folder of artifacts: %w", err), root.Close())
	}

	return f, nil
}

// OpenFolderToRead opens an existing directory and changes nothing in it. Only methods that read
// may be called.
func OpenFolderToRead(dir string) (*Folder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open folder of artifacts: %w", err)
	}

	return &Folder{root}, nil
}

// Close closes the directory. Open blobs stay open.
func (f *Folder) Close() error { return f.root.Close() }

// removeTemporary removes files that were never completed.
func (f *Folder) removeTemporary() error {
	if err := f.root.MkdirAll(tempDir, 0o700); err != nil {
		return err
	}

	return f.entries(tempDir, func(name string, entry fs.DirEntry) error {
		info, err := entry.Info()
		if err == nil && time.Since(info.ModTime()) > tempAge {
			err = f.root.Remove(name)
		}

		return ignore(err, fs.ErrNotExist)
	})
}

// Put implements [Driver].
func (f *Folder) Put(ctx context.Context, key string, content io.ReadSeeker, size int64) error {
	temp := path.Join(tempDir, rand.Text())
	file, err := f.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return full(err)
	}

	_, err = io.CopyN(file, reader{ctx, content}, size)
	if err == nil {
		err = file.Sync()
	}

	err = errors.Join(err, file.Close())
	if err == nil {
		err = f.rename(temp, key)
	}

	if err != nil {
		_ = f.root.Remove(temp) // err is the error to return
	}

	return full(err)
}

// reader ends with its context.
type reader struct {
	ctx context.Context
	io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if err := context.Cause(r.ctx); err != nil {
		return 0, err
	}

	return r.Reader.Read(p)
}

// rename moves a file to its key, and writes the names of the path to the disk.
func (f *Folder) rename(temp, key string) error {
	dir := path.Dir(key)
	var err error
	for range tries {
		if err = f.root.MkdirAll(dir, 0o700); err == nil {
			err = f.root.Rename(temp, key)
		}

		// MkdirAll returns ErrExist if the directory is removed while it looks what has the name.
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
			break
		}
	}

	if err != nil {
		return err
	}

	for dir != "." {
		if err := f.sync(dir); err != nil {
			return err
		}

		dir = path.Dir(dir)
	}

	return f.sync(dir)
}

func (f *Folder) sync(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // directories cannot be synced there
	}

	d, err := f.root.Open(dir)
	if err != nil {
		return ignore(err, fs.ErrNotExist) // the blob was deleted since
	}

	return errors.Join(d.Sync(), d.Close())
}

// Open implements [Driver].
func (f *Folder) Open(ctx context.Context, key string) (*Blob, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}

	// O_NONBLOCK is for a FIFO, which would wait for a writer. The folder belongs to the hub, and
	// the check below is for mistakes of its operator.
	file, err := f.root.OpenFile(key, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, missing(err)
	}

	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("open %s: not a file: %w", key, ErrNotExist)
	}

	if err != nil {
		return nil, errors.Join(err, file.Close())
	}

	return &Blob{Info{key, info.Size(), info.ModTime()}, file}, nil
}

// Stat implements [Driver].
func (f *Folder) Stat(ctx context.Context, key string) (Info, error) {
	if err := ctx.Err(); err != nil {
		return Info{}, err
	}

	info, err := f.root.Stat(key)
	if err != nil {
		return Info{}, missing(err)
	}

	if !info.Mode().IsRegular() {
		return Info{}, fmt.Errorf("stat %s: not a file: %w", key, ErrNotExist)
	}

	return Info{key, info.Size(), info.ModTime()}, nil
}

// Delete implements [Driver]. The file is first moved away and then checked, so that content that
// is put concurrently, also by another process, is either found to be new or not touched.
func (f *Folder) Delete(ctx context.Context, key string, unmodifiedSince time.Time) error {
	info, err := f.Stat(ctx, key)
	if err != nil || !info.Modified.Before(unmodifiedSince) {
		return ignore(err, ErrNotExist)
	}

	temp := path.Join(tempDir, rand.Text())
	if err := f.root.Rename(key, temp); err != nil {
		return ignore(missing(err), ErrNotExist)
	}

	moved, err := f.root.Stat(temp)
	if err == nil && !moved.ModTime().Before(unmodifiedSince) {
		return f.rename(temp, key)
	}

	// A hub that starts may have removed it.
	if err := ignore(errors.Join(err, f.root.Remove(temp)), fs.ErrNotExist); err != nil {
		return err
	}

	_ = f.root.Remove(path.Dir(key)) // it may have other files
	return nil
}

// List implements [Driver].
func (f *Folder) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		stopped := errors.New("the caller stopped")
		var walk func(dir string) error
		walk = func(dir string) error {
			return f.entries(dir, func(name string, entry fs.DirEntry) error {
				if err := ctx.Err(); err != nil {
					return err
				}

				switch {
				case name == tempDir:
					return nil
				case entry.IsDir():
					if strings.HasPrefix(prefix, name+"/") || strings.HasPrefix(name+"/", prefix) {
						return walk(name)
					}

					return nil
				case !entry.Type().IsRegular() || !strings.HasPrefix(name, prefix):
					return nil
				}

				info, err := entry.Info()
				if err != nil {
					return ignore(err, fs.ErrNotExist)
				}

				if !yield(Info{name, info.Size(), info.ModTime()}, nil) {
					return stopped
				}

				return nil
			})
		}
		if err := walk("."); err != nil && !errors.Is(err, stopped) {
			yield(Info{}, fmt.Errorf("list artifacts: %w", err))
		}
	}
}

// entries calls do for each entry of a directory, with its path. It holds at most 256 of them.
func (f *Folder) entries(dir string, do func(name string, entry fs.DirEntry) error) error {
	d, err := f.root.Open(dir)
	if err != nil {
		return ignore(err, fs.ErrNotExist) // it was removed since
	}

	defer func() { _ = d.Close() }() // it was only read
	for {
		entries, err := d.ReadDir(256)
		for _, entry := range entries {
			if err := do(path.Join(dir, entry.Name()), entry); err != nil {
				return err
			}
		}

		if errors.Is(err, io.EOF) {
			return nil
		}

		if err != nil {
			return err
		}
	}
}

// Link implements [Driver].
func (f *Folder) Link(context.Context, string, time.Time) (string, error) {
	return "", errors.ErrUnsupported
}

// missing converts the errors of a path without a file to ErrNotExist.
func missing(err error) error {
	if errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EISDIR) {
		return fmt.Errorf("%w: %w", ErrNotExist, err)
	}

	return err
}

// full adds ErrFull to the errors of a disk without space.
func full(err error) error {
	if diskspace.IsFull(err) {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}

	return err
}

func ignore(err, target error) error {
	if errors.Is(err, target) {
		return nil
	}

	return err
}
