package httpserve_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/httpserve"
)

// A server that ends answers each request that it has received: clients with a connection each get
// a response, or the connection is refused, so that a proxy can send the request to another server.
func TestAConnectionIsAnsweredOrRefused(t *testing.T) {
	for range 3 {
		config := new(net.ListenConfig)
		config.SetMultipathTCP(false)
		listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		ctx, end := context.WithCancel(t.Context())
		server := &httpserve.Server{
			Handler:  http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }),
			Listener: listener, Log: slog.New(slog.DiscardHandler), Drain: func(context.Context) error { return nil },
		}
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(ctx) }()
		var answered, clients sync.WaitGroup
		for range 16 {
			answered.Add(1)
			clients.Go(func() {
				client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
				for first := sync.OnceFunc(answered.Done); ; first() {
					resp, err := client.Post("http://"+listener.Addr().String(), "text/plain", strings.NewReader("x"))
					if err != nil {
						if !errors.Is(err, syscall.ECONNREFUSED) {
							t.Error(err)
						}
						return
					}
					_ = resp.Body.Close()
				}
			})
		}
		answered.Wait()
		end()
		require.NoError(t, <-ended)
		clients.Wait()
	}
}
