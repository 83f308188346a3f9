package launch

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// startLoopback starts the loopback interface of a new network namespace.
func startLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
}

func listen(port int) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, err
	}
	return fd, unix.Listen(fd, 128)
}

// forward sends each connection to the parent, which serves it.
func forward(listener int) {
	for {
		connection, _, err := syscall.Accept4(listener, syscall.SOCK_CLOEXEC)
		if err != nil {
			continue // the client has closed the connection, or a limit is reached
		}
		for {
			err = syscall.Sendmsg(ProxyFD, []byte{0}, syscall.UnixRights(connection), nil, 0)
			if err != syscall.EINTR { //nolint:errorlint // a number
				break
			}
		}
		_ = syscall.Close(connection)
		if err != nil {
			return // the parent no longer serves it
		}
	}
}
