package js

import "golang.org/x/sys/unix"

// yield releases the CPU for about 70 microseconds, including the timer slack of the kernel. A
// sleep of the Go runtime takes up to a millisecond on an idle system, the resolution of its
// poller.
func yield() { _ = unix.Nanosleep(&unix.Timespec{Nsec: 20_000}, nil) }
