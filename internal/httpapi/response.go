package httpapi

import (
	"cmp"
	"io"
	"net/http"
)

// response records the response for the access log.
type response struct {
	http.ResponseWriter
	status int
	bytes  int64
	path   string // replaces the path of the request in the log
	route  string // the pattern that matches the request, or ""
	tenant string // of the user
	user   string // who sent the request, or ""
	unread bool   // the request body is not read to its end
	head   bool   // the method is HEAD
	large  func() error
}

// largeJSON is the number of bytes from which a JSON body is large.
const largeJSON = 64 << 10

// OnLarge sets a function that a [Document] calls before a body of more than 64 KiB. Its error is
// that of the document. w is the writer that Wrap passes to the handler.
func OnLarge(w http.ResponseWriter, f func() error) {
	if res := responseOf(w); res != nil {
		res.large = f
	}
}

// Unwrap makes the methods of the wrapped writer available to http.ResponseController.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// LogAs sets the path in the access log for the request of w, if the real path may contain a
// secret. w is the writer that Wrap passes to the handler.
func LogAs(w http.ResponseWriter, path string) {
	if res := responseOf(w); res != nil {
		res.path = path
	}
}

// SetRoute sets the pattern that matches the request of w, for Shell.Observe. w is the writer that
// Wrap passes to the handler.
func SetRoute(w http.ResponseWriter, pattern string) {
	if res := responseOf(w); res != nil {
		res.route = pattern
	}
}

// StatusOf returns the status of the response that has begun, or 0. w is the writer that Wrap
// passes to the handler, or a wrapper of it.
func StatusOf(w http.ResponseWriter) int {
	if res := responseOf(w); res != nil {
		return res.status
	}

	return 0
}

// LogUser sets the user in the access log for the request of w. w is the writer that Wrap passes to
// the handler.
func LogUser(w http.ResponseWriter, tenant, user string) {
	if res := responseOf(w); res != nil {
		res.tenant, res.user = tenant, user
	}
}

// Began reports whether a part of the response has been written. w is the writer that Wrap passes
// to the handler, or a wrapper of it.
func Began(w http.ResponseWriter) bool {
	res := responseOf(w)
	return res != nil && res.status != 0
}

// responseOf returns the writer of Wrap that w is or wraps, or nil.
func responseOf(w http.ResponseWriter) *response {
	for {
		switch wrapper := w.(type) {
		case *response:
			return wrapper
		case interface{ Unwrap() http.ResponseWriter }:
			w = wrapper.Unwrap()
		default:
			return nil
		}
	}
}

// Status returns the status of the response, which is 200 for a handler that wrote nothing.
func (w *response) Status() int { return cmp.Or(w.status, http.StatusOK) }

func (w *response) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		w.begin(status)
	}

	w.ResponseWriter.WriteHeader(status)
}

// begin records the start of the response.
func (w *response) begin(status int) {
	if w.status != 0 {
		return
	}

	w.status = status
	if w.unread {
		// net/http waits for the rest of the request body before it sends the response. A stalled
		// body would hold the connection forever.
		readWithin(w.ResponseWriter, drainTimeout)
	}
}

func (w *response) Write(p []byte) (int, error) {
	w.begin(http.StatusOK)
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// ReadFrom allows net/http to use sendfile(2).
func (w *response) ReadFrom(r io.Reader) (int64, error) {
	w.begin(http.StatusOK)
	n, err := io.Copy(w.ResponseWriter, r)
	w.bytes += n
	return n, err
}

// body detects the end of a request body.
type body struct {
	io.ReadCloser
	res *response
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF && b.res.unread {
		b.res.unread = false
		readWithin(b.res.ResponseWriter, 0) // the deadline was for the body; the handler may take longer
	}

	return n, err
}
