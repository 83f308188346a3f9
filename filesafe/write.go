package filesafe

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// WriteFile writes data to name and creates missing directories. An existing file is replaced
// atomically: readers see the old or the new contents, also if the process crashes. It keeps its
// permission bits; perm (before umask) applies to new files. Nothing is synced: if the machine
// fails within seconds, the file may have the old contents, the new ones or, on some file systems,
// none. Callers that need more open the file and call Sync.
//
// WriteFile follows a link whose target is inside, even if no file exists there. A file without
// write permission is not replaced. After a replacement, other hard links and open descriptors
// refer to the old file.
func (d *Dir) WriteFile(name string, data []byte, perm fs.FileMode) error {
	rel, err := d.Resolve(name)
	switch {
	case err == nil:
	case rel == "" || !errors.Is(err, fs.ErrNotExist):
		return pathError("write", name, err)
	case os.IsPathSeparator(name[len(name)-1]):
		return pathError("write", name, ErrNotFile)
	}

	if err := d.write(rel, data, perm); err != nil {
		return pathError("write", name, err)
	}

	return nil
}

// WriteResolved is [Dir.WriteFile] for a path that [Dir.Resolve] has returned. It follows no link:
// the path may have been judged, and a link that has replaced a part of it since is an error.
func (d *Dir) WriteResolved(path string, data []byte, perm fs.FileMode) error {
	err := checkName(path)
	if err == nil && !filepath.IsLocal(path) {
		err = ErrOutside
	}

	if err == nil {
		err = d.write(path, data, perm)
	}

	if err != nil {
		return pathError("write", path, err)
	}

	return nil
}

// write writes a file at a path without links.
func (d *Dir) write(rel string, data []byte, perm fs.FileMode) error {
	at, err := d.makeParent(rel)
	if err != nil {
		return err
	}

	defer func() { _ = at.Close() }() // the file is closed
	name := filepath.Base(rel)
	present, err := writable(at, name)
	exists := err == nil
	switch {
	case exists:
		perm = present
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}

	return replace(at, name, data, perm, exists)
}

// makeParent opens the directory of a path without links, and creates missing ones. os.Root follows
// links: a directory that was replaced by one is not the one that was opened.
func (d *Dir) makeParent(rel string) (*os.Root, error) {
	at, err := d.root.OpenRoot(".")
	for rest := filepath.Dir(rel); err == nil && rest != "."; {
		part, after, deeper := cut(rest)
		if rest = after; !deeper {
			rest = "."
		}

		var next *os.Root
		next, err = makeDirectory(at, part)
		_ = at.Close() // it was only read
		at = next
	}

	return at, err
}

// makeDirectory opens a directory that is not a link, and creates it if it is missing.
func makeDirectory(at *os.Root, name string) (*os.Root, error) {
	info, err := at.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		if err = at.Mkdir(name, 0o777); err == nil || errors.Is(err, fs.ErrExist) {
			info, err = at.Lstat(name)
		}
	}

	if err == nil && !info.IsDir() {
		err = ErrNotDirectory
	}

	if err != nil {
		return nil, err
	}

	dir, err := at.OpenRoot(name)
	if err != nil {
		return nil, err
	}

	if opened, err := dir.Stat("."); err != nil || !os.SameFile(info, opened) {
		_ = dir.Close() // it was only read
		return nil, ErrNotDirectory
	}

	return dir, nil
}

// writable returns the permission bits of a file, or an error if it is not writable.
func writable(at *os.Root, name string) (fs.FileMode, error) {
	info, err := at.Lstat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = ErrNotFile
	}

	if err != nil {
		return 0, err
	}

	f, err := at.OpenFile(name, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return 0, err
	}

	return info.Mode().Perm(), f.Close()
}

// replace replaces a file or a link.
func replace(at *os.Root, name string, data []byte, perm fs.FileMode, exact bool) error {
	// The temporary file is in the same directory, as required by rename, and has an independent
	// name because the file's name may have the maximum length.
	temp := ".filesafe-" + rand.Text()
	f, err := at.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}

	_, err = f.Write(data)
	if err == nil && exact {
		err = f.Chmod(perm) // ignores umask
	}

	err = errors.Join(err, f.Close())
	if err == nil {
		err = at.Rename(temp, name)
	}

	if err != nil {
		_ = at.Remove(temp) // err is the error to return
	}

	return err
}
