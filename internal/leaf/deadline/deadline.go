// Package deadline writes HTTP responses to clients that may be slow but must not stall. A
// http.Server.WriteTimeout bounds a response as a whole; a [Writer] sets a deadline for each 64 KiB
// instead, so that a long download continues as long as the client reads.
package deadline

import (
	"cmp"
	"errors"
	"net/http"
	"time"
)

const (
	defaultTimeout = 30 * time.Second

	// Chunk is how many bytes a client must read within the timeout: 64 KiB in 30 s are 2 KiB/s.
	Chunk = 64 << 10
)

// Writer writes the body of a response. It is not safe for concurrent use.
type Writer struct {
	w        http.ResponseWriter
	control  *http.ResponseController
	timeout  time.Duration // 0: there are no deadlines
	extended time.Time
}

// NewWriter returns a writer whose client has to read each chunk within the timeout. The timeout
// defaults to 30 s; a negative one sets no deadlines.
func NewWriter(w http.ResponseWriter, timeout time.Duration) Writer {
	return Writer{w: w, control: http.NewResponseController(w), timeout: max(0, cmp.Or(timeout, defaultTimeout))}
}

// Timeout returns the time for each chunk, or 0 without deadlines.
func (w *Writer) Timeout() time.Duration { return w.timeout }

// Extended returns the time of the last Extend.
func (w *Writer) Extended() time.Time { return w.extended }

// Extend gives the client a new period. A response writer without deadlines is not a connection:
// later calls set no deadline.
func (w *Writer) Extend() error { return w.ExtendBy(w.timeout) }

// ExtendBy is Extend for another period. Without deadlines it has no effect.
func (w *Writer) ExtendBy(period time.Duration) error {
	w.extended = time.Now()
	if w.timeout == 0 {
		return nil
	}

	err := w.control.SetWriteDeadline(w.extended.Add(period))
	if errors.Is(err, http.ErrNotSupported) {
		w.timeout = 0
		return nil
	}

	return err
}

// Write writes p in chunks, each with a new period. An empty p only extends the deadline.
func (w *Writer) Write(p []byte) (int, error) {
	var err error
	var n int
	for {
		if err = w.Extend(); err != nil || len(p) == n {
			return n, err
		}

		var written int
		written, err = w.w.Write(p[n:min(len(p), n+Chunk)])
		if n += written; err != nil || n == len(p) {
			return n, err
		}
	}
}

// Flush sends buffered data within the current period.
func (w *Writer) Flush() error { return w.control.Flush() }

// Clear removes the deadline, which would otherwise apply to the next write.
func (w *Writer) Clear() error {
	if w.timeout == 0 {
		return nil
	}

	return w.control.SetWriteDeadline(time.Time{})
}
