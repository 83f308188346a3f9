package main

import (
	"fmt"
	"io"
	"os"
)

// maxFile bounds a file that is read at once, in bytes.
const maxFile = 16 << 20

// readFile returns the content of a file, or of stdin for -.
func (a *app) readFile(path string) ([]byte, error) {
	reader := a.stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }()
		reader = file
	}
	data, err := io.ReadAll(io.LimitReader(reader, maxFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", path, err)
	case len(data) > maxFile:
		return nil, fmt.Errorf("read %s: it has more than %d bytes", path, maxFile)
	}
	return data, nil
}
