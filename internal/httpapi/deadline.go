package httpapi

import (
	"net/http"
	"time"
)

const (
	// bodyTimeout bounds the time in which a request body arrives.
	bodyTimeout = time.Minute
	// drainTimeout bounds the time for the rest of a body that the handler did not read.
	drainTimeout = 5 * time.Second
)

// readWithin sets the deadline for reads of the request body; 0 removes it. net/http removes it
// before the next request of a connection.
func readWithin(w http.ResponseWriter, d time.Duration) {
	var at time.Time
	if d > 0 {
		at = time.Now().Add(d)
	}

	_ = http.NewResponseController(w).SetReadDeadline(at) // a writer without deadlines is not a connection
}
