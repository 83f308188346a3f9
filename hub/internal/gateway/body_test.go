package gateway_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/gateway"
)

// slowTransport reads the end of a body only after the response has begun, which a transport of
// net/http may do.
type slowTransport struct{}

func (slowTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, err := io.ReadFull(r.Body, make([]byte, r.ContentLength)); err != nil {
		return nil, err
	}
	first := false
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, ContentLength: -1, Body: io.NopCloser(readerFunc(func(p []byte) (int, error) {
		if !first {
			first = true
			return copy(p, "first"), nil
		}
		_, err := r.Body.Read(make([]byte, 1))
		return 0, err
	}))}, nil
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// The server closes a body when the response begins. Its end can still be read, by which the
// transport would otherwise cut the response.
func TestAResponseThatBeginsBeforeTheEndOfTheBodyIsComplete(t *testing.T) {
	t.Parallel()
	s, _ := serve(t, http.NotFoundHandler(), func(c *gateway.Config) { c.Transport = slowTransport{} })
	res := s.As("", "", "").Do(http.MethodPost, "/runtime/a/v1/agents/a/runs", map[string]any{"message": "hello"}, "X-Api-Key", apiKey)
	require.Equal(t, http.StatusOK, res.Status)
	require.Equal(t, "first", res.Text)
}
