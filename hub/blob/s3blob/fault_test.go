package s3blob_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/blob"
	"github.com/seed93082962/agenthost/hub/blob/blobtest"
	"github.com/seed93082962/agenthost/hub/blob/s3blob"
	"github.com/seed93082962/agenthost/hub/internal/artifact"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/secret"
)

// files returns a store on a driver.
func files(t *testing.T, d blob.Driver) *artifact.Store {
	t.Helper()
	ring, err := secret.Parse(secret.Generate())
	require.NoError(t, err)
	s, err := artifact.New(artifact.Config{Driver: d, Keyring: ring, PublicURL: "http://hub", TempDir: t.TempDir()})
	require.NoError(t, err)
	return s
}

// fails requires that every operation of the store is 503 with advice, without credentials.
func fails(t *testing.T, d blob.Driver, message string) {
	t.Helper()
	s := files(t, d)
	ref := artifact.Ref{Kind: artifact.Tools, Hash: strings.Repeat("a", 64), Name: "a.ts", Size: 1}
	operations := map[string]func() error{
		"open":  func() error { _, err := s.Open(t.Context(), ref); return err },
		"put":   func() error { _, err := s.Put(t.Context(), artifact.Tools, "a.ts", strings.NewReader("x")); return err },
		"exist": func() error { _, err := s.Exist(t.Context(), ref); return err },
		"sweep": func() error {
			_, err := s.Sweep(t.Context(), time.Hour, func(context.Context, []string) (map[string]bool, error) { return nil, nil })
			return err
		},
	}
	type result struct {
		name string
		err  error
	}
	results := make(chan result)
	for name, operation := range operations { // each of them waits between its attempts
		go func() { results <- result{name, operation()} }()
	}
	for range operations {
		r := <-results
		name, err := r.name, r.err
		failed := (*wire.Error)(nil)
		require.ErrorAs(t, err, &failed, name)
		require.Equal(t, wire.Unavailable, failed.Code, name)
		require.Contains(t, failed.Message, message, name)
		require.Positive(t, failed.RetryAfter)
		require.NotContains(t, err.Error(), secretKey)
	}
}

func TestTheServerIsDown(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	fails(t, open(t, (&server{address: listener.Addr().String()}).config()), "cannot be reached")
}

func TestAServerThatNeverResponds(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	cfg := (&server{address: listener.Addr().String()}).config()
	cfg.Timeout = 50 * time.Millisecond
	fails(t, open(t, cfg), "cannot be reached")
}

// between returns the address of a proxy in front of the server that changes requests or responses.
func between(t *testing.T, s *server, change func(w http.ResponseWriter, r *http.Request, next http.Handler)) s3blob.Config {
	t.Helper()
	target, err := url.Parse("http://" + s.address)
	require.NoError(t, err)
	transport := &http.Transport{}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Host = r.In.Host },
		Transport:     transport,
		FlushInterval: -1,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { change(w, r, proxy) }))
	t.Cleanup(func() { front.Close(); transport.CloseIdleConnections() })
	cfg := s.config()
	cfg.Endpoint = front.URL
	return cfg
}

func TestTheServerIsFull(t *testing.T) {
	t.Parallel()
	for code, status := range map[string]int{"XMinioStorageFull": http.StatusInsufficientStorage, "QuotaExceeded": http.StatusForbidden} {
		cfg := between(t, start(t), func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if r.Method != http.MethodPut {
				next.ServeHTTP(w, r)
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "<Error><Code>"+code+"</Code><Message>full</Message></Error>")
		})
		_, err := files(t, open(t, cfg)).Put(t.Context(), artifact.Tools, "a.ts", strings.NewReader("x"))
		require.ErrorIs(t, err, blob.ErrFull)
		require.ErrorContains(t, err, "full: an operator must free space")
	}
}

// A download whose server stalls or disconnects fails, and is not taken for a shorter file.
func TestTheServerStopsDuringADownload(t *testing.T) {
	t.Parallel()
	s := start(t)
	content, key := blobtest.Content(1<<20), blobtest.Key("a", "a.ts")
	store(t, open(t, s.config()), key, content)
	for name, stop := range map[string]func(r *http.Request){
		"stalls":      func(r *http.Request) { <-r.Context().Done() },
		"disconnects": func(*http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := between(t, s, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if r.Method == http.MethodGet {
					w = &limited{w, 300_000, func() { stop(r) }}
				}
				next.ServeHTTP(w, r)
			})
			cfg.Timeout = 300 * time.Millisecond
			b, err := open(t, cfg).Open(t.Context(), key)
			require.NoError(t, err)
			got, err := io.ReadAll(b.Content)
			require.Error(t, err)
			require.NotErrorIs(t, err, context.Canceled, "nobody cancelled it")
			require.True(t, bytes.HasPrefix(content, got))
			require.NoError(t, b.Close())
		})
	}
}

// limited calls stop after a number of bytes.
type limited struct {
	http.ResponseWriter
	left int
	stop func()
}

func (l *limited) Write(p []byte) (int, error) {
	if len(p) > l.left {
		_ = http.NewResponseController(l.ResponseWriter).Flush()
		l.stop()
		return 0, io.ErrClosedPipe
	}
	l.left -= len(p)
	return l.ResponseWriter.Write(p)
}

func (l *limited) Unwrap() http.ResponseWriter { return l.ResponseWriter }

// An upload that the server does not take in time leaves nothing, and the next one succeeds.
func TestTheServerIsSlow(t *testing.T) {
	t.Parallel()
	s := start(t)
	cfg := between(t, s, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method == http.MethodPut {
			_, _ = io.Copy(io.Discard, r.Body) // otherwise it is not detected that the client disconnects
			<-r.Context().Done()
			return
		}
		next.ServeHTTP(w, r)
	})
	cfg.Timeout = 300 * time.Millisecond
	slow := files(t, open(t, cfg))
	_, err := slow.Put(t.Context(), artifact.Tools, "a.ts", bytes.NewReader(blobtest.Content(10_000)))
	require.ErrorIs(t, err, wire.Unavailable)
	direct := files(t, open(t, s.config()))
	for info, err := range open(t, s.config()).List(t.Context(), "") {
		require.NoError(t, err)
		require.Fail(t, info.Key)
	}
	ref, err := direct.Put(t.Context(), artifact.Tools, "a.ts", bytes.NewReader(blobtest.Content(10_000)))
	require.NoError(t, err)
	exist, err := direct.Exist(t.Context(), ref)
	require.NoError(t, err)
	require.Equal(t, []bool{true}, exist)
}

// A server without support for ranges must not look like one that sends other content.
func TestAServerThatIgnoresRanges(t *testing.T) {
	t.Parallel()
	content := blobtest.Content(1000)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write(content) // net/http discards it for HEAD
	}))
	defer server.Close()
	cfg := s3blob.Config{Bucket: bucket, Region: "r", Endpoint: server.URL, AccessKeyID: accessKey, SecretAccessKey: secretKey}
	d := open(t, cfg)
	b, err := d.Open(t.Context(), blobtest.Key("a", "a.ts"))
	require.NoError(t, err)
	got, err := io.ReadAll(b.Content)
	require.NoError(t, err)
	require.Equal(t, content, got)
	_, err = b.Content.Seek(10, io.SeekStart)
	require.NoError(t, err)
	_, err = io.ReadAll(b.Content)
	require.ErrorContains(t, err, "range")
	require.NoError(t, b.Close())
	require.NoError(t, d.Close())
}
