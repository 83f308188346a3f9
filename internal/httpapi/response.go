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
}

// Unwrap lets http.ResponseController reach what net/http offers beside.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Status is the status that was answered; a handler that wrote nothing answered 200.
func (w *response) Status() int { return cmp.Or(w.status, http.StatusOK) }

func (w *response) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *response) Write(p []byte) (int, error) {
	w.status = cmp.Or(w.status, http.StatusOK)
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// ReadFrom keeps sendfile within reach.
func (w *response) ReadFrom(r io.Reader) (int64, error) {
	w.status = cmp.Or(w.status, http.StatusOK)
	n, err := io.Copy(w.ResponseWriter, r)
	w.bytes += n
	return n, err
}
