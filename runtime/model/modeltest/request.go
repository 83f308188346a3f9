package modeltest

import (
	"net/http"
	"time"
)

// Request is a request that came to an [Upstream].
type Request struct {
	Method string
	Path   string
	Header http.Header
	Body   []byte
	Time   time.Time // when it had been read

	closed chan struct{}
	end    time.Time // this and the next are written before closed is closed
	gone   bool
}

// Closed is closed when the upstream is done with the request: the whole reply has been
// written, or the client has gone away.
func (r *Request) Closed() <-chan struct{} { return r.closed }

// End waits until the request is closed. It tells when that was, and whether the client went
// away before the whole reply had been written.
func (r *Request) End() (at time.Time, early bool) {
	<-r.closed
	return r.end, r.gone
}

func (r *Request) finish() {
	r.end = time.Now()
	close(r.closed)
}
