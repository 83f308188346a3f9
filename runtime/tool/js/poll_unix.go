//go:build unix

package js

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// pollable gives a pipe to the poller of the Go runtime. A goroutine that waits in a read of a blocking one keeps its
// place on a CPU until somebody notices, up to milliseconds later, and the one it just gave a call to waits for that place.
func pollable(r io.Reader) (io.Reader, error) {
	f, ok := r.(*os.File)
	if !ok {
		return r, nil
	}
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("duplicate stdin: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("make stdin pollable: %w", err)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}
