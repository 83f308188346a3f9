package gateway_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/db/dbtest"
)

// A response that begins before the body of the request has ended does not end the body.
func TestAResponseThatBeginsBeforeTheEndOfTheBody(t *testing.T) {
	t.Parallel()
	runtime := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		if err := control.EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(w, "first\n")
		_ = control.Flush()
		_, _ = io.Copy(w, r.Body)
	})
	dbtest.Each(t, func(t *testing.T, url string) { requireDuplex(t, url, runtime) }, series...)
}

func requireDuplex(t *testing.T, url string, runtime http.Handler) {
	t.Helper()
	s, _ := counting(t, url, runtime)
	body, rest := io.Pipe()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	req := s.As("", "", "").Request(http.MethodPost, "/runtime/a/v1/agents/a/runs", nil, "X-Api-Key", apiKey).WithContext(ctx)
	req.Body, req.ContentLength = body, 7
	go func() { _, _ = io.WriteString(rest, "{") }()
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	lines := bufio.NewReader(res.Body)
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "first\n", line)
	_, err = io.WriteString(rest, "second")
	require.NoError(t, err)
	require.NoError(t, rest.Close())
	all, err := io.ReadAll(lines)
	require.NoError(t, err)
	require.Equal(t, "{second", string(all))
}
