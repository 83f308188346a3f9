package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed93082962/agenthost/internal/ids"
)

// storageFile is the file of the data directory with its id.
const storageFile = "storage.id"

// storageID returns the id of the data directory, or "" if it has neither deployments nor files of
// tools and skills.
func (s *settings) storageID() (string, error) {
	if s.Deployer != deployProcess && s.BlobURL != "" {
		return "", nil
	}
	path := filepath.Join(s.DataDir, storageFile)
	id, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(s.DataDir, 0o700); err == nil {
			err = writeNew(path, ids.New())
		}
		if err == nil {
			id, err = os.ReadFile(path) // a concurrent process may have written it first
		}
	}
	if err != nil {
		return "", fmt.Errorf("read id of data directory: %w", err)
	}
	return strings.TrimSpace(string(id)), nil
}
