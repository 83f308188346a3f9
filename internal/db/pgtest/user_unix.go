//go:build unix

package pgtest

import (
	"errors"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// unprivileged returns the attributes of a process with its own session, so that an interrupt from
// the terminal ends the tests first, and, if the tests run as root, with another user.
func unprivileged() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setsid: true}
	if os.Geteuid() != 0 {
		return a
	}

	if uid, gid, err := account(); err == nil {
		a.Credential = &syscall.Credential{Uid: uid, Gid: gid}
	}

	return a
}

func giveAway(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}

	uid, gid, err := account()
	if err != nil {
		return err
	}

	return os.Chown(dir, int(uid), int(gid))
}

// account is the user of the server if the tests run as root.
func account() (uid, gid uint32, err error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}

		id, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return 0, 0, err
		}

		group, err := strconv.ParseUint(u.Gid, 10, 32)
		return uint32(id), uint32(group), err
	}

	return 0, 0, errors.New("root may not run it, and the users postgres and nobody do not exist")
}
