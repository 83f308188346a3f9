package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/seed93082962/agenthost/internal/filelock"
)

const (
	// foundData is the directory that earlier versions created in the working directory.
	foundData = ".agenthost"
	// idFile is the file of a data directory with the id that the known hubs have for it.
	idFile = "dev-id"
	// lockFile is the file of a data directory that is locked while it is used.
	lockFile = "dev-lock"
)

// useData sets the directory of the data: that of --data, or the one that this user created in the
// working directory, or one of the user's state directory. The agents of a data directory run
// commands as this user: one of unknown origin is used only after a question.
func (d *dev) useData(ctx context.Context) error {
	found := false
	if d.data == "" {
		_, err := os.Lstat(foundData)
		if errors.Is(err, fs.ErrNotExist) {
			d.data, err = d.stateDir()
			return err
		}

		if err != nil {
			return err
		}

		d.data, found = foundData, true
	}

	dir, err := filepath.Abs(d.data)
	if err != nil {
		return err
	}

	d.data = dir
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	known, err := d.readHubs()
	if err != nil {
		return err
	}

	id, _ := readRegular(filepath.Join(dir, idFile)) // without an id it is unknown
	switch {
	case len(entries) == 0:
	case len(id) > 0 && known.Directories[dir] == string(id):
		return nil
	case found:
		return fmt.Errorf("this user has not created %s, whose agents would run commands: to adopt it, add --data %s; to use another directory, add --data DIR", dir, foundData)
	default:
		what := "This user has not created the data in " + dir + ".\nIts agents run commands as this user, with the API keys of the environment.\n"
		if err := d.agree(ctx, what, "Use it?"); err != nil {
			return err
		}
	}

	return d.adoptData(ctx)
}

// lockData locks the data directory for this process: the end of another one would stop its agents.
func (d *dev) lockData() (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(d.data, lockFile), os.O_RDWR|os.O_CREATE|filelock.OpenFlags, 0o600)
	if err != nil {
		return nil, err
	}

	if err := filelock.Lock(file); errors.Is(err, filelock.ErrLocked) {
		return nil, errors.Join(fmt.Errorf("another agenthost dev uses %s: end it, or add --data DIR", d.data), file.Close())
	} else if err != nil {
		return nil, errors.Join(err, file.Close())
	}

	return file, nil
}

// adoptData gives the data directory an id that the known hubs have.
func (d *dev) adoptData(ctx context.Context) error {
	if err := os.MkdirAll(d.data, 0o700); err != nil {
		return err
	}

	id := rand.Text()
	if err := replaceFile(filepath.Join(d.data, idFile), []byte(id)); err != nil {
		return err
	}

	return d.trust(ctx, d.data, id)
}

// trust stores that the user permits the content of a directory to run.
func (a *app) trust(ctx context.Context, dir, id string) error {
	return a.changeHubs(ctx, func(known *hubs) error {
		if known.Directories == nil {
			known.Directories = map[string]string{}
		}

		known.Directories[dir] = id
		return nil
	})
}

// stateDir creates the data directory of the working directory in the user's state directory, and
// returns its path.
func (a *app) stateDir() (string, error) {
	work, err := os.Getwd()
	if err == nil {
		work, err = filepath.EvalSymlinks(work)
	}

	if err != nil {
		return "", err
	}

	state, err := a.userStateDir()
	if err != nil {
		return "", fmt.Errorf("%w; set XDG_STATE_HOME, or use --data DIR", err)
	}

	sum := sha256.Sum256([]byte(work))
	dir := filepath.Join(state, "agenthost", "dev-"+hex.EncodeToString(sum[:8]))
	return dir, os.MkdirAll(dir, 0o700)
}

func (a *app) userStateDir() (string, error) {
	if dir := a.getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return dir, nil
	}

	switch runtime.GOOS {
	case "windows":
		return os.UserCacheDir() // %LocalAppData%
	case "darwin", "ios":
		return os.UserConfigDir()
	}

	home, err := os.UserHomeDir()
	return filepath.Join(home, ".local", "state"), err
}
