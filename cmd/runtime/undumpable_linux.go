package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// undumpable keeps processes of other users, and children that became one, from reading the memory
// and the environment of this one, where the keys of providers are. Those of the same user who is
// root still can.
func undumpable() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("make process undumpable: %w", err)
	}
	return nil
}
