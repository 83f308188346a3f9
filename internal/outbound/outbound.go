// Package outbound provides HTTP transports for calls to other servers. [Transport] is for
// streaming responses of servers that the configuration names. [Public] is for URLs that a model or
// a script chooses: it connects only to public addresses.
package outbound

import (
	"net"
	"net/http"
	"time"
)

// Transport returns a transport without a limit on the time to the first byte: a model may think
// for minutes, and the caller bounds the time. It uses no proxy, and no compression, which would
// delay a stream.
func Transport() *http.Transport {
	return &http.Transport{
		DialContext:           withoutResolver((&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext),
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
		ForceAttemptHTTP2:     true,
		DisableCompression:    true,
		MaxIdleConnsPerHost:   256, // with the default of 2, nearly every call needs a new handshake
		IdleConnTimeout:       90 * time.Second,
		// Each waiting stream holds these buffers. Larger reads and writes bypass them. The
		// defaults are 4 KiB each.
		ReadBufferSize:  1 << 10,
		WriteBufferSize: 1 << 10,
		// Detects a peer that disappeared without closing the connection.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
	}
}
