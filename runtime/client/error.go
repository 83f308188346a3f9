package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/runtime/wire"
)

// Error is an error response of the runtime.
type Error struct {
	Status     int
	Body       wire.ErrorBody // empty if a proxy responded
	RetryAfter time.Duration  // 0 if the response has no Retry-After
}

// Kinds of an [Error], for errors.Is.
var (
	ErrRunIDConflict  = errors.New("the id of the run is in use")
	ErrSessionBusy    = errors.New("another run uses the session")
	ErrUnknownSession = errors.New("the runtime does not have the session")
)

// Is reports whether target is the kind of the error.
func (e *Error) Is(target error) bool {
	if e.Status != http.StatusConflict {
		return false
	}
	switch target {
	case ErrRunIDConflict:
		return e.Body.Error == wire.RunIDConflict
	case ErrSessionBusy:
		return e.Body.Error == wire.SessionBusy
	case ErrUnknownSession:
		return e.Body.Error == wire.UnknownSession
	}
	return false
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "runtime responded with %d", e.Status)
	switch {
	case e.Body.Error != "":
		b.WriteString(": " + e.Body.Error)
	case http.StatusText(e.Status) != "":
		b.WriteString(" " + http.StatusText(e.Status))
	}
	if e.Body.Reason != "" {
		b.WriteString(" (" + e.Body.Reason + ")")
	}
	if e.Body.RequestID != "" {
		b.WriteString(" (request " + e.Body.RequestID + ")")
	}
	return b.String()
}

// failure returns the error of a response.
func failure(res *http.Response, data []byte) *Error {
	e := &Error{Status: res.StatusCode, RetryAfter: retryAfter(res.Header.Get("Retry-After"), time.Now())}
	_ = json.Unmarshal(data, &e.Body) // a proxy may send any body
	return e
}

// maxRetryAfter limits implausible numbers and dates.
const maxRetryAfter = 24 * time.Hour

// retryAfter decodes the header of RFC 9110 (10.2.3). The runtime sends seconds, a proxy may send a
// date.
func retryAfter(value string, now time.Time) time.Duration {
	var wait time.Duration
	if seconds, err := strconv.ParseInt(value, 10, 64); err == nil {
		wait = time.Duration(min(seconds, int64(maxRetryAfter/time.Second))) * time.Second
	} else if date, err := http.ParseTime(value); err == nil {
		wait = date.Sub(now)
	}
	return min(max(wait, 0), maxRetryAfter)
}
