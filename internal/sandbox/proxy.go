package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/internal/domain"
	"github.com/seed93082962/agenthost/internal/outbound"
)

const (
	maxConnections = 256 // of all commands of a sandbox
	maxOfCommand   = 64  // connections of one command
	maxDenied      = 20  // addresses that are reported for one command
	maxAddress     = 300 // bytes of an address that is reported
)

// proxy is the HTTP proxy of a sandbox. It connects to public addresses, which are checked after
// each lookup, and to the hosts of domains only.
type proxy struct {
	domains []domain.Pattern
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	forward *httputil.ReverseProxy
	server  *http.Server

	slots chan struct{}
}

// allowAddress and tunnelIdle are changed by tests: their servers have loopback addresses.
var (
	allowAddress func(netip.Addr) bool
	tunnelIdle   = 10 * time.Minute // after which a tunnel without a byte is closed
)

func newProxy(domains []string) (*proxy, error) {
	p := &proxy{
		dial:  outbound.DialPublic(allowAddress),
		slots: make(chan struct{}, maxConnections),
	}
	for _, text := range domains {
		d, err := domain.Parse(text)
		if err != nil {
			return nil, err
		}

		p.domains = append(p.domains, d)
	}

	transport := outbound.Transport()
	transport.DialContext = p.dial
	transport.MaxIdleConnsPerHost = 4
	p.forward = &httputil.ReverseProxy{
		Transport:    transport,
		Rewrite:      func(*httputil.ProxyRequest) {}, // the request has an absolute URL
		ErrorHandler: p.failed,
	}
	p.server = &http.Server{
		Handler:           p,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    64 << 10,
		BaseContext: func(l net.Listener) context.Context {
			own := l.(*listener)
			return context.WithValue(own.ctx, deniedKey{}, own.denied)
		},
	}
	return p, nil
}

func (p *proxy) close() { _ = p.server.Close() }

// serve serves the connections of one command until its listener fails. They end with ctx.
func (p *proxy) serve(ctx context.Context, l net.Listener, denied *denied) {
	_ = p.server.Serve(&listener{l, ctx, [2]chan struct{}{p.slots, make(chan struct{}, maxOfCommand)}, denied})
}

// listener is that of one command.
type listener struct {
	net.Listener
	ctx    context.Context  // done at the end of the command
	slots  [2]chan struct{} // of the sandbox, and of the command
	denied *denied
}

// Accept returns the next connection for which there are slots.
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}

		if !l.take() {
			_ = conn.Close()
			continue
		}

		stop := context.AfterFunc(l.ctx, func() { _ = conn.Close() })
		return &accepted{Conn: conn, release: sync.OnceFunc(func() {
			stop()
			for _, slots := range l.slots {
				<-slots
			}
		})}, nil
	}
}

// take takes a slot of each kind, or none.
func (l *listener) take() bool {
	for i, slots := range l.slots {
		select {
		case slots <- struct{}{}:
		default:
			for _, taken := range l.slots[:i] {
				<-taken
			}

			return false
		}
	}

	return true
}

// accepted is a connection of a command.
type accepted struct {
	net.Conn
	release func() // may be called several times
}

func (a *accepted) Close() error {
	a.release()
	return a.Conn.Close()
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodConnect {
		p.connect(w, r)
		return
	}

	if r.URL.Scheme != "http" || r.URL.Host == "" {
		http.Error(w, "agenthost sandbox: this is a proxy; use an absolute http URL, or CONNECT for https", http.StatusBadRequest)
		return
	}

	host, port := r.URL.Hostname(), r.URL.Port()
	if port == "" {
		port = "80"
	}

	if !p.allowed(w, r, host, port, "80") {
		return
	}

	p.forward.ServeHTTP(w, r)
}

func (p *proxy) connect(w http.ResponseWriter, r *http.Request) {
	host, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		http.Error(w, "agenthost sandbox: CONNECT needs host:port", http.StatusBadRequest)
		return
	}

	if !p.allowed(w, r, host, port, "443") {
		return
	}

	ctx, cancel := context.WithTimeout(r.Context(), 30*time.Second)
	defer cancel()
	upstream, err := p.dial(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		p.failed(w, r, err)
		return
	}

	defer func() { _ = upstream.Close() }()
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, "agenthost sandbox: CONNECT needs HTTP/1.1", http.StatusHTTPVersionNotSupported)
		return
	}

	defer func() { _ = client.Close() }()
	if _, err := io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}

	end := func() { _ = upstream.Close(); _ = client.Close() }
	defer context.AfterFunc(r.Context(), end)()
	idle := time.AfterFunc(tunnelIdle, end)
	defer idle.Stop()
	var both sync.WaitGroup
	both.Go(func() {
		request := io.Reader(buffered)
		if len(p.domains) > 0 {
			hello, denial := p.checkHello(client, buffered.Reader, host, port)
			if denial != "" {
				r.Context().Value(deniedKey{}).(*denied).add(denial)
				end()
				return
			}

			request = io.MultiReader(hello, buffered)
		}

		_, _ = io.Copy(upstream, active{request, idle})
		if half, ok := upstream.(*net.TCPConn); ok {
			_ = half.CloseWrite()
		}
	})
	_, _ = io.Copy(client, active{upstream, idle})
	end()
	both.Wait()
}

// active is a direction of a tunnel.
type active struct {
	io.Reader
	idle *time.Timer
}

func (a active) Read(b []byte) (int, error) {
	n, err := a.Reader.Read(b)
	a.idle.Reset(tunnelIdle)
	return n, err
}

// allowed reports whether the domains permit the host, and responds if not.
func (p *proxy) allowed(w http.ResponseWriter, r *http.Request, host, port, usual string) bool {
	host = domain.Lower(strings.TrimSuffix(host, "."))
	if len(p.domains) == 0 && port == usual || p.listed(host, port, usual) {
		return true
	}

	p.deny(w, r, reason(host, port, usual))
	return false
}

// listed reports whether an entry of the domains permits the host.
func (p *proxy) listed(host, port, usual string) bool {
	return slices.ContainsFunc(p.domains, func(d domain.Pattern) bool { return d.Matches(host, port, usual) })
}

// reason returns why a connection to host is denied, and the domain that permits it.
func reason(host, port, usual string) string {
	address := net.JoinHostPort(host, port)
	if ip, err := netip.ParseAddr(host); err == nil && !outbound.IsPublic(ip) && (allowAddress == nil || !allowAddress(ip)) {
		return privateReason(address)
	}

	entry := address
	if port == usual {
		entry = host
	}

	if _, err := domain.Parse(entry); err != nil {
		return fmt.Sprintf("the sandbox denied a connection to %q, which sandbox.domains cannot permit", shorten(address))
	}

	return fmt.Sprintf("the sandbox denied a connection to %s: add %s to sandbox.domains", address, entry)
}

func privateReason(address string) string {
	return fmt.Sprintf("the sandbox denied a connection to %q: its address is private or reserved, which sandbox.domains cannot permit", shorten(address))
}

// shorten returns the beginning of a long text that a command has chosen.
func shorten(text string) string { return text[:min(len(text), maxAddress)] }

func (p *proxy) failed(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, outbound.ErrAddress) {
		p.deny(w, r, privateReason(r.Host))
		return
	}

	http.Error(w, "agenthost sandbox: "+err.Error(), http.StatusBadGateway)
}

func (p *proxy) deny(w http.ResponseWriter, r *http.Request, reason string) {
	r.Context().Value(deniedKey{}).(*denied).add(reason)
	http.Error(w, reason, http.StatusForbidden)
}

// denied are the connections that a command was denied.
type denied struct {
	mu      sync.Mutex // guards reasons
	reasons []string
}

type deniedKey struct{}

func (d *denied) add(reason string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.reasons) < maxDenied && !slices.Contains(d.reasons, reason) {
		d.reasons = append(d.reasons, reason)
	}
}
