package agentvalue

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

const maxKeyFile = 64 << 10 // bytes

// ReadKeys returns the list of API keys in a file, without a byte order mark.
func ReadKeys(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read keys: %w", err)
	}

	defer func() { _ = f.Close() }() // it was opened for reading
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	list := strings.TrimSpace(strings.TrimPrefix(string(text), "\ufeff"))
	if err == nil && (list == "" || len(text) > maxKeyFile) {
		err = errors.New("it is empty, or longer than 64 KiB")
	}

	if err != nil {
		return "", fmt.Errorf("read keys in %s: %w", path, err)
	}

	return list, nil
}
