//go:build docker

package docker_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fault is what a proxy does with a call of the engine.
type fault string

const (
	none         fault = ""
	lostRequest  fault = "the engine does not get it"
	lostResponse fault = "the engine has done it, and the client does not get the response"
	hangsAfter   fault = "the engine has done it, and the client waits"
	hangs        fault = "nothing happens until the client gives up"
)

// startProxy starts a server between a driver or a hub and the engine, and returns its address.
// decide returns what happens with a call, and may wait. handled is called when that has happened.
func startProxy(t *testing.T, decide func(*http.Request) fault, handled ...func(*http.Request)) string {
	t.Helper()
	path := filepath.Join(scratch, fmt.Sprintf("proxy-%d.sock", names.Add(1)))
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
	require.NoError(t, err)
	forward := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "engine"})
	forward.FlushInterval = -1
	forward.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	forward.Transport = &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket[len("unix://"):])
		},
	}
	server := &http.Server{ReadHeaderTimeout: patience, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			for _, f := range handled {
				f(r)
			}
		}()
		through := r.WithContext(context.WithoutCancel(r.Context())) // also if the client gives up
		switch decide(r) {
		case lostRequest:
			panic(http.ErrAbortHandler)
		case lostResponse:
			forward.ServeHTTP(nowhere{http.Header{}}, through)
			panic(http.ErrAbortHandler)
		case hangsAfter:
			forward.ServeHTTP(nowhere{http.Header{}}, through)
			<-r.Context().Done()
			panic(http.ErrAbortHandler)
		case hangs:
			<-r.Context().Done()
			panic(http.ErrAbortHandler)
		}
		forward.ServeHTTP(w, r)
	})}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-done, http.ErrServerClosed)
	})
	return "unix://" + path
}

// nowhere is where a lost response goes.
type nowhere struct{ header http.Header }

func (n nowhere) Header() http.Header         { return n.header }
func (n nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (n nowhere) WriteHeader(int)             {}

// pause waits before a call, as a slow engine does.
func pause(r *http.Request, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	}
}
