package sandbox

import (
	"context"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// watch serves the connections of a command to the proxy until its launcher ends, and removes its
// control group then.
func (s *Enforcer) watch(c *Command) {
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
		ctx, cancel := context.WithCancel(s.ctx)
		defer cancel()
		switch {
		case s.proxy == nil:
			_, _ = launcher.Read(make([]byte, 1))
		case s.support.Isolated:
			if file, err := receive(launcher); err == nil {
				l, err := net.FileListener(file)
				_ = file.Close()
				if err == nil {
					s.served.Go(func() { s.proxy.serve(ctx, l, &c.denied) })
					defer func() { _ = l.Close() }()
				}
			}

			_, _ = launcher.Read(make([]byte, 1))
		default: // the launcher sends the connections
			s.proxy.serve(ctx, &passed{UnixConn: launcher}, &c.denied)
		}

		cancel()
		switch {
		case c.group == nil:
		case s.ctx.Err() != nil:
			c.group.abandon()
		default:
			_ = c.group.remove(50, true)
		}
	})
}

// passed are the connections that a launcher sends.
type passed struct{ *net.UnixConn }

// Accept returns the next connection, until the launcher ends.
func (p *passed) Accept() (net.Conn, error) {
	for {
		file, err := receive(p.UnixConn)
		if err != nil {
			return nil, err
		}

		conn, err := net.FileConn(file)
		_ = file.Close()
		if err == nil {
			return conn, nil
		}
	}
}

func (p *passed) Addr() net.Addr { return p.LocalAddr() }

// receive returns the descriptor that a launcher sends.
func receive(launcher *net.UnixConn) (*os.File, error) {
	control := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := launcher.ReadMsgUnix(make([]byte, 1), control)
	if err != nil {
		return nil, err
	}

	if n == 0 {
		return nil, io.EOF
	}

	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil {
		return nil, err
	}

	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return nil, err
	}

	return os.NewFile(uintptr(fds[0]), "launcher"), nil // the buffer has room for one
}
