package db

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
)

// createFile creates the database file with mode 0600, because SQLite would make it readable by
// every user. SQLite gives the files next to it the same mode.
func createFile(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("make file: %w", err)
	}
	return f.Close()
}

// restrictFiles removes the permissions of other users from the files of the database: a former
// version, a copy or a wide umask may have left them readable. If path is a link, they are where it
// points to.
func restrictFiles(path string, logger *slog.Logger) {
	if runtime.GOOS == "windows" {
		return // a mode does not control access there
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm()&0o077 == 0 {
			continue
		}
		mode := info.Mode().Perm().String()
		if err := os.Chmod(name, 0o600); err != nil {
			logger.Warn("a database file is accessible to other users, and its mode cannot be changed", "file", name, "mode", mode, "err", err)
			continue
		}
		logger.Warn("a database file was accessible to other users: its mode is now 0600", "file", name, "mode", mode)
	}
}
