package archive

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/seed93082962/agenthost/internal/skillzip"
)

// unpack unpacks a zip archive into a new directory.
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

	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}

	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}

	defer func() { _ = root.Close() }() // its files are closed
	to := destination{root: root, made: map[string]bool{}}
	archive := skillzip.Reader{Limit: skillzip.MaxUnpacked, Visit: func(e skillzip.Member) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}

		return to.unpack(e)
	}}
	return archive.Zip(in, info.Size())
}

// destination is a directory that an archive is unpacked into.
type destination struct {
	root *os.Root
	made map[string]bool // directories
}

func (d *destination) unpack(e skillzip.Member) error {
	if e.Link {
		return skillzip.Linked(e.Name)
	}

	if e.Name == "" {
		return nil
	}

	if e.Dir {
		return d.mkdir(e.Name)
	}

	if err := d.mkdir(path.Dir(e.Name)); err != nil {
		return err
	}

	mode := fs.FileMode(0o600)
	if e.Executable {
		mode = 0o700
	}

	out, err := d.root.OpenFile(e.Name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}

	_, err = io.Copy(out, e.Content)
	return errors.Join(err, out.Close())
}

// mkdir makes a directory with those above it, once.
func (d *destination) mkdir(name string) error {
	if d.made[name] {
		return nil
	}

	d.made[name] = true
	return d.root.MkdirAll(name, 0o700)
}
