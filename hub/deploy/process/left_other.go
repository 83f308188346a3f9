//go:build unix && !linux

package process

// killLeft does nothing: this system does not show the environment of a process.
func (f folder) killLeft() {}

// killOrphans does nothing, for the same reason: the group may be that of another program.
func killOrphans(int, string, folder) {}

// killMembers reports false: there is no launcher.
func killMembers(int) bool { return false }

// begins reports false, for the same reason.
func begins(int) bool { return false }
