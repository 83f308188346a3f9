package main

import "golang.org/x/sys/unix"

// flushTerminal discards the input of a terminal that was not read.
func flushTerminal(fd uintptr) {
	const read = 1
	_ = unix.IoctlSetPointerInt(int(fd), unix.TIOCFLUSH, read)
}
