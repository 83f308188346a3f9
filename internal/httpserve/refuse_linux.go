package httpserve

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// dropSYN drops the first packet of a connection. A packet begins with the header of TCP, whose
// 14th byte has the flags.
var dropSYN = [...]unix.SockFilter{
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: 13},
	{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: 2, Jt: 1}, // SYN
	{Code: unix.BPF_RET | unix.BPF_K, K: 0xffffffff},               // all of its bytes
	{Code: unix.BPF_RET | unix.BPF_K},
}

// refuse makes the kernel open no further connection, and returns a function with the number of
// those that it has opened and the server has yet to accept. The end of the listener would reset
// them after their clients have sent requests, and a proxy does not repeat one that a server may
// have begun.
func refuse(listener net.Listener) func() uint32 {
	socket, ok := listener.(syscall.Conn)
	if !ok {
		return none
	}

	raw, err := socket.SyscallConn()
	if err != nil {
		return none
	}

	// It fails in some sandboxes, and for multipath TCP.
	_ = raw.Control(func(fd uintptr) {
		program := unix.SockFprog{Len: uint16(len(dropSYN)), Filter: &dropSYN[0]}
		_ = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &program)
	})
	return func() uint32 {
		var waiting uint32
		_ = raw.Control(func(fd uintptr) {
			if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
				waiting = info.Unacked // of a listener, the connections to accept
			}
		})
		return waiting
	}
}
