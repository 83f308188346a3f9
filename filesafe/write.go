package filesafe

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// WriteFile puts data where name leads. It makes the directories that are missing; a file that is there is replaced as a
// whole, so that readers find the old or the new content and a crash of the process leaves no half of it, and keeps its
// permission bits. Nothing is synced: when the machine goes down within some seconds, the file may be the old one, the new
// one or, on some file systems, an empty one. Who needs more opens the file and calls Sync.
// perm (before umask) is for a new one. A link is written through if its end is inside, also when nothing is there yet.
// What may not be written is not replaced either. A replaced file is a new one to its other hard links and to who has it open.
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
		return fault("write", name, err)
	}
	return nil
}

// writable answers the permission bits of a file that may be written.
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
	// In the same directory, or it could not be renamed; under a name of its own, for the file's may be as long as names get.
	temp := filepath.Join(filepath.Dir(rel), ".filesafe-"+rand.Text())
	f, err := d.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil && exact {
		err = f.Chmod(perm) // without umask
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = d.root.Rename(temp, rel)
	}
	if err != nil {
		_ = d.root.Remove(temp) // err tells what went wrong
	}
	return err
}
