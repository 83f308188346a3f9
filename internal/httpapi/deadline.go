package httpapi

import (
	"net/http"
	"time"
)

const (
	// bodyTimeout is how long a request body may take to come in.
	bodyTimeout = time.Minute
	// drainTimeout is how long the rest of a body that nobody wants may take.
	drainTimeout = 5 * time.Second
	// writeTimeout is how long a reader may take for writeChunk bytes of an answer: a stalled
	// one must not hold an answer in memory.
	writeTimeout = 30 * time.Second
	writeChunk   = 64 << 10
)

// Writers that know no deadlines have none to set. net/http takes both away by itself before the
// next request of a connection.

// readWithin bounds reads of the request from now on; 0 lifts the bound.
func readWithin(w http.ResponseWriter, d time.Duration) {
	_ = http.NewResponseController(w).SetReadDeadline(deadline(d))
}

func writeWithin(w http.ResponseWriter, d time.Duration) {
	_ = http.NewResponseController(w).SetWriteDeadline(deadline(d))
}

func deadline(d time.Duration) time.Time {
	if d == 0 {
		return time.Time{}
	}
	return time.Now().Add(d)
}
