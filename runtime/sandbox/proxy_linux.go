package sandbox

import (
	"context"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// serve serves the connections that the launcher of a command sends over socket, until the end of
// the launcher.
func (p *proxy) serve(socket *os.File, d *denied) {
	conn, err := net.FileConn(socket)
	_ = socket.Close()
	if err != nil {
		return
	}
	launcher, ok := conn.(*net.UnixConn)
	if !ok {
		_ = conn.Close()
		return
	}
	p.served.Go(func() {
		stop := context.AfterFunc(p.ctx, func() { _ = launcher.Close() })
		defer stop()
		defer func() { _ = launcher.Close() }()
		data := make([]byte, 1)
		control := make([]byte, unix.CmsgSpace(4))
		for {
			_, n, _, _, err := launcher.ReadMsgUnix(data, control)
			if err != nil || n == 0 {
				return
			}
			p.accept(control[:n], d)
		}
	})
}

func (p *proxy) accept(control []byte, d *denied) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil || len(messages) != 1 {
		return
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return
	}
	file := os.NewFile(uintptr(fds[0]), "connection") //nolint:gosec // a descriptor
	conn, err := net.FileConn(file)
	_ = file.Close()
	if err != nil {
		return
	}
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
