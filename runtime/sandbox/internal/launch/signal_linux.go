package launch

import (
	"syscall"
	"unsafe"
)

// ignoreSignals makes the launcher survive the signals to its process group that end the command.
// The command does not inherit it.
func ignoreSignals() {
	for _, signal := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM} {
		setHandler(signal, handlerIgnore)
	}
}

// Handlers of signals.
const (
	handlerDefault = 0
	handlerIgnore  = 1
)

func setHandler(signal syscall.Signal, handler uintptr) {
	action := struct {
		handler  uintptr
		flags    uint64
		restorer uintptr
		mask     uint64
	}{handler: handler}
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(signal), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0) // the argument of a system call
}

// signalMark begins the file of the configuration if a signal has ended the command.
const signalMark = 0xff

// report passes on the signal that ended the command: process 1 of a namespace cannot end itself by
// a signal.
func report(signal syscall.Signal) {
	if signal != 0 {
		_, _ = syscall.Pwrite(ConfigFD, []byte{signalMark, byte(signal)}, 0) // at most 64
	}
}

func reportedSignal() syscall.Signal {
	var b [2]byte
	if n, err := syscall.Pread(ConfigFD, b[:], 0); err != nil || n < len(b) || b[0] != signalMark {
		return 0
	}
	return syscall.Signal(b[1])
}

// raise ends the launcher by the signal that has ended the command, so that the caller sees it. It
// writes no core dump. Without a signal, it does nothing.
func raise(signal syscall.Signal) {
	if signal == 0 || prctl(prctlSetDumpable, 0) != nil {
		return
	}
	setHandler(signal, handlerDefault)
	if syscall.Kill(syscall.Getpid(), signal) == nil {
		_ = syscall.Nanosleep(&syscall.Timespec{Sec: 10}, nil) // until another thread has received it
	}
}
