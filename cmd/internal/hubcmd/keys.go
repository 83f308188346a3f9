package hubcmd

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/internal/secret"
	"github.com/seed93082962/agenthost/internal/syncdir"
)

// keyFile is the file of the generated encryption key in the data directory.
const keyFile = "encryption.key"

// existingKeys returns the configured keys, or the stored one.
func (s *Settings) existingKeys() ([]string, error) {
	if s.EncryptionKeys != "" {
		keys := strings.Split(s.EncryptionKeys, ",")
		if _, err := secret.Parse(keys...); err != nil {
			return nil, fmt.Errorf("PROVIDER_ENCRYPTION_KEY: %w", err)
		}

		return keys, nil
	}

	keys, err := readKey(filepath.Join(s.DataDir, keyFile))
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("the encryption key is missing: copy it to that file with mode 0600, or set PROVIDER_ENCRYPTION_KEY: %w", err)
	}

	return keys, err
}

// encryptionKeys is existingKeys, and generates a key at the first start.
func (s *Settings) encryptionKeys(log *slog.Logger) ([]string, error) {
	path := filepath.Join(s.DataDir, keyFile)
	keys, err := s.existingKeys()
	if !errors.Is(err, fs.ErrNotExist) {
		return keys, err
	}

	if _, err := os.Stat(s.databaseFile()); err == nil {
		return nil, fmt.Errorf("%s is missing, and the secrets in the database cannot be decrypted without it: restore it, or set PROVIDER_ENCRYPTION_KEY", path)
	}

	if err := os.MkdirAll(s.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}

	if err := writeNew(path, secret.Generate()); err != nil {
		return nil, fmt.Errorf("write encryption key: %w", err)
	}

	log.Info("an encryption key was generated: a backup of the database is useless without it", "file", path)
	return readKey(path) // a concurrent process may have written it first
}

func readKey(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}

	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s is readable by other users (mode %v): run chmod 600, and treat the key as disclosed", path, info.Mode().Perm())
	}

	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}

	keys := strings.Split(string(data), ",")
	if _, err := secret.Parse(keys...); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}

	return keys, nil
}

// writeNew creates a file with one line atomically, and does not replace an existing one.
func writeNew(path, line string) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // with mode 0600
	if err != nil {
		return err
	}

	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.WriteString(line + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}

	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}

	return syncdir.Sync(filepath.Dir(path)) // after a power cut, a database without its key would be useless
}

// storageFile is the file of the data directory with its id.
const storageFile = "storage.id"

// storageID returns the id of the data directory, or "" if it has neither deployments nor files of
// tools and skills.
func (s *Settings) storageID() (string, error) {
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
