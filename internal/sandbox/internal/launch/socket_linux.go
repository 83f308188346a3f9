package launch

import (
	"errors"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"
)

// Where a command has no network of its own, it has no internet sockets. The kernel stops it when
// it creates one, and the launcher gives it a connection to the proxy instead: one end of a pair of
// Unix sockets, whose other end is sent to ProxyFD. A connection of it to the address of the proxy
// succeeds, and no other one does. What a command does with such a socket reaches the proxy only.

const (
	seccompSetFilter = 1
	seccompListener  = 8
	seccompKillable  = 32
	notifyReceive    = 0xc0502100
	notifySend       = 0xc0182101
	notifyAddFD      = 0x40182103
	notifyContinue   = 1
	addFDSend        = 2 // the descriptor is the result of the call
	messageNoSignal  = 0x4000
)

// notification is struct seccomp_notif.
type notification struct {
	id           uint64
	pid, flags   uint32
	call         int32
	architecture uint32
	instruction  uint64
	args         [6]uint64
}

// filterAndNotify sets a seccomp program, and returns the descriptor of its notifications. It is
// closed when a program is executed. A signal that does not kill the process interrupts no call
// that is being executed, on kernels that can do so (Linux 5.19): the call would be executed twice.
func filterAndNotify(call int, program []byte) (int, error) {
	f := newFilterProgram(program)
	fd, _, errno := syscall.RawSyscall(uintptr(call), seccompSetFilter, seccompListener|seccompKillable, uintptr(unsafe.Pointer(&f))) // the argument of a system call
	if errno == syscall.EINVAL {
		fd, _, errno = syscall.RawSyscall(uintptr(call), seccompSetFilter, seccompListener, uintptr(unsafe.Pointer(&f))) // the argument of a system call
	}

	return int(fd), failed(errno)
}

// startAnswering starts the thread that answers the notifications of a descriptor that is sent to
// the channel. It is started before the launcher is confined, and is not confined itself.
func (c *Config) startAnswering() chan<- int {
	if c.NotifyCall == 0 {
		return nil
	}

	started, descriptors := make(chan struct{}), make(chan int)
	files := sharedFiles{}
	go func() {
		runtime.LockOSThread() // later, a limit may deny a new thread
		close(started)
		fd := <-descriptors
		for c.answer(fd, files) {
		}

		_ = syscall.Close(fd) // the calls fail
	}()
	<-started
	return descriptors
}

// answer answers one notification. It reports whether there may be more.
func (c *Config) answer(listener int, files sharedFiles) bool {
	var n notification
	err := control(listener, notifyReceive, unsafe.Pointer(&n)) // the argument of a system call
	if errors.Is(err, syscall.EINTR) || errors.Is(err, syscall.ENOENT) {
		return true // the thread of the command has ended
	}

	if err != nil {
		return false
	}

	given, err := c.execute(&n, listener, files)
	if given {
		return true
	}

	flags := uint32(0)
	if errors.Is(err, errElsewhere) {
		flags = notifyContinue
	}

	result, _ := errors.AsType[syscall.Errno](err) // 0 to continue
	response := struct {
		id     uint64
		value  int64
		result int32
		flags  uint32
	}{id: n.id, result: -int32(result), flags: flags} // at most 133
	_ = control(listener, notifySend, unsafe.Pointer(&response)) // the argument of a system call
	return true
}

// execute executes a call. It reports whether the call already has a descriptor as its result.
func (c *Config) execute(n *notification, listener int, files sharedFiles) (bool, error) {
	switch n.call {
	case syscall.SYS_SOCKET:
		err := n.connection(listener)
		return err == nil, err
	case syscall.SYS_CONNECT:
		if n.isProxy(c.ProxyPort) {
			return false, nil
		}

		return false, syscall.ENETUNREACH
	}

	fd, err := files.execute(n)
	if fd < 0 || err != nil {
		return false, err
	}

	defer func() { _ = syscall.Close(fd) }()
	err = n.give(listener, fd, uint32(n.openFlags()&syscall.O_CLOEXEC)) // a flag
	return err == nil, err
}

// connection makes a connection to the proxy the result of the call.
func (n *notification) connection(listener int) error {
	kind := int(n.args[1]) // the flags of a socket
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|kind&syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		return syscall.EMFILE
	}

	defer func() { _ = syscall.Close(pair[0]); _ = syscall.Close(pair[1]) }()
	if err := syscall.Sendmsg(ProxyFD, []byte{0}, syscall.UnixRights(pair[1]), nil, messageNoSignal); err != nil {
		return syscall.ENETUNREACH
	}

	return n.give(listener, pair[0], uint32(kind&syscall.SOCK_CLOEXEC)) // a flag
}

// give makes a copy of a descriptor the result of the call.
func (n *notification) give(listener, fd int, flags uint32) error {
	add := struct {
		id               uint64
		flags, from      uint32
		number, newFlags uint32
	}{id: n.id, flags: addFDSend, from: uint32(fd), newFlags: flags} // not negative
	return control(listener, notifyAddFD, unsafe.Pointer(&add)) // the argument of a system call
}

// read reads what an argument of the call points to. It returns the number of bytes.
func (n *notification) read(argument int, b []byte) int {
	memory, err := syscall.Open("/proc/"+strconv.Itoa(int(n.pid))+"/mem", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}

	defer func() { _ = syscall.Close(memory) }()
	size, err := syscall.Pread(memory, b, int64(n.args[argument])) // an address of the process
	if err != nil {
		return 0
	}

	return size
}

// isProxy reports whether the address in a call of connect is that of the proxy. The process can
// change its memory at any time, but the result of the call depends only on what is read here.
func (n *notification) isProxy(port int) bool {
	var address [24]byte // struct sockaddr_in6 without the scope
	size := n.read(1, address[:min(n.args[2], uint64(len(address)))])
	if size < 8 || int(address[2])<<8|int(address[3]) != port {
		return false
	}

	switch *(*uint16)(unsafe.Pointer(&address[0])) { // in the order of the processor
	case syscall.AF_INET:
		return [4]byte(address[4:8]) == [4]byte{127, 0, 0, 1}
	case syscall.AF_INET6:
		return size == len(address) && [16]byte(address[8:24]) == [16]byte{10: 0xff, 11: 0xff, 12: 127, 15: 1}
	}

	return false
}

func control(fd int, request uintptr, arg unsafe.Pointer) error {
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), request, uintptr(arg))
	return failed(errno)
}
