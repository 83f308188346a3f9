//go:build !linux

package process

import "os"

// killLeft does nothing: this system does not show the environment of a process.
func killLeft(string) {}

// killOrphans does nothing, for the same reason: the group may be that of another program.
func killOrphans(int, string, string) {}

// killMembers reports false: there is no launcher.
func killMembers(int) bool { return false }

// begins reports false, for the same reason.
func begins(int) bool { return false }

// probeUsers returns nothing: processes are not confined on this system, so that a user id of their
// own is not a protection.
func (d *Driver) probeUsers(revision) (string, error) {
	d.cfg.Users = [2]int{}
	return "", nil
}

func (d *Driver) assign(revision) (int, error) { return 0, nil }

func (r revision) share(string, *os.File) error { return nil }
