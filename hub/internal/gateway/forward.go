package gateway

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/httpapi"
	"github.com/seed93082962/agenthost/internal/leaf/deadline"
)

// exchange is a request that is forwarded to a runtime.
type exchange struct {
	target  Target
	path    string // in the runtime, in its escaped form
	query   string
	request func(http.Header)          // changes the headers of the request
	check   func(*http.Response) error // rejects a response, or replaces its body
	within  time.Duration              // until the response is checked; 0 is unlimited
	run     *directRun                 // whose tokens are counted, or nil
}

// errSlow is the cause of a request whose response did not begin in time.
var errSlow = errors.New("the runtime did not respond in time")

// withheld are request headers that a runtime does not receive: credentials of the hub, the request
// for another protocol, and the origin, which the hub has checked and which is not that of the
// runtime.
var withheld = []string{
	"Authorization", "Connection", "Cookie", "Origin", "Sec-Fetch-Site", "Upgrade", "X-Chat-Push-Key", "X-Ops-Key",
}

// passed are the response headers of a runtime that reach a client. Others could have an effect on
// other pages of the hub, or on a proxy in front of it, such as X-Accel-Redirect.
var passed = []string{
	"Accept-Ranges", "Allow", "Cache-Control", "Content-Disposition", "Content-Encoding", "Content-Length", "Content-Range", "Content-Type",
	"Date", "Etag", "Last-Modified", "Retry-After", "Vary", "X-Accel-Buffering", "X-Run-Id",
}

// uncached are the values of Cache-Control that a runtime sends. With any other one the response
// has that of the hub, no-store: it needs a credential, which a shared cache does not check.
var uncached = []string{"no-store", "private, no-cache", "no-cache, no-transform, no-store"}

// conditions are the request headers that the content of a file understands.
var conditions = []string{"Accept", "If-Match", "If-Modified-Since", "If-None-Match", "If-Range", "If-Unmodified-Since", "Range"}

// retain removes all headers but those with the given names.
func retain(h http.Header, names []string) {
	for name := range h {
		if !slices.Contains(names, name) {
			delete(h, name)
		}
	}
}

// newProxy returns the proxy of all exchanges. It finds that of a request in its context. Event
// streams and other responses without a length are flushed after each part, which ReverseProxy does
// by itself.
func newProxy(cfg Config) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite:      func(p *httputil.ProxyRequest) { responseOf(p.In.Context()).rewrite(p.Out) },
		Transport:    transport{cfg.Transport},
		BufferPool:   new(buffers),
		ErrorLog:     slog.NewLogLogger(cfg.Store.Logger.Handler(), slog.LevelDebug), // of responses that end early
		ErrorHandler: func(_ http.ResponseWriter, r *http.Request, err error) { responseOf(r.Context()).failure = err },
	}
}

// forward sends the request to the runtime and copies the response. It returns an error if it has
// written nothing.
func (s *Service) forward(w http.ResponseWriter, r *http.Request, x exchange) error {
	ctx := r.Context()
	res := &response{ResponseWriter: w, exchange: x, header: http.Header{}, body: deadline.NewWriter(w, 0)}
	if x.within > 0 {
		slow, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		res.timer = time.AfterFunc(x.within, func() { cancel(errSlow) })
		defer res.timer.Stop()
		ctx = slow
	}

	defer res.end()
	out := r.WithContext(context.WithValue(ctx, responseKey{}, res))
	out.Body = requestBody{r.Body}
	if x.run != nil {
		out.Body = &runRequest{Closer: out.Body, body: bufio.NewReader(out.Body), run: x.run}
	}

	s.proxy.ServeHTTP(res, out)
	return s.failed(r, res.failure)
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

	if refused, ok := errors.AsType[*wire.Error](err); ok { // before the end of the body
		return refused
	}

	if incomplete, ok := errors.AsType[*httpapi.BodyError](err); ok {
		return incomplete
	}

	s.count(err)
	e := code.UpstreamFailed.New("The runtime of the agent did not respond as expected: see its logs, and deploy it again if it does not recover.")
	e.Cause = err
	return e
}

// requestBody is the body of a request. An error is that of its client, and not of the runtime.
type requestBody struct{ io.ReadCloser }

// Read implements io.Reader.
func (b requestBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // io.Reader returns it unwrapped
		err = fmt.Errorf("%w: %w", &httpapi.BodyError{Message: "the body could not be read to its end"}, err)
	}

	return n, err
}

// response writes the response of a runtime. It disconnects a client that reads nothing for a
// while. Informational responses and trailers are not forwarded: they may have any header.
type response struct {
	http.ResponseWriter
	exchange
	header  http.Header // of the runtime
	body    deadline.Writer
	timer   *time.Timer // of exchange.within, or nil
	began   bool        // the headers have been written
	failure error       // of the request to the runtime
}

type responseKey struct{}

func responseOf(ctx context.Context) *response { return ctx.Value(responseKey{}).(*response) }

// rewrite makes out the request to the runtime.
func (w *response) rewrite(out *http.Request) {
	scheme, rest, _ := strings.Cut(w.target.URL, "://") // without net/url, for each request
	host, base, _ := strings.Cut(rest, "/")
	if base != "" {
		base = "/" + base
	}

	out.URL.Scheme, out.URL.Host, out.Host = scheme, host, host
	out.URL.RawPath = base + w.path
	out.URL.Path, _ = url.PathUnescape(out.URL.RawPath) // it is from a parsed URL
	out.URL.RawQuery = w.query
	for _, name := range withheld {
		delete(out.Header, name)
	}

	out.Header[httpapi.RequestIDHeader] = []string{httpapi.RequestID(w.ResponseWriter)}
	w.request(out.Header)
}

// accept rejects a response that must not reach a client, and removes the headers that must not.
func (w *response) accept(res *http.Response) error {
	if res.StatusCode == http.StatusSwitchingProtocols || res.StatusCode >= 300 && res.StatusCode < 400 && res.StatusCode != http.StatusNotModified {
		return fmt.Errorf("the runtime responded with status %d", res.StatusCode)
	}

	res.Trailer = nil
	if w.run != nil {
		w.run.accept(res)
	}

	retain(res.Header, passed)
	if caching := res.Header["Cache-Control"]; len(caching) != 1 || !slices.Contains(uncached, caching[0]) {
		delete(res.Header, "Cache-Control")
	}

	err := w.check(res) // may read the body
	if w.timer != nil && !w.timer.Stop() {
		return errSlow
	}

	return err
}

// Header returns the headers of the runtime. WriteHeader adds them to those of the hub.
func (w *response) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *response) WriteHeader(status int) {
	if status < http.StatusOK {
		return
	}

	h := w.ResponseWriter.Header()
	for name, values := range w.header {
		if name == "Vary" { // that of the hub also applies
			values = append(h[name], values...)
		}

		h[name] = values
	}

	w.began = true
	w.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (w *response) Write(p []byte) (int, error) { return w.body.Write(p) }

// Unwrap makes Flush of the wrapped writer available.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// end sends what is buffered, and removes the deadline, which would apply to the next response of
// the connection.
func (w *response) end() {
	if !w.began {
		return
	}

	_ = w.body.Flush() // the connection is closed after an error
	_ = w.body.Clear()
}

// transport checks responses before the proxy.
type transport struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := t.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}

	if err := responseOf(r.Context()).accept(res); err != nil {
		_ = res.Body.Close() // it is not needed
		return nil, err
	}

	return res, nil
}

// bufferSize is that of the buffer of a response, which it holds until it ends: an event stream has
// small parts.
const bufferSize = 16 << 10

// buffers reuses the buffers of responses.
type buffers struct{ pool sync.Pool }

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte {
	if p, ok := b.pool.Get().(*[bufferSize]byte); ok {
		return p[:]
	}

	return make([]byte, bufferSize)
}

// Put implements httputil.BufferPool.
func (b *buffers) Put(p []byte) { b.pool.Put((*[bufferSize]byte)(p)) }
