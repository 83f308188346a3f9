// Package syncdir writes the names in a directory to the disk. Otherwise a power cut may undo the
// creation of a file whose content is there.
package syncdir

import (
	"errors"
	"os"
	"runtime"
)

// Sync writes the names in the directory to the disk. On Windows it does nothing, because
// directories cannot be synced there.
func Sync(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}

	dir, err := os.Open(path)
	if err != nil {
		return err
	}

	return errors.Join(dir.Sync(), dir.Close())
}
