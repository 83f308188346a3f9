package client

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/runtime/wire"
)

// Error is an answer of the runtime that tells an error.
type Error struct {
	Status     int
	Body       wire.ErrorBody // empty where the answer came from something in between
	RetryAfter time.Duration  // what the runtime asked to wait, 0 where it did not
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "runtime answered %d", e.Status)
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

// failure makes the error of an answer.
func failure(res *http.Response, data []byte) *Error {
	e := &Error{Status: res.StatusCode, RetryAfter: retryAfter(res.Header.Get("Retry-After"), time.Now())}
	_ = json.Unmarshal(data, &e.Body) // what stands between may answer anything
	return e
}

// maxRetryAfter keeps a nonsensical number or date within what a caller can reckon with.
const maxRetryAfter = 24 * time.Hour

// retryAfter reads the header of RFC 9110 (10.2.3): the runtime sends seconds, what stands between
// may send a date.
func retryAfter(value string, now time.Time) time.Duration {
	var wait time.Duration
	if seconds, err := strconv.ParseInt(value, 10, 64); err == nil {
		wait = time.Duration(min(seconds, int64(maxRetryAfter/time.Second))) * time.Second
	} else if date, err := http.ParseTime(value); err == nil {
		wait = date.Sub(now)
	}
	return min(max(wait, 0), maxRetryAfter)
}
