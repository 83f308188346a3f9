package js

import "golang.org/x/sys/unix"

// yield gives the CPU away for about 70 microseconds: what is asked for, and the kernel's slack. Sleeping by the Go runtime
// takes up to a millisecond where nothing else runs, as its poller counts in those.
func yield() { _ = unix.Nanosleep(&unix.Timespec{Nsec: 20_000}, nil) }
