package outbound

import (
	"errors"
	"io"
	"net/http"
)

// ErrTooLarge is the error of reading a response body that is longer than the limit of [Limit].
var ErrTooLarge = errors.New("the response is too large")

// Limit returns t with a limit for the body of each response, in bytes.
func Limit(t *http.Transport, limit int) http.RoundTripper { return limited{t, limit} }

type limited struct {
	*http.Transport
	limit int
}

func (t limited) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := t.Transport.RoundTrip(r)
	if err == nil {
		res.Body = &limitedBody{res.Body, t.limit + 1}
	}
	return res, err
}

type limitedBody struct {
	io.ReadCloser
	rest int // bytes of the limit that are left, and one to see that the body is longer
}

func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p[:min(len(p), b.rest)])
	if b.rest -= n; b.rest == 0 {
		return n, ErrTooLarge
	}
	return n, err
}
