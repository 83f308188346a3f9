package launch

import (
	"errors"
	"syscall"
	"unsafe"
)

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
