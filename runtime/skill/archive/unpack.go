package archive

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/seed93082962/agenthost/internal/skillzip"
)

// unpack unpacks a zip archive into a new directory. It trusts no size in the archive.
func unpack(ctx context.Context, packed, dir string) error {
	in, err := os.Open(packed)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was opened for reading
	info, err := in.Stat()
	if err != nil {
		return err
	}
	r, err := skillzip.Open(in, info.Size())
	if err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // its files are closed
	to := destination{root: root, left: skillzip.MaxUnpacked, made: map[string]bool{}}
	for _, f := range r.File {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		name, err := to.names.Add(f.Name, f.Mode().IsDir())
		if err != nil {
			return err
		}
		if err := to.unpack(name, f); err != nil {
			return fmt.Errorf("entry %.200q: %w", f.Name, err)
		}
	}
	return nil
}

// destination is a directory that an archive is unpacked into.
type destination struct {
	root  *os.Root
	names skillzip.Names
	left  int64           // bytes that the next files may have
	made  map[string]bool // directories
}

// unpack unpacks one entry. The name is "" for the root.
func (d *destination) unpack(name string, f *zip.File) error {
	switch mode := f.Mode(); {
	case !mode.IsRegular() && !mode.IsDir():
		return errors.New("it is neither a file nor a directory")
	case name == "":
		return nil
	case mode.IsDir():
		return d.mkdir(name)
	}
	if err := d.mkdir(path.Dir(name)); err != nil {
		return err
	}
	in, err := f.Open()
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // Read returns the error of a checksum
	out, err := d.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fs.FileMode(0o600)|f.Mode()&0o100)
	if err != nil {
		return err
	}
	n, err := io.Copy(out, io.LimitReader(in, d.left+1))
	if err := errors.Join(err, out.Close()); err != nil {
		return err
	}
	if d.left -= n; d.left < 0 {
		return fmt.Errorf("the archive is larger than %d bytes unpacked", skillzip.MaxUnpacked)
	}
	return nil
}

// mkdir makes a directory with those above it, once.
func (d *destination) mkdir(name string) error {
	if d.made[name] {
		return nil
	}
	d.made[name] = true
	return d.root.MkdirAll(name, 0o700)
}
