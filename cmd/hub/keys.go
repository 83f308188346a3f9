package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/seed93082962/agenthost/hub/secret"
)

// keyFile holds the encryption key that was made where none was set.
const keyFile = "encryption.key"

// encryptionKeys are the keys that were set, or the one that the data directory keeps.
func (s *settings) encryptionKeys(log *slog.Logger) (string, error) {
	if s.EncryptionKeys != "" {
		if _, err := secret.Parse(s.EncryptionKeys); err != nil {
			return "", fmt.Errorf("PROVIDER_ENCRYPTION_KEY: %w", err)
		}
		return s.EncryptionKeys, nil
	}
	path := filepath.Join(s.DataDir, keyFile)
	keys, err := readKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return keys, err
	}
	if _, err := os.Stat(s.databaseFile()); err == nil {
		return "", fmt.Errorf("%s is gone, and without it what the database has sealed cannot be opened: bring it back, or set PROVIDER_ENCRYPTION_KEY", path)
	}
	if err := os.MkdirAll(s.DataDir, 0o700); err != nil {
		return "", fmt.Errorf("make data directory: %w", err)
	}
	if err := writeKey(path); err != nil {
		return "", fmt.Errorf("write encryption key: %w", err)
	}
	log.Info("made an encryption key: a backup of the database is worth nothing without it", "file", path)
	return readKey(path) // another process may have been faster
}

func readKey(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("%s can be read by others (mode %v): chmod 600 it, and think of the key as known", path, info.Mode().Perm())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	keys := strings.TrimSpace(string(data))
	if _, err := secret.Parse(keys); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return keys, nil
}

// writeKey makes the file whole or not at all, and leaves one that is there already.
func writeKey(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), keyFile+".*") // with mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.WriteString(secret.Generate() + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
