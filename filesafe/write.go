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
	exists := err == nil
	switch {
	case exists:
		perm, err = d.writable(rel)
	case rel == "" || !errors.Is(err, fs.ErrNotExist):
	case os.IsPathSeparator(name[len(name)-1]):
		err = ErrNotFile
	default:
		if err = d.root.MkdirAll(filepath.Dir(rel), 0o777); errors.Is(err, syscall.ENOTDIR) {
			err = ErrNotDirectory
		}
	}
	if err == nil {
		err = d.replace(rel, data, perm, exists)
	}
	if err != nil {
		return pathError("write", name, err)
	}
	return nil
}

// writable returns the permission bits of a file, or an error if it is not writable.
func (d *Dir) writable(rel string) (fs.FileMode, error) {
	info, err := d.root.Lstat(rel)
	if err == nil && !info.Mode().IsRegular() {
		err = ErrNotFile
	}
	if err != nil {
		return 0, err
	}
	f, err := d.root.OpenFile(rel, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return 0, err
	}
	return info.Mode().Perm(), f.Close()
}

func (d *Dir) replace(rel string, data []byte, perm fs.FileMode, exact bool) error {
	// The temporary file is in the same directory, as required by rename, and has an independent
	// name because the file's name may have the maximum length.
	temp := filepath.Join(filepath.Dir(rel), ".filesafe-"+rand.Text())
	f, err := d.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil && exact {
		err = f.Chmod(perm) // ignores umask
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = d.root.Rename(temp, rel)
	}
	if err != nil {
		_ = d.root.Remove(temp) // err is the error to return
	}
	return err
}
