package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"net"
	"net/http"
	"net/netip"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub/client"
	"github.com/seed93082962/agenthost/hub/wire"
)

const (
	// browserPatience bounds the time in which a user signs in with a browser.
	browserPatience = 10 * time.Minute
	// shownCode is the number of characters of the challenge that the user compares.
	shownCode = 8
)

// errDenied is the error of a sign-in that the user cancelled in the browser.
var errDenied = errors.New("the sign-in was cancelled in the browser")

// browserLogin is a sign-in with a browser of this computer (RFC 8252). A page of the hub asks the
// user, and redirects the browser to a listener on the loopback address with a code. Only this
// process can exchange the code, because it has the verifier of the challenge (RFC 7636).
type browserLogin struct {
	client    *client.Client
	verifier  string
	challenge string
	address   netip.AddrPort // of the listener
	ended     chan error
}

// signInWithBrowser signs the client in, and returns after the user has decided.
func (l *login) signInWithBrowser(ctx context.Context, c *client.Client, hubURL string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, browserPatience, fmt.Errorf("the sign-in was not completed within %v", browserPatience))
	defer cancel()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("wait for the browser: %w", err)
	}

	b := &browserLogin{client: c, verifier: rand.Text() + rand.Text(), ended: make(chan error, 1)}
	b.address = listener.Addr().(*net.TCPAddr).AddrPort()
	hash := sha256.Sum256([]byte(b.verifier))
	b.challenge = base64.RawURLEncoding.EncodeToString(hash[:])
	server := &http.Server{Handler: b, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // until Close
	defer func() { _ = server.Close() }()

	address := fmt.Sprintf("%s/console/cli/%d/%s", hubURL, b.address.Port(), b.challenge)
	fmt.Fprintf(l.stderr, "Sign in with a browser on this computer:\n\n  %s\n\nThe page displays the code %s.\n", address, b.challenge[:shownCode])
	l.openBrowser(ctx, address)
	select {
	case err := <-b.ended:
		// The browser has yet to read the response.
		flush, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer stop()
		_ = server.Shutdown(flush)
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ServeHTTP accepts the redirect of the page. Every other request is not found: other sites can
// send some too, but do not know the challenge. Other users of the computer can read it in the
// arguments of the browser, but cannot end or complete the sign-in: their programs are rejected
// where the system names them, and an unknown code does not end it.
func (b *browserLogin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	known := subtle.ConstantTimeCompare([]byte(query.Get("state")), []byte(b.challenge)) == 1
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if r.Method != http.MethodGet || r.URL.Path != "/" || r.Host != b.address.String() || !known || err != nil || ofAnotherUser(peer, b.address) {
		http.NotFound(w, r)
		return
	}

	if query.Get("error") != "" {
		err = errDenied
	} else {
		_, err = b.client.Auth.Redeem(r.Context(), query.Get("code"), b.verifier)
	}

	title, text := "Signed in", "You can close this page. The terminal continues."
	if err != nil {
		title, text = "Not signed in", err.Error()+". Try again with the address that the terminal displays, or run agenthost login again."
	}

	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Connection", "close")
	fmt.Fprintf(w, "<!DOCTYPE html><html lang=\"en\"><title>%s</title><h1>%s</h1><p>%s</p></html>\n", title, title, html.EscapeString(text))
	if errors.Is(err, wire.Unauthenticated) {
		return // the code is of another sign-in
	}

	select {
	case b.ended <- err:
	default: // the page was loaded again
	}
}

// openBrowser opens an address with $BROWSER or the browser of the desktop. A failure is not an
// error, because the address was printed.
func (l *login) openBrowser(ctx context.Context, address string) {
	command := strings.Fields(l.getenv("BROWSER"))
	switch {
	case len(command) > 0:
	case runtime.GOOS == "darwin":
		command = []string{"open"}
	case runtime.GOOS == "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler"}
	case l.getenv("DISPLAY") != "" || l.getenv("WAYLAND_DISPLAY") != "":
		command = []string{"xdg-open"}
	default:
		return
	}

	cmd := exec.CommandContext(ctx, command[0], append(command[1:], address)...)
	if cmd.Start() == nil {
		go func() { _ = cmd.Wait() }() // a browser may run as long as the user wants
	}
}
