package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/seed93082962/agenthost/internal/sandbox"
)

// usersLock is the lock of the directory during the choice of a user id. It is not a key.
const usersLock = ".users"

// probeUsers returns why deployments cannot have user ids of their own, or "". The
// user of a process other than root is not a reason.
func (d *Driver) probeUsers(trial revision) (reason string, err error) {
	if os.Geteuid() != 0 || d.cfg.Users[0] == 0 {
		d.cfg.Users = [2]int{}
		return "", nil
	}

	info, err := os.Stat(d.cfg.Command[0])
	if err != nil {
		return "", err
	}

	if info.Mode()&0o005 != 0o005 {
		return "the executable of the hub is not readable and executable for others", nil
	}

	if err := os.Chown(trial.path(workDir), d.cfg.Users[1], d.cfg.Users[1]); err != nil {
		return fmt.Sprintf("user %d cannot own files: %v", d.cfg.Users[1], clean("chown", err)), nil
	}

	box, err := sandbox.New(d.policy(trial, d.cfg.Users[0], sandbox.Limits{}))
	if err != nil {
		return clean("confine", err).Error(), nil
	}
	defer box.Close()
	if box.Support().Isolated {
		return "", nil
	}

	// Without a view of its own, another user has to reach the deployment by its path.
	if err := os.Chmod(d.cfg.Dir, 0o711); err != nil { // the directories in it are private
		return "", err
	}

	for dir := filepath.Dir(d.cfg.Dir); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return "", err
		}

		if info.Mode()&0o001 == 0 {
			return "others cannot enter " + dir + ", the parent of the deployments", nil
		}

		if dir == filepath.Dir(dir) {
			return "", nil
		}
	}
}

// assign makes the user of a deployment the owner of what its runtime changes, and lets the group
// of that user read the rest. It returns the user, or 0 for that of the hub. The group of the
// folder is the record of the id.
func (d *Driver) assign(r revision) (int, error) {
	if os.Geteuid() != 0 {
		return 0, nil
	}

	id, mode := 0, os.FileMode(0o700)
	if d.users {
		var err error
		if id, err = d.userOf(r.of); err != nil {
			return 0, err
		}

		mode = 0o750
	}

	for _, dir := range []string{r.of.dir, r.dir, r.path(privateDir)} {
		if err := errors.Join(os.Chown(dir, 0, id), os.Chmod(dir, mode)); err != nil {
			return 0, err
		}
	}

	for _, name := range []string{configFile, keyFile} {
		file, err := openRegular(r.path(name), os.O_RDONLY)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}

		if err == nil {
			err = errors.Join(r.share(name, file), file.Close())
		}

		if err != nil {
			return 0, err
		}
	}

	for _, name := range []string{workDir, homeDir, stateDir} {
		if err := give(r.of.path(name), id); err != nil {
			return 0, err
		}
	}

	return id, nil
}

// userOf returns the id of a deployment, and chooses one that no other deployment has.
func (d *Driver) userOf(f folder) (int, error) {
	if id := groupOf(f.dir); d.cfg.Users[0] != 0 && id >= d.cfg.Users[0] && id <= d.cfg.Users[1] {
		return id, nil
	}

	ctx, cancel := context.WithTimeout(context.Background(), clearWithin)
	defer cancel()
	l, err := d.lock(ctx, usersLock)
	if err != nil {
		return 0, err
	}
	defer l.unlock()
	entries, err := os.ReadDir(d.cfg.Dir)
	if err != nil {
		return 0, err
	}

	used := map[int]bool{}
	for _, e := range entries {
		used[groupOf(filepath.Join(d.cfg.Dir, e.Name()))] = true
	}

	for id := d.cfg.Users[0]; id <= d.cfg.Users[1]; id++ {
		if !used[id] {
			return id, os.Chown(f.dir, 0, id) // the record, before another hub looks
		}
	}

	return 0, errors.New("all user ids are in use")
}

// groupOf returns the group of a directory, or -1.
func groupOf(path string) int {
	info, err := os.Lstat(path)
	if err != nil {
		return -1
	}

	return int(info.Sys().(*syscall.Stat_t).Gid)
}

// share lets the group of the folder read a file, if the runtime reads files of that name and has a
// group of its own.
func (r revision) share(name string, file *os.File) error {
	info, err := os.Stat(r.of.dir)
	if err != nil || os.Geteuid() != 0 || name != configFile && name != keyFile && !strings.HasPrefix(name, secretPrefix) {
		return err
	}

	if opened, err := file.Stat(); err != nil || !alone(opened) {
		return errors.Join(errIrregular, err)
	}

	mode := os.FileMode(0o600)
	if info.Mode()&0o050 == 0o050 {
		mode = 0o640
	}

	return errors.Join(file.Chown(0, groupOf(r.of.dir)), file.Chmod(mode))
}

// alone reports whether a regular file has only one name. Another one may be outside.
func alone(info fs.FileInfo) bool {
	return info.Mode().IsRegular() && info.Sys().(*syscall.Stat_t).Nlink == 1
}

// give makes a user the owner of a directory and everything in it, unless it is. The directory
// itself is the last one, so that an interrupted call is repeated.
func give(dir string, id int) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}

	if int(info.Sys().(*syscall.Stat_t).Uid) == id {
		return nil
	}

	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}

	defer func() { _ = root.Close() }() // it was opened for reading
	err = fs.WalkDir(root.FS(), ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == "." {
			return err
		}

		info, err := e.Info()
		if err != nil || info.Mode().IsRegular() && !alone(info) {
			return err
		}

		return root.Lchown(path, id, id)
	})
	if err != nil {
		return err
	}

	return os.Lchown(dir, id, id)
}
