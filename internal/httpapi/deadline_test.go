package httpapi_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// pipes is a listener for in-memory connections, whose deadlines use the clock of synctest.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{} }

// connect serves the API on one connection and returns the client's end.
func connect(t *testing.T) net.Conn {
	l := &pipes{conns: make(chan net.Conn, 1), done: make(chan struct{})}
	server := &http.Server{Handler: api(io.Discard), ReadHeaderTimeout: time.Hour}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	client, end := net.Pipe()
	l.conns <- end
	t.Cleanup(func() {
		client.Close()
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-ended, http.ErrServerClosed)
	})
	return client
}

func TestStalledBody(t *testing.T) {
	for name, row := range map[string]struct {
		request string
		status  int
		wait    time.Duration
	}{
		"to who reads it":              {"POST /read HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{", http.StatusInternalServerError, time.Minute + 5*time.Second},
		"in chunks":                    {"POST /read HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{", http.StatusInternalServerError, time.Minute},
		"to who does not read it":      {"POST /nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{", http.StatusNotFound, 5 * time.Second},
		"of a request that has no use": {"GET /ok HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{", http.StatusCreated, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := connect(t)
				begin := time.Now()
				_, err := io.WriteString(client, row.request) // and the connection stays open
				require.NoError(t, err)
				res, err := http.ReadResponse(bufio.NewReader(client), nil)
				require.NoError(t, err)
				require.Equal(t, row.status, res.StatusCode)
				require.Equal(t, row.wait, time.Since(begin))
			})
		})
	}
}

func TestDeadlineAppliesOnlyToTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := connect(t)
		answers := bufio.NewReader(client)
		for range 2 {
			_, err := io.WriteString(client, "POST /read HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
			require.NoError(t, err)
			res, err := http.ReadResponse(answers, nil)
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, res.StatusCode)
			<-time.After(10 * time.Minute) // a kept connection may wait longer
		}
	})
}

func TestUnreadResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := connect(t)
		begin := time.Now()
		_, err := io.WriteString(client, "GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
		require.NoError(t, err)
		synctest.Wait()
		<-time.After(31 * time.Second)
		_, err = io.ReadAll(client)
		require.NoError(t, err, "the server has hung up")
		require.Equal(t, 31*time.Second, time.Since(begin))
	})
	synctest.Test(t, func(t *testing.T) {
		client := connect(t)
		_, err := io.WriteString(client, "GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		require.NoError(t, err)
		read := 0
		buf := make([]byte, 32<<10)
		for err == nil { // slowly, but with progress every half minute
			var n int
			n, err = io.ReadFull(client, buf)
			read += n
			<-time.After(10 * time.Second)
		}
		require.Greater(t, read, 1<<20)
	})
}
