package daemon

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// Init prevents processes of other users, and children that changed their user, from reading the
// memory and the environment of this process, which contain the keys of providers. root can still
// read them.
//
// In process 1 of a container, it runs the same command as a child, relays signals to it, and exits
// with its status. It waits for all other processes, which process 1 is given when their parents
// end: os/exec of the command itself waits only for the processes that it started, and the others
// would never be removed.
//
// The process can continue after an error.
func Init() error {
	undumpable := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	if undumpable != nil {
		undumpable = fmt.Errorf("make process undumpable: %w", undumpable)
	}

	if os.Getpid() != 1 {
		return undumpable
	}

	path, err := os.Executable()
	if err != nil {
		return fmt.Errorf("run as a child of process 1: %w", err)
	}

	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM)
	pid, err := syscall.ForkExec(path, os.Args, &syscall.ProcAttr{
		Env:   os.Environ(),
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Setpgid: true}, // the terminal sends it no signal that is relayed too
	})
	if err != nil {
		signal.Reset()
		return fmt.Errorf("run as a child of process 1: %w", err)
	}

	moveTerminal(pid)
	go func() {
		for s := range signals {
			_ = unix.Kill(pid, s.(syscall.Signal)) // the process exists: its end ends this one
		}
	}()
	os.Exit(reap(pid))
	return nil
}

// reap waits for processes until the one with the id ends, and returns its exit status.
func reap(pid int) int {
	for {
		var status unix.WaitStatus
		ended, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 1 // there is no child, which cannot be
		case ended == pid && status.Signaled():
			return 128 + int(status.Signal())
		case ended == pid:
			return status.ExitStatus()
		}
	}
}

// moveTerminal makes a group the foreground group of the terminal, if the group of this process is.
func moveTerminal(group int) {
	if foreground, err := unix.IoctlGetInt(0, unix.TIOCGPGRP); err == nil && foreground != 0 && foreground == unix.Getpgrp() {
		_ = unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, group) // otherwise Ctrl+C reaches this process, which relays it
	}
}
