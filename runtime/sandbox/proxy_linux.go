package sandbox

import (
	"context"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// serve serves the connections to l until the end of the launcher, which has the other end of socket.
// Without l, the launcher sends it.
func (p *proxy) serve(socket *os.File, l net.Listener, d *denied) {
	conn, err := net.FileConn(socket)
	_ = socket.Close()
	launcher, ok := conn.(*net.UnixConn)
	if err != nil || !ok {
		return
	}
	p.served.Go(func() {
		stop := context.AfterFunc(p.ctx, func() { _ = launcher.Close() })
		defer stop()
		defer func() { _ = launcher.Close() }()
		if l == nil {
			if l = receive(launcher); l == nil {
				return
			}
		}
		p.served.Go(func() { _ = p.server.Serve(&listener{Listener: l, slots: p.slots, denied: d}) })
		_, _ = launcher.Read(make([]byte, 1))
		_ = l.Close()
	})
}

// receive returns the listener that a launcher sends, or nil.
func receive(launcher *net.UnixConn) net.Listener {
	control := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := launcher.ReadMsgUnix(make([]byte, 1), control)
	if err != nil {
		return nil
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil || len(messages) != 1 {
		return nil
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil
	}
	file := os.NewFile(uintptr(fds[0]), "listener") //nolint:gosec // a descriptor
	defer func() { _ = file.Close() }()
	l, err := net.FileListener(file)
	if err != nil {
		return nil
	}
	return l
}
