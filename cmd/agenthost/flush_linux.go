package main

import "golang.org/x/sys/unix"

// flushTerminal discards the input of a terminal that was not read.
func flushTerminal(fd uintptr) { _ = unix.IoctlSetInt(int(fd), unix.TCFLSH, unix.TCIFLUSH) }
