//go:build unix

package js

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// pollable registers a pipe with the poller of the Go runtime. A goroutine that blocks in a read
// system call occupies its CPU slot for up to milliseconds, while the goroutine with the call waits
// for it.
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
