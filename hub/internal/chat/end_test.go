//go:debug x509usefallbackroots=1
package chat_test

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/wire"
)

// trust makes the certificate of all servers of httptest valid.
var trust = sync.OnceFunc(func() {
	srv := httptest.NewTLSServer(nil)
	defer srv.Close()
	roots := x509.NewCertPool()
	roots.AddCert(srv.Certificate())
	x509.SetFallbackRoots(roots)
})

// A run that is cancelled at a runtime of HTTP/2 has its usage too, although its connection is that
// of other runs.
func TestARunOfHTTP2IsCancelled(t *testing.T) {
	trust()
	with(t, hanging, func(t *testing.T, s *server) {
		e := *s.endpoint.Load()
		target, err := url.Parse(e.URL)
		require.NoError(t, err)
		proxy := httputil.NewSingleHostReverseProxy(target)
		proxy.FlushInterval = -1
		srv := httptest.NewUnstartedServer(proxy)
		srv.EnableHTTP2 = true
		srv.StartTLS()
		t.Cleanup(srv.Close)
		e.URL = srv.URL
		s.endpoint.Store(&e)
		path := session(s.ada())
		answer := send(t, s.ada(), path, object{"message": "hello"})
		answer.until("partial_message")
		answer.cancel()
		estimated(t, 10, 1, eventually(t, s.ada(), path)["usage"])
	})
}

// A client that has lost its access receives the last events, although the runtime does not end the
// run.
func TestTheEndOfARunWithoutAccess(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t), func(c *config) { c.Relay.EndTimeout = time.Hour })
	gate := make(chan struct{})
	defer close(gate)
	s.serve(hostile(func(write func(string) bool, _ <-chan struct{}) {
		write(fmt.Sprintf(partial, "Half."))
		<-gate
	}))
	path := session(s.ada())
	ctx, end := context.WithCancelCause(t.Context())
	answer, _, err := s.service.Send(ctx, s.ada().Caller, "helper", path[len(sessions)+1:], wire.ChatMessageRequest{Message: "hello"})
	require.NoError(t, err)
	defer answer.Close()
	served := make(chan error, 1)
	client := httptest.NewRecorder()
	go func() { served <- answer.Serve(client) }()
	end(fmt.Errorf("%w: %w", api.ErrAccessEnded, wire.Unauthenticated))
	select {
	case err := <-served:
		require.NoError(t, err)
	case <-time.After(patience):
		require.FailNow(t, "the end of the run is awaited")
	}
	require.Contains(t, client.Body.String(), "event: done")
}
