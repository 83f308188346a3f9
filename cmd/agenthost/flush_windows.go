package main

import "golang.org/x/sys/windows"

// flushTerminal discards the input of a terminal that was not read.
func flushTerminal(fd uintptr) { _ = windows.FlushConsoleInputBuffer(windows.Handle(fd)) }
