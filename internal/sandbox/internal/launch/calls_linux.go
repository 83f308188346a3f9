package launch

import (
	"errors"
	"runtime"
	"syscall"
	"unsafe"
)

// The package syscall lacks these. The package golang.org/x/sys/unix has them, but its imports
// would be initialized before the launcher runs, which takes as long as the rest of the launcher.
const (
	callMountSetattr       = 442 // on all architectures
	callOpenTree           = 428
	callMoveMount          = 429
	openTreeClone          = 0x1
	atEmptyPath            = 0x1000
	moveEmptyPaths         = 0x44 // of the source and the target
	callOpenAt2            = 437
	callCloseRange         = 436
	callLandlockAddRule    = 445
	callLandlockRestrict   = 446
	openPath               = 0x200000
	resolveNoLinks         = 0x4
	directoryFDCurrent     = -100
	atRecursive            = 0x8000
	closeRangeOnExec       = 4
	mountReadOnly          = 0x1
	mountNoSetuid          = 0x2
	mountNoDevices         = 0x4
	mountNoExecute         = 0x8
	prctlSetDumpable       = 4
	prctlSetSeccomp        = 22
	prctlDropBounding      = 24
	prctlParentDeath       = 1
	prctlSubreaper         = 36
	prctlNoNewPrivileges   = 38
	seccompFilter          = 2
	landlockPathBeneath    = 1
	capabilityVersion      = 0x20080522
	interfaceNameSize      = 16
	interfaceUp            = 0x1
	ioctlSetInterfaceFlags = 0x8914
	instructionSize        = 8
	signalSetMask          = 2
)

func prctl(option int, arg uintptr) error {
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, uintptr(option), arg, 0, 0, 0, 0)
	return failed(errno)
}

// setAttributes sets attributes of the mount at path, such as mountReadOnly.
func setAttributes(path string, flags int, set uint64) error {
	return changeAttributes(directoryFDCurrent, path, flags, set, 0)
}

// changeAttributes sets and removes attributes of the mount at path, relative to a directory.
func changeAttributes(directory int, path string, flags int, set, remove uint64) error {
	name, err := syscall.BytePtrFromString(path)
	if err != nil {
		return err
	}

	attributes := struct{ set, remove, propagation, userNamespace uint64 }{set: set, remove: remove}
	_, _, errno := syscall.RawSyscall6(callMountSetattr, uintptr(directory), uintptr(unsafe.Pointer(name)), uintptr(flags), // the argument of a system call
		uintptr(unsafe.Pointer(&attributes)), unsafe.Sizeof(attributes), 0) // the argument of a system call
	return failed(errno)
}

// cloneTree returns a copy of the mounts at a descriptor, which is not attached.
func cloneTree(at int) (int, error) {
	var empty byte
	tree, _, errno := syscall.RawSyscall(callOpenTree, uintptr(at), uintptr(unsafe.Pointer(&empty)), openTreeClone|atEmptyPath|atRecursive|syscall.O_CLOEXEC) // the argument of a system call
	return int(tree), failed(errno)
}

// attachTree attaches a copy of mounts at a descriptor.
func attachTree(tree, at int) error {
	var empty byte
	name := uintptr(unsafe.Pointer(&empty)) // the argument of a system call
	_, _, errno := syscall.RawSyscall6(callMoveMount, uintptr(tree), name, uintptr(at), name, moveEmptyPaths, 0)
	runtime.KeepAlive(&empty)
	return failed(errno)
}

// openWithoutLinks returns a descriptor for the file at path, which must contain no symbolic link.
// With the flag O_NOFOLLOW, it may be one.
func openWithoutLinks(path string, flags uint64) (int, error) {
	name, err := syscall.BytePtrFromString(path)
	if err != nil {
		return 0, err
	}

	how := struct{ flags, mode, resolve uint64 }{flags: openPath | syscall.O_CLOEXEC | flags, resolve: resolveNoLinks}
	current := directoryFDCurrent
	fd, _, errno := syscall.RawSyscall6(callOpenAt2, uintptr(current), uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(&how)), unsafe.Sizeof(how), 0, 0) // the argument of a system call
	return int(fd), failed(errno)
}

// closeOnExec closes the descriptors from first when a program is executed.
func closeOnExec(first int) error {
	_, _, errno := syscall.RawSyscall(callCloseRange, uintptr(first), 1<<31-1, closeRangeOnExec)
	return failed(errno)
}

// capabilityHeader is struct __user_cap_header_struct.
type capabilityHeader struct {
	version uint32
	pid     int32
}

// clearCapabilities removes the capabilities of the thread.
func clearCapabilities() error {
	header := capabilityHeader{version: capabilityVersion}
	var none [6]uint32
	_, _, errno := syscall.RawSyscall(syscall.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none)), 0) // the argument of a system call
	return failed(errno)
}

// addPath permits access beneath the directory fd.
func addPath(ruleset, fd int, access uint64) error {
	var rule [12]byte // packed, without the padding of a Go structure

	*(*uint64)(unsafe.Pointer(&rule[0])) = access                                                                                           // the argument of a system call
	*(*int32)(unsafe.Pointer(&rule[8])) = int32(fd)                                                                                         // a descriptor
	_, _, errno := syscall.RawSyscall6(callLandlockAddRule, uintptr(ruleset), landlockPathBeneath, uintptr(unsafe.Pointer(&rule)), 0, 0, 0) // the argument of a system call
	return failed(errno)
}

func restrictWith(ruleset int) error {
	_, _, errno := syscall.RawSyscall(callLandlockRestrict, uintptr(ruleset), 0, 0)
	return failed(errno)
}

// filterProgram is struct sock_fprog.
type filterProgram struct {
	length  uint16
	program *byte
}

func newFilterProgram(program []byte) filterProgram {
	return filterProgram{uint16(len(program) / instructionSize), &program[0]} // the kernel checks it
}

// filterCalls sets a seccomp program, an array of struct sock_filter.
func filterCalls(program []byte) error {
	f := newFilterProgram(program)
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, prctlSetSeccomp, seccompFilter, uintptr(unsafe.Pointer(&f)), 0, 0, 0) // the argument of a system call
	return failed(errno)
}

// failed returns errno as an error, and nil for 0.
func failed(errno syscall.Errno) error {
	if errno == 0 {
		return nil
	}

	return errno
}

// startLoopback starts the loopback interface of a new network namespace.
func startLoopback() error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}

	defer func() { _ = syscall.Close(fd) }()
	request := struct { // struct ifreq
		name  [interfaceNameSize]byte
		flags uint16
		_     [22]byte
	}{name: [interfaceNameSize]byte{'l', 'o'}, flags: interfaceUp}
	_, _, errno := syscall.RawSyscall(syscall.SYS_IOCTL, uintptr(fd), ioctlSetInterfaceFlags, uintptr(unsafe.Pointer(&request))) // the argument of a system call
	return failed(errno)
}

func listen(port int) (int, error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}

	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, err
	}

	return fd, syscall.Listen(fd, 128)
}

// send sends the descriptor fd over a socket, and closes it.
func send(socket, fd int) error {
	err := syscall.Sendmsg(socket, []byte{0}, syscall.UnixRights(fd), nil, 0)
	return errors.Join(err, syscall.Close(fd))
}

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

// handler is the struct sigaction of the kernel.
type handler struct {
	action   uintptr
	flags    uint64
	restorer uintptr
	mask     uint64
}

func setHandler(signal syscall.Signal, does uintptr) {
	action := handler{action: does}
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
