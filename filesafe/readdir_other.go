//go:build !linux

package filesafe

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// unknownType is the type if the file system does not return one.
const unknownType = fs.ModeIrregular

// readDir calls yield with each entry, in no particular order, until yield returns false. The name
// is valid until yield returns.
func readDir(f *os.File, _ int, _ []byte, yield func(name []byte, typ fs.FileMode) bool) error {
	for {
		entries, err := f.ReadDir(1000)
		for _, e := range entries {
			if !yield([]byte(e.Name()), e.Type()) {
				return nil
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}
