package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed93082962/agenthost/internal/outbound"
	"github.com/seed93082962/agenthost/runtime/agent"
)

const (
	// forHeaders is how long the stream of what a server says unasked may take to begin. The SDK waits for it while it
	// connects, and servers may hold back even the headers until there is something to say.
	forHeaders = 2 * time.Second

	// forDelete bounds the request that ends a session.
	forDelete = time.Second
)

var (
	errElsewhere   = errors.New("the request would go to another origin than that of the configured url")
	errSessionGone = errors.New("the server does not know the session any more")
	errTooLarge    = fmt.Errorf("the answer is larger than %d MiB", maxMessage>>20)
)

// overHTTP checks the definition of a server that is called by HTTP and answers what begins a link to it.
func overHTTP(cfg Config, def agent.MCPServer) (func(*link) (carrier, error), error) {
	if def.Command != "" || len(def.Args) > 0 || len(def.Env) > 0 {
		return nil, fmt.Errorf("command, args and env have no meaning with transport %s", def.Transport)
	}
	u, err := url.Parse(def.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, errors.New("url is not an http or https address") // without the url, which may carry a secret
	}
	header := http.Header{}
	for name, value := range def.Headers {
		if !isToken(name) || !isFieldValue(string(value)) {
			return nil, fmt.Errorf("the header %.80q cannot be sent", name)
		}
		header.Set(name, string(value))
	}
	return func(l *link) (carrier, error) {
		w := &web{url: def.URL, sse: def.Transport == agent.TransportSSE, origin: originOf(u), header: header, life: l.life}
		if cfg.HTTPClient != nil {
			w.base, w.jar = cfg.HTTPClient.Transport, cfg.HTTPClient.Jar
		}
		if w.base == nil {
			own := outbound.Transport()
			w.base, w.idle = own, own.CloseIdleConnections
		}
		return w, nil
	}, nil
}

// web is the requests of one link: it is the http.RoundTripper that the SDK sends them through.
type web struct {
	url    string
	sse    bool
	origin string
	header http.Header
	life   context.Context
	base   http.RoundTripper
	jar    http.CookieJar
	idle   func() // nil: the transport belongs to somebody else
}

func (w *web) transport() sdk.Transport {
	client := &http.Client{Transport: w, Jar: w.jar, CheckRedirect: w.redirect}
	if w.sse {
		return &sdk.SSEClientTransport{Endpoint: w.url, HTTPClient: client, MaxEventSize: maxMessage}
	}
	return &sdk.StreamableClientTransport{Endpoint: w.url, HTTPClient: client, MaxEventSize: maxMessage}
}

func (w *web) done() <-chan struct{}   { return nil }
func (w *web) explain(err error) error { return err }
func (w *web) hangUp()                 {}

func (w *web) release() {
	if w.idle != nil {
		w.idle()
	}
}

// redirect follows within the origin, to which RoundTrip keeps it, as long as the request stays what it is: a POST that became a GET would lose its
// message.
func (w *web) redirect(req *http.Request, via []*http.Request) error {
	switch {
	case req.Method != via[0].Method:
		return errors.New("the redirect would turn the request into another one")
	case len(via) >= 5:
		return errors.New("too many redirects")
	}
	return nil
}

// RoundTrip sends a request with the configured headers, to the configured origin alone, and ends it with the link.
func (w *web) RoundTrip(req *http.Request) (*http.Response, error) {
	if originOf(req.URL) != w.origin { // a redirect, or the address that an sse server wants its messages at
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, errElsewhere
	}
	var ctx context.Context
	var cancel context.CancelFunc
	stop := func() bool { return true }
	if req.Method == http.MethodDelete { // says goodbye when the link has ended
		ctx, cancel = context.WithTimeout(req.Context(), forDelete)
	} else {
		ctx, cancel = context.WithCancel(req.Context())
		stop = context.AfterFunc(w.life, cancel)
	}
	free := func() { stop(); cancel() }

	late := func() bool { return false }
	if req.Method == http.MethodGet && !w.sse {
		timer := time.AfterFunc(forHeaders, cancel)
		late = func() bool { return !timer.Stop() }
	}
	resp, err := w.base.RoundTrip(w.dressed(ctx, req))
	switch {
	case late() && req.Context().Err() == nil && w.life.Err() == nil: // as good as no stream
		if err == nil {
			resp.Body.Close()
		}
		free()
		return &http.Response{StatusCode: http.StatusMethodNotAllowed, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
	case err != nil:
		free()
		return nil, err
	case resp.StatusCode == http.StatusNotFound && req.Method == http.MethodPost && (w.sse || req.Header.Get("Mcp-Session-Id") != ""):
		resp.Body.Close()
		free()
		return nil, errSessionGone
	}
	resp.Body = &body{ReadCloser: resp.Body, free: free, left: maxMessage, endless: isStream(resp.Header)}
	return resp, nil
}

// dressed is a copy of req with the configured headers, except where the protocol has set one itself.
func (w *web) dressed(ctx context.Context, req *http.Request) *http.Request {
	req = req.Clone(ctx)
	own := maps.Clone(req.Header)
	maps.Copy(req.Header, w.header.Clone())
	maps.Copy(req.Header, own)
	if host := w.header.Get("Host"); host != "" {
		req.Host = host
	}
	return req
}

// body is an answer's body. The SDK bounds the events of a stream, and reads anything else to its end.
type body struct {
	io.ReadCloser
	free    func()
	left    int
	endless bool
}

func (b *body) Read(p []byte) (int, error) {
	if b.endless {
		return b.ReadCloser.Read(p)
	}
	if len(p) > b.left+1 { // one more, to know an answer of just the limit from a larger one
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}

func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.free()
	return err
}

func isStream(h http.Header) bool {
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && kind == "text/event-stream"
}

func originOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return strings.ToLower(u.Scheme + "://" + u.Hostname() + ":" + port)
}

// isToken and isFieldValue are RFC 9110, 5.6.2 and 5.5, in ASCII.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return c <= ' ' || c >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c)
	})
}

func isFieldValue(s string) bool {
	return strings.TrimSpace(s) == s && !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' && c != '\t' || c >= 0x7f })
}
