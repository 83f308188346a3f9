package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/seed93082962/agenthost/internal/filelock"
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

	return readBounded(path, reader)
}

// readRegular returns the content of a regular file. It does not wait for the writer of a FIFO.
func readRegular(path string) ([]byte, error) {
	file, err := openRegular(path)
	if err != nil {
		return nil, err
	}

	defer func() { _ = file.Close() }()
	return readBounded(path, file)
}

// openRegular opens a regular file.
func openRegular(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|filelock.OpenFlags, 0)
	if err != nil {
		return nil, err
	}

	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("open %s: it is not a regular file", path)
	}

	if err != nil {
		return nil, errors.Join(err, file.Close())
	}

	return file, nil
}

func readBounded(path string, reader io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(reader, maxFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", path, err)
	case len(data) > maxFile:
		return nil, fmt.Errorf("read %s: it has more than %d bytes", path, maxFile)
	}

	return data, nil
}
