// Package outbound makes what calls other servers: [Transport] for calls that are answered by a stream, to servers that
// the configuration names, and [Public] for calls to where a model or a script wants to, which reach public addresses
// alone.
package outbound

import (
	"net"
	"net/http"
	"time"
)

// Transport has no limit on the time to the first byte: a model may think for minutes, and
// whoever calls knows how long is too long. It looks for no proxy in the environment, and asks for
// no compression, which would hold a stream up.
func Transport() *http.Transport {
	return &http.Transport{
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
		ForceAttemptHTTP2:     true,
		DisableCompression:    true,
		MaxIdleConnsPerHost:   256, // the default of 2 would have nearly every call shake hands anew
		IdleConnTimeout:       90 * time.Second,
		// A stream waits with these, and nothing passes through them but headers and single
		// tokens: a read or write of more goes past them. The defaults are 4 KiB each.
		ReadBufferSize:  1 << 10,
		WriteBufferSize: 1 << 10,
		// Finds out that a peer is gone without a word while an answer is awaited.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
	}
}
