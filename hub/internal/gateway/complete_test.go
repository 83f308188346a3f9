package gateway_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/sse"
)

// A client that has its whole response finds its run counted and the reserve released, although the
// database is slow.
func TestCompleteResponsesAreCounted(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("Well. ", 10<<10)
	runtime, _ := hosted(t, modeltest.Repeat(modeltest.Stream(modeltest.Usage(model.Usage{InputTokens: 10, OutputTokens: 5}), modeltest.Text(long))))
	url := dbtest.PostgreSQL(t, series...)
	s, counts := counting(t, url, runtime)
	limit(t, counts, 79, 50) // of which each run uses 15
	d := dbtest.Open(t, url)
	require.NoError(t, db.Exec(t.Context(), d.Write(), "delay", `
		CREATE FUNCTION delay() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.2); RETURN NEW; END $$;
		CREATE TRIGGER delay BEFORE INSERT ON usage_runs FOR EACH ROW EXECUTE FUNCTION delay()`))
	for i, stream := range []bool{false, true} {
		req := s.As("", "", "").Request(http.MethodPost, "/runtime/a/v1/agents/a/runs", map[string]any{"message": "hello", "stream": stream}, "X-Api-Key", apiKey)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		require.Equal(t, http.StatusOK, res.StatusCode)
		if stream {
			events := sse.NewDecoder(res.Body)
			for ev, err := events.Next(); ev.Type != "done"; ev, err = events.Next() {
				require.NoError(t, err)
			}
		} else {
			require.Greater(t, res.ContentLength, int64(len(long)))
			_, err = io.CopyN(io.Discard, res.Body, res.ContentLength)
			require.NoError(t, err)
		}
		require.EqualValues(t, i+1, counted(t, counts)[0].Runs)
	}
}

// The last event of a stream does not reach the client before the end of the stream, which has the
// tokens, however the runtime sends them.
func TestTheLastEventWaitsForTheTokens(t *testing.T) {
	t.Parallel()
	for _, parts := range [][]string{
		{"event: result\ndata: {}\n\nevent: done\ndata: {}\n\n"}, {"event: result\ndata: {}\n\nevent: do", "ne\ndata: {}\n", "\n"},
	} {
		received := make(chan struct{})
		s, counts := counting(t, dbtest.SQLite(t, series...), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("X-Run-Id", "run")
			for _, part := range parts {
				_, _ = io.WriteString(w, part)
				_ = http.NewResponseController(w).Flush()
			}
			select {
			case <-received:
				t.Error("the client has received the last event")
			case <-time.After(200 * time.Millisecond):
			}
			w.Header().Set(http.TrailerPrefix+runvalue.UsageHeader, `{"model":"m","usage":{"output_tokens":10}}`)
		}))
		res, err := http.DefaultClient.Do(s.As("", "", "").Request(http.MethodPost, "/runtime/a/v1/agents/a/runs", nil, "X-Api-Key", apiKey))
		require.NoError(t, err)
		defer res.Body.Close()
		events := sse.NewDecoder(res.Body)
		for _, name := range []string{"result", "done"} {
			ev, err := events.Next()
			require.NoError(t, err)
			require.Equal(t, name, ev.Type)
		}
		close(received)
		require.EqualValues(t, 10, counted(t, counts)[0].OutputTokens)
		_, err = events.Next()
		require.ErrorIs(t, err, io.EOF)
	}
}

// A runtime that does not end its stream after the last event delays the client only for a while.
func TestTheLastEventOfAnOpenStream(t *testing.T) {
	t.Parallel()
	s, counts := counting(t, dbtest.SQLite(t, series...), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("X-Run-Id", "run")
		_, _ = io.WriteString(w, "event: done\ndata: {}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req := s.As("", "", "").Request(http.MethodPost, "/runtime/a/v1/agents/a/runs", nil, "X-Api-Key", apiKey)
	res, err := http.DefaultClient.Do(req.WithContext(ctx))
	require.NoError(t, err)
	defer res.Body.Close()
	ev, err := sse.NewDecoder(res.Body).Next()
	require.NoError(t, err)
	require.Equal(t, "done", ev.Type)
	require.EqualValues(t, 1, counted(t, counts)[0].Runs)
}

// Each body reaches the client byte for byte, whatever follows the last event, and the connection
// of the client is used again.
func TestBodiesOfRunsAreNotChanged(t *testing.T) {
	t.Parallel()
	const done = "event: done\ndata: {}\n\n"
	var parts []string
	status := http.StatusOK
	s, _ := counting(t, dbtest.SQLite(t, series...), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Run-Id", "run")
		w.WriteHeader(status)
		for _, part := range parts {
			_, _ = io.WriteString(w, part)
			_ = http.NewResponseController(w).Flush()
		}
	}))
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for i, row := range []struct {
		name   string
		status int
		parts  []string
	}{
		{"an event", http.StatusOK, []string{done}},
		{"nothing", http.StatusOK, nil},
		{"no content", http.StatusNoContent, nil},
		{"an error", http.StatusBadGateway, []string{done}},
		{"a heartbeat after it", http.StatusOK, []string{done, ": heartbeat\n\n"}},
		{"twice", http.StatusOK, []string{done + done, done}},
		{"single bytes", http.StatusOK, strings.Split(done+done, "")},
		{"a full buffer of the proxy", http.StatusOK, []string{strings.Repeat("x", 16<<10-len(done)) + done, "x"}},
	} {
		status, parts = row.status, row.parts
		req := s.As("", "", "").Request(http.MethodPost, "/runtime/a/v1/agents/a/runs", nil, "X-Api-Key", apiKey)
		reused := false
		trace := &httptrace.ClientTrace{GotConn: func(conn httptrace.GotConnInfo) { reused = conn.Reused }}
		res, err := client.Do(req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
		require.NoError(t, err)
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		require.NoError(t, err, row.name)
		require.Equal(t, row.status, res.StatusCode, row.name)
		require.Equal(t, strings.Join(row.parts, ""), string(text), row.name)
		require.Equal(t, i > 0, reused, row.name)
	}
}
