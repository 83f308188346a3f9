//go:build !linux

package filesafe

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// unknownType stands where the file system does not tell what an entry is.
const unknownType = fs.ModeIrregular

// readDir calls yield with each entry, in no order. The name is valid until yield returns, and yield says whether to go on.
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
