package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/runvalue"
)

// upload sends a request that is not complete.
func upload(t *testing.T, s *apitest.Server) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "POST /runtime/a/v1/agents/a/runs HTTP/1.1\r\nHost: %s\r\nX-Api-Key: %s\r\nContent-Length: 3\r\n\r\n{}", conn.RemoteAddr(), apiKey)
	require.NoError(t, err)
	return conn
}

// Requests that are not complete hold no reserve. The runtime gets the last byte of each only when
// it has one, and the number of those that are not complete is bounded for a deployment.
func TestUnfinishedRequests(t *testing.T) {
	t.Parallel()
	const most = 128
	began := make(chan string, most)
	s, counts := counting(t, dbtest.SQLite(t, series...), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		began <- string(body)
		w.Header().Set("X-Run-Id", "run")
		w.Header().Set(runvalue.UsageHeader, `{"model":"m","usage":{"output_tokens":20}}`)
	}))
	limit(t, counts, 40, 20)
	type response struct {
		of     net.Conn
		status int
		text   string
	}
	responses := make(chan response, most+1)
	open := map[net.Conn]bool{}
	for range most + 1 {
		conn := upload(t, s)
		open[conn] = true
		go func() {
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil { // at the end of the test
				return
			}
			defer res.Body.Close()
			text, _ := io.ReadAll(res.Body)
			responses <- response{conn, res.StatusCode, string(text)}
		}()
	}
	next := func(status int, text string) net.Conn {
		select {
		case got := <-responses:
			require.Equal(t, status, got.status, got.text)
			require.Contains(t, got.text, text)
			return got.of
		case <-time.After(patience):
			require.Fail(t, "no response")
		}
		return nil
	}
	delete(open, next(http.StatusTooManyRequests, "are not complete"))
	i := 0
	for conn := range open {
		_, err := io.WriteString(conn, "\n")
		require.NoError(t, err)
		switch i++; i {
		case 1, 2:
			next(http.StatusOK, "")
			require.Equal(t, "{}\n", <-began)
		case 3, 4:
			next(http.StatusTooManyRequests, "used all of")
		}
		if i == 4 {
			break
		}
	}
	require.Empty(t, began)
	require.EqualValues(t, 2, counted(t, counts)[0].Runs)
}

// A client that does not send its whole body holds no reserve, and begins no run.
func TestRequestsThatEndEarly(t *testing.T) {
	t.Parallel()
	const length = 32 << 10
	uploading := make(chan struct{}, 1)
	s, counts := counting(t, dbtest.SQLite(t, series...), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == length {
			uploading <- struct{}{}
		}
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			w.Header().Set("X-Run-Id", "run")
			w.Header().Set(runvalue.UsageHeader, `{"model":"m","usage":{"output_tokens":5}}`)
		}
	}))
	limit(t, counts, 20, 20)
	begin := func() int {
		return s.As("", "", "").Do(http.MethodPost, "/runtime/a/v1/agents/a/runs", nil, "X-Api-Key", apiKey).Status
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "POST /runtime/a/v1/agents/a/runs HTTP/1.1\r\nHost: %s\r\nX-Api-Key: %s\r\nContent-Length: %d\r\n\r\n%s",
		conn.RemoteAddr(), apiKey, length, strings.Repeat(" ", length-1))
	require.NoError(t, err)
	select {
	case <-uploading:
	case <-time.After(patience):
		require.Fail(t, "the request does not reach the runtime")
	}
	require.Equal(t, http.StatusOK, begin(), "it reports 5 tokens")
	require.NoError(t, conn.(*net.TCPConn).CloseWrite())
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, http.StatusBadRequest, res.StatusCode)
	require.EqualValues(t, 1, counted(t, counts)[0].Runs)
	require.Equal(t, http.StatusTooManyRequests, begin(), "no reserve is left after the run")
}
