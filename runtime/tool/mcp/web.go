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
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel/propagation"

	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/internal/domain"
	"github.com/seed93082962/agenthost/internal/outbound"
	"github.com/seed93082962/agenthost/runtime/agent"
)

const (
	// headerTime bounds the wait for the headers of the stream of notifications. The SDK waits for
	// them while it connects, and some servers send them only with the first notification.
	headerTime = 2 * time.Second

	// deleteTime bounds the request that ends a session.
	deleteTime = time.Second
)

var (
	errOtherOrigin = errors.New("the request would go to another origin than that of the configured url")
	errSessionGone = errors.New("the server no longer knows the session")
	errTooLarge    = fmt.Errorf("the response is larger than %d MiB", maxMessage>>20)
)

// overHTTP checks the definition of a server that is called by HTTP and returns a function that
// starts a link to it.
func overHTTP(cfg Config, def agent.MCPServer) (func(*link) (endpoint, error), error) {
	if def.Command != "" || len(def.Args) > 0 || len(def.Env) > 0 {
		return nil, fmt.Errorf("command, args and env are not allowed with transport %s", def.Transport)
	}

	u, err := url.Parse(def.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, errors.New("url is not an http or https address") // without the url, which may contain a secret
	}

	header := http.Header{}
	for name, value := range def.Headers {
		if !isToken(name) || !isFieldValue(string(value)) {
			return nil, fmt.Errorf("the header %.80q is not valid", name)
		}

		header.Set(name, string(value))
	}

	return func(l *link) (endpoint, error) {
		w := &web{oauth: def.OAuth, url: def.URL, sse: def.Transport == agentvalue.TransportSSE, origin: originOf(u), header: header, life: l.life, end: l.end, filter: l.filter}
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

// web is the http.RoundTripper of one link.
type web struct {
	url    string
	sse    bool
	origin string
	header http.Header
	oauth  agent.OAuth
	life   context.Context
	end    context.CancelCauseFunc
	filter *filter
	client *http.Client            // sends through RoundTrip
	target atomic.Pointer[url.URL] // of the last POST
	base   http.RoundTripper
	jar    http.CookieJar
	idle   func() // nil: the transport belongs to the caller
}

func (w *web) transport() sdk.Transport {
	w.client = &http.Client{Transport: w, Jar: w.jar, CheckRedirect: w.redirect}
	if w.sse {
		return &sdk.SSEClientTransport{Endpoint: w.url, HTTPClient: w.client, MaxEventSize: 2 * maxMessage}
	}

	t := &sdk.StreamableClientTransport{Endpoint: w.url, HTTPClient: w.client, MaxEventSize: 2 * maxMessage}
	if w.oauth.ClientID != "" {
		t.OAuthHandler = newCredentials(w)
	}

	return t
}

func (w *web) done() <-chan struct{} { return nil }

func (w *web) explain(err error) error { return err }

func (w *web) terminate() {}

func (w *web) release() {
	if w.idle != nil {
		w.idle()
	}
}

// redirect follows a redirect that preserves the method: a POST that became a GET would lose its
// message. RoundTrip rejects redirects to another origin.
func (w *web) redirect(req *http.Request, via []*http.Request) error {
	switch {
	case req.Method != via[0].Method:
		return errors.New("the redirect would change the method of the request")
	case len(via) >= 5:
		return errors.New("too many redirects")
	}

	return nil
}

// RoundTrip sends a request with the configured headers, only to the configured origin, and ends it
// with the link. Only messages that pass the filter are sent, and are in the body of the response.
func (w *web) RoundTrip(req *http.Request) (*http.Response, error) {
	if originOf(req.URL) != w.origin { // a redirect, or the message endpoint of an sse server
		closeBody(req)
		return nil, errOtherOrigin
	}

	msg, err := w.sent(req)
	if err != nil {
		closeBody(req)
		return nil, err
	}

	resp, err := w.exchange(req, msg)
	if err != nil || resp.StatusCode/100 != 2 {
		w.filter.failed(msg)
	}

	return resp, err
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}

// sent returns the message of a POST, and nil for any other request.
func (w *web) sent(req *http.Request) (jsonrpc.Message, error) {
	if req.Method != http.MethodPost {
		return nil, nil
	}

	copied, err := req.GetBody()
	if err != nil {
		return nil, err
	}

	data, err := io.ReadAll(copied) // the SDK holds it in memory anyway
	if err != nil {
		return nil, err
	}

	msg, err := jsonrpc.DecodeMessage(data)
	if err != nil {
		return nil, err
	}

	w.target.Store(req.URL)
	return msg, w.filter.outgoing(msg)
}

func (w *web) exchange(req *http.Request, msg jsonrpc.Message) (*http.Response, error) {
	var ctx context.Context
	var cancel context.CancelFunc
	stop := func() bool { return true }
	if req.Method == http.MethodDelete { // ends the session after the link has ended
		ctx, cancel = context.WithTimeout(req.Context(), deleteTime)
	} else {
		ctx, cancel = context.WithCancel(req.Context())
		stop = context.AfterFunc(w.life, cancel)
	}

	free := func() { stop(); cancel() }

	late := func() bool { return false }
	if req.Method == http.MethodGet && !w.sse {
		timer := time.AfterFunc(headerTime, cancel)
		late = func() bool { return !timer.Stop() }
	}

	resp, err := w.base.RoundTrip(w.withHeaders(ctx, req))
	switch {
	case late() && req.Context().Err() == nil && w.life.Err() == nil: // the server is treated as one without a stream
		if err == nil {
			resp.Body.Close()
		}

		free()
		return &http.Response{StatusCode: http.StatusMethodNotAllowed, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
	case err != nil:
		free()
		return nil, err
	case req.Method == http.MethodPost && w.sessionUnknown(req, msg, resp):
		resp.Body.Close()
		free()
		return nil, errSessionGone
	}

	if refused := w.refusalOf(req, resp); refused != nil {
		resp.Body.Close()
		free()
		return nil, refused
	}

	resp.Body = w.received(req, resp, free)
	return resp, nil
}

// withHeaders returns a copy of req with the configured headers. Headers that the protocol sets
// take precedence.
func (w *web) withHeaders(ctx context.Context, req *http.Request) *http.Request {
	req = req.Clone(ctx)
	own := maps.Clone(req.Header)
	maps.Copy(req.Header, w.header.Clone())
	maps.Copy(req.Header, own)
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(req.Header))
	if host := w.header.Get("Host"); host != "" {
		req.Host = host
	}

	return req
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

	return domain.Lower(u.Scheme + "://" + u.Hostname() + ":" + port)
}

// isToken and isFieldValue implement RFC 9110, sections 5.6.2 and 5.5, for ASCII.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return c <= ' ' || c >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c)
	})
}

func isFieldValue(s string) bool {
	return strings.TrimSpace(s) == s && !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' && c != '\t' || c >= 0x7f })
}
