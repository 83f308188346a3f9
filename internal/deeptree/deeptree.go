// Package deeptree deletes directories that other programs have filled: with directories that
// cannot be changed, or so many levels that a descriptor of each would be too many. The content of
// directories is moved up.
package deeptree

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Remove deletes a directory with its content. A missing one is not an error. After an error, a
// part of the directory may remain.
func Remove(dir string) error {
	if err := os.Remove(dir); err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	if err := os.Chmod(dir, 0o700); err != nil {
		return err
	}

	root, err := os.OpenRoot(dir) // a link does not lead out of it
	if err != nil {
		return err
	}

	err = each(root, ".", func(name string) error {
		if root.Remove(name) == nil {
			return nil
		}

		if err := root.Chmod(name, 0o700); err != nil {
			return err
		}

		err := each(root, name, func(inner string) error {
			path := filepath.Join(name, inner)
			if root.Remove(path) == nil {
				return nil
			}

			if err := root.Chmod(path, 0o700); err != nil {
				return err
			}

			return root.Rename(path, rand.Text())
		})
		if err != nil {
			return err
		}

		return root.Remove(name)
	})
	return errors.Join(err, root.Close(), os.Remove(dir))
}

// each calls remove with the names in a directory until it is empty.
func each(root *os.Root, dir string, remove func(name string) error) error {
	const batch = 1000
	for {
		f, err := root.Open(dir)
		if err != nil {
			return err
		}

		names, err := f.Readdirnames(batch)
		_ = f.Close() // it was opened for reading
		if errors.Is(err, io.EOF) {
			return nil
		}

		if err != nil {
			return err
		}

		for _, name := range names {
			if err := remove(name); err != nil {
				return err
			}
		}
	}
}
