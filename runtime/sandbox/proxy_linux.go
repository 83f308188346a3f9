package sandbox

import (
	"context"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// serve serves the connections that the launcher of a command sends over socket, and those to
// listener, which may be nil, until the end of the launcher.
func (p *proxy) serve(socket *os.File, listener net.Listener, d *denied) {
	conn, err := net.FileConn(socket)
	_ = socket.Close()
	launcher, ok := conn.(*net.UnixConn)
	if err != nil || !ok {
		return
	}
	if listener != nil {
		p.served.Go(func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				p.accept(conn, d)
			}
		})
	}
	p.served.Go(func() {
		stop := context.AfterFunc(p.ctx, func() { _ = launcher.Close() })
		defer stop()
		defer func() { _ = launcher.Close() }()
		if listener != nil {
			defer func() { _ = listener.Close() }()
		}
		data := make([]byte, 1)
		control := make([]byte, unix.CmsgSpace(4))
		for {
			_, n, _, _, err := launcher.ReadMsgUnix(data, control)
			if err != nil || n == 0 {
				return
			}
			if conn := connection(control[:n]); conn != nil {
				p.accept(conn, d)
			}
		}
	})
}

// connection returns the connection in a message, or nil.
func connection(control []byte) net.Conn {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil || len(messages) != 1 {
		return nil
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil
	}
	file := os.NewFile(uintptr(fds[0]), "connection") //nolint:gosec // a descriptor
	defer func() { _ = file.Close() }()
	conn, err := net.FileConn(file)
	if err != nil {
		return nil
	}
	return conn
}

func (p *proxy) accept(conn net.Conn, d *denied) {
	select {
	case p.slots <- struct{}{}:
	default:
		_ = conn.Close() // too many connections
		return
	}
	a := &accepted{Conn: conn, denied: d, release: sync.OnceFunc(func() { <-p.slots })}
	select {
	case p.conns <- a:
	case <-p.ctx.Done():
		_ = a.Close()
	}
}
