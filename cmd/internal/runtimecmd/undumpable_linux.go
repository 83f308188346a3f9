package runtimecmd

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Undumpable prevents processes of other users, and children that changed their user, from reading
// the memory and the environment of this process, which contain the keys of providers. root can
// still read them.
func Undumpable() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("make process undumpable: %w", err)
	}
	return nil
}
