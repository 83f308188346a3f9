package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/internal/deadline"
	"github.com/seed93082962/agenthost/internal/httpapi"
)

// exchange is a request that is forwarded to a runtime.
type exchange struct {
	target  Target
	path    string // in the runtime, in its escaped form
	query   string
	request func(http.Header)          // changes the headers of the request
	check   func(*http.Response) error // rejects a response, or changes its headers
	within  time.Duration              // until the headers of the response; 0 is unlimited
}

// errSlow is the cause of a request whose response did not begin in time.
var errSlow = errors.New("the runtime did not respond in time")

// forward sends the request to the runtime and copies the response. It returns an error if it has
// written nothing.
func (s *Service) forward(w http.ResponseWriter, r *http.Request, x exchange) error {
	base, err := url.Parse(x.target.URL)
	if err != nil {
		return fmt.Errorf("read address of runtime: %w", err)
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	inTime := func() bool { return true }
	if x.within > 0 {
		inTime = time.AfterFunc(x.within, func() { cancel(errSlow) }).Stop
	}
	var failure error
	proxy := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.Host = base.Scheme, base.Host, base.Host
			p.Out.URL.RawPath = base.EscapedPath() + x.path
			p.Out.URL.Path, _ = url.PathUnescape(p.Out.URL.RawPath) // it is from a parsed URL
			p.Out.URL.RawQuery = x.query
			for _, name := range credentials {
				p.Out.Header.Del(name)
			}
			p.Out.Header.Del("Connection") // no upgrade to another protocol
			p.Out.Header.Del("Upgrade")
			p.Out.Header.Set(httpapi.RequestIDHeader, httpapi.RequestID(w))
			x.request(p.Out.Header)
		},
		Transport:     s.cfg.Transport,
		FlushInterval: -1,
		ModifyResponse: func(res *http.Response) error {
			if !inTime() {
				return errSlow
			}
			if res.StatusCode == http.StatusSwitchingProtocols || res.StatusCode >= 300 && res.StatusCode < 400 && res.StatusCode != http.StatusNotModified {
				return fmt.Errorf("the runtime responded with status %d", res.StatusCode)
			}
			if err := x.check(res); err != nil {
				return err
			}
			if res.Header.Get("Cache-Control") != "" {
				w.Header().Del("Cache-Control") // that of the hub
			}
			return nil
		},
		ErrorLog:     slog.NewLogLogger(s.cfg.Logger.Handler(), slog.LevelDebug), // of responses that end early
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) { failure = err },
	}
	client := newStallWriter(w)
	defer client.clear()
	proxy.ServeHTTP(client, r.WithContext(ctx))
	return s.failed(r, failure)
}

// failed returns the error of the response for a request that the runtime did not serve.
func (s *Service) failed(r *http.Request, err error) error {
	if err == nil {
		return nil
	}
	if r.Context().Err() != nil { // the client disconnected, or the hub is closing
		return fmt.Errorf("forward request: %w", context.Cause(r.Context()))
	}
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLarge
	}
	e := api.UpstreamFailed.New("The runtime of the agent did not respond as expected: see its logs, and deploy it again if it does not recover.")
	e.Cause = err
	return e
}

// stallWriter disconnects a client that reads nothing for a while.
type stallWriter struct {
	http.ResponseWriter
	body deadline.Writer
}

func newStallWriter(w http.ResponseWriter) *stallWriter {
	return &stallWriter{w, deadline.NewWriter(w, 0)}
}

// Write implements io.Writer.
func (w *stallWriter) Write(p []byte) (int, error) { return w.body.Write(p) }

// Unwrap makes Flush of the wrapped writer available.
func (w *stallWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// clear removes the deadline, which would apply to the next response of the connection.
func (w *stallWriter) clear() { _ = w.body.Clear() }
