package sandbox

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/seed93082962/agenthost/internal/domain"
)

const (
	maxHello     = 16 << 10 // bytes of the first message of a TLS client
	helloTimeout = 10 * time.Second

	recordHandshake = 22     // the first byte of that message: RFC 8446, 5.1
	encryptedHello  = 0xfe0d // the extension encrypted_client_hello: RFC 9849
)

// checkHello compares the server name, which a TLS client sends first, with the domains: many hosts
// can have one address. It returns what it has read, or why the connection is denied. A tunnel to
// port 443 is one of TLS. One to another port, which an entry names, may be something else.
func (p *proxy) checkHello(client net.Conn, buffered *bufio.Reader, host, port string) (io.Reader, string) {
	if port != "443" {
		if first, err := buffered.Peek(1); err != nil || first[0] != recordHandshake {
			return bytes.NewReader(nil), ""
		}
	}

	_ = client.SetReadDeadline(time.Now().Add(helloTimeout))
	info, read, err := readHello(buffered)
	_ = client.SetReadDeadline(time.Time{})
	address := net.JoinHostPort(host, port)
	if err != nil {
		return nil, fmt.Sprintf("the sandbox denied a connection to %s: sandbox.domains permits TLS only, and it does not begin with a message of a TLS client", address)
	}

	if slices.Contains(info.Extensions, encryptedHello) {
		return nil, fmt.Sprintf("the sandbox denied a connection to %s: its server name is encrypted, which sandbox.domains cannot permit", address)
	}

	_, notAddress := netip.ParseAddr(host)
	switch name := domain.Lower(info.ServerName); {
	case name == "" && notAddress == nil: // TLS has no name for an address
	case name == "":
		return nil, fmt.Sprintf("the sandbox denied a connection to %s: it has no server name of TLS, which sandbox.domains needs", address)
	case !p.listed(name, port, "443"):
		return nil, reason(name, port, "443")
	}

	return bytes.NewReader(read), ""
}

// readHello returns the first message of a TLS client, and the bytes that were read for it.
func readHello(r io.Reader) (*tls.ClientHelloInfo, []byte, error) {
	c := &recorder{source: io.LimitReader(r, maxHello)}
	stop := errors.New("the message has been read")
	var hello *tls.ClientHelloInfo
	err := tls.Server(c, &tls.Config{GetConfigForClient: func(info *tls.ClientHelloInfo) (*tls.Config, error) {
		hello = info
		return nil, stop
	}}).Handshake()
	if hello == nil {
		return nil, nil, err
	}

	return hello, c.read.Bytes(), nil
}

// recorder is a connection of which only the input exists. It stores what is read.
type recorder struct {
	net.Conn
	source io.Reader
	read   bytes.Buffer
}

func (c *recorder) Read(b []byte) (int, error) {
	n, err := c.source.Read(b)
	c.read.Write(b[:n])
	return n, err
}

func (c *recorder) Write(b []byte) (int, error) { return len(b), nil }
