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
	"path/filepath"
	"strings"
	"unicode/utf8"

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
	left := int64(skillzip.MaxUnpacked)
	for _, f := range r.File {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		n, err := unpackEntry(root, f, left)
		if err != nil {
			return fmt.Errorf("entry %.200q: %w", f.Name, err)
		}
		left -= n
	}
	return nil
}

// unpackEntry unpacks one entry of at most limit bytes and returns its size.
func unpackEntry(root *os.Root, f *zip.File, limit int64) (int64, error) {
	name, err := entryName(f)
	if err != nil {
		return 0, err
	}
	if f.Mode().IsDir() {
		return 0, root.MkdirAll(name, 0o700)
	}
	if parent := path.Dir(name); parent != "." {
		if err := root.MkdirAll(parent, 0o700); err != nil {
			return 0, err
		}
	}
	in, err := f.Open()
	if err != nil {
		return 0, err
	}
	defer func() { _ = in.Close() }() // Read returns the error of a checksum
	mode := fs.FileMode(0o600) | f.Mode()&0o100
	out, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(out, io.LimitReader(in, limit+1))
	if err := errors.Join(err, out.Close()); err != nil {
		return 0, err
	}
	if n > limit {
		return 0, fmt.Errorf("the archive is larger than %d bytes unpacked", skillzip.MaxUnpacked)
	}
	return n, nil
}

// entryName returns the path of an entry, which is below the root and not that of a link.
func entryName(f *zip.File) (string, error) {
	name := strings.TrimSuffix(f.Name, "/")
	switch mode := f.Mode(); {
	case !mode.IsRegular() && !mode.IsDir():
		return "", errors.New("it is neither a file nor a directory")
	case !utf8.ValidString(name) || strings.ContainsAny(name, "\\\x00"):
		return "", errors.New("its name is not valid")
	case name != path.Clean(name) || !filepath.IsLocal(name):
		return "", errors.New("its path is not below the root")
	}
	return name, nil
}
