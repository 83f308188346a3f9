package modeltest

import (
	"net/http"
	"time"
)

// Request is a request that an [Upstream] received.
type Request struct {
	Method string
	Path   string
	Query  string
	Header http.Header
	Body   []byte
	Time   time.Time // when the request was read

	closed chan struct{}
	end    time.Time // this and the next are written before closed is closed
	gone   bool
}

// Closed is closed when the upstream is done with the request: the complete reply was written, or
// the client has disconnected.
func (r *Request) Closed() <-chan struct{} { return r.closed }

// End waits until the request is closed. It returns the time, and reports whether the client
// disconnected before the complete reply was written.
func (r *Request) End() (at time.Time, early bool) {
	<-r.closed
	return r.end, r.gone
}

func (r *Request) finish() {
	r.end = time.Now()
	close(r.closed)
}
