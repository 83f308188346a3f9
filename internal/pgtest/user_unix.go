//go:build unix

package pgtest

import (
	"errors"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// unprivileged are the attributes of a process that has a session of its own, so that an interrupt from the terminal
// ends the tests first, and where root runs the tests, another user.
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

// account is whom the server runs as in the place of root.
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
	return 0, 0, errors.New("root may not run it, and there is neither a user postgres nor nobody")
}
