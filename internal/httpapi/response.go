package httpapi

import (
	"cmp"
	"io"
	"net/http"
)

// response notes what was answered, for the access log.
type response struct {
	http.ResponseWriter
	status int
	bytes  int64
	path   string // what stands in the log in place of the request's path
	unread bool   // there is a request body that has not come to its end
}

// Unwrap lets http.ResponseController reach what net/http offers beside.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// LogAs sets the path that the access log shows of the request that w answers, where the real one may hold a secret.
// w is what Wrap passed on.
func LogAs(w http.ResponseWriter, path string) {
	if res, ok := w.(*response); ok {
		res.path = path
	}
}

// Began reports whether a part of the answer is written already. w is what Wrap passed on.
func Began(w http.ResponseWriter) bool {
	res, ok := w.(*response)
	return ok && res.status != 0
}

// Status is the status that was answered; a handler that wrote nothing answered 200.
func (w *response) Status() int { return cmp.Or(w.status, http.StatusOK) }

func (w *response) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.begin(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

// begin notes that the answer begins.
func (w *response) begin(status int) {
	if w.status != 0 {
		return
	}
	w.status = status
	if w.unread {
		// Before it sends the answer, net/http waits for the rest of the body. One that does not
		// come would hold the connection for ever.
		readWithin(w.ResponseWriter, drainTimeout)
	}
}

func (w *response) Write(p []byte) (int, error) {
	w.begin(http.StatusOK)
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// ReadFrom keeps sendfile within reach.
func (w *response) ReadFrom(r io.Reader) (int64, error) {
	w.begin(http.StatusOK)
	n, err := io.Copy(w.ResponseWriter, r)
	w.bytes += n
	return n, err
}

// body notices the end of a request body.
type body struct {
	io.ReadCloser
	res *response
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF && b.res.unread {
		b.res.unread = false
		readWithin(b.res.ResponseWriter, 0) // the deadline was for the body: the answer may take its time
	}
	return n, err
}
