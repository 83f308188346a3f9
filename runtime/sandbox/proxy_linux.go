package sandbox

import (
	"context"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// watch serves the connections of a command to the proxy until its launcher ends, and removes its
// control group then.
func (s *Sandbox) watch(c *Command) {
	conn, err := net.FileConn(c.socket)
	_ = c.socket.Close()
	launcher, ok := conn.(*net.UnixConn)
	if err != nil || !ok {
		return
	}
	s.served.Go(func() {
		stop := context.AfterFunc(s.ctx, func() { _ = launcher.Close() })
		defer stop()
		defer func() { _ = launcher.Close() }()
		l := c.listener
		if s.proxy != nil && l == nil {
			l = receive(launcher)
		}
		if l != nil {
			s.served.Go(func() { _ = s.proxy.server.Serve(&listener{Listener: l, slots: s.proxy.slots, denied: &c.denied}) })
			defer func() { _ = l.Close() }()
		}
		_, _ = launcher.Read(make([]byte, 1))
		switch {
		case c.group == nil:
		case s.ctx.Err() != nil:
			c.group.abandon()
		default:
			_ = c.group.remove(50, true)
		}
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
	file := os.NewFile(uintptr(fds[0]), "listener")
	defer func() { _ = file.Close() }()
	l, err := net.FileListener(file)
	if err != nil {
		return nil
	}
	return l
}
