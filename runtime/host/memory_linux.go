package host

import (
	"fmt"
	"syscall"
)

// protect prevents other processes of the user from reading the memory and the environment of this
// one, which have the keys of providers.
func protect() error {
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_DUMPABLE, 0, 0); errno != 0 {
		return fmt.Errorf("make process undumpable: %w", errno)
	}

	return nil
}
