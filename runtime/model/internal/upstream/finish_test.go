package upstream_test

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/internal/collect"
	"github.com/seed93082962/agenthost/runtime/model/internal/upstream"
)

// TestAFinishedResponseIsComplete verifies that a finished response succeeds if the server leaves
// the connection open.
func TestAFinishedResponseIsComplete(t *testing.T) {
	for name, row := range map[string]struct {
		body string
		more []string // one a second
		text string
		took time.Duration
	}{
		"nothing follows":       {"data: a\n\ndata: finish\n\n", nil, "a", 5 * time.Second},
		"what makes no part":    {"data: finish\n\n", slices.Repeat([]string{"data: ping\n\n"}, 9), "", 5 * time.Second},
		"comments":              {"data: finish\n\n", slices.Repeat([]string{": ping\n\n"}, 9), "", 5 * time.Second},
		"half an event":         {"data: finish\n\ndata: sto", nil, "", 5 * time.Second},
		"a part after all":      {"data: finish\n\n", []string{"data: b\n\n", "data: c\n\n"}, "bc", 7 * time.Second},
		"its end after a while": {"data: finish\n\n", []string{": ping\n\n", ": ping\n\n", "data: stop\n\n"}, "", 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				got, err := new(collect.Collector).Collect(call(t.Context(), slowly(t, row.body, row.more...), nil))
				require.NoError(t, err)
				require.NotEmpty(t, got.StopReason)
				require.Equal(t, row.text, got.Message.Text())
				require.WithinRange(t, time.Now(), began.Add(row.took), began.Add(row.took+50*time.Millisecond))
			})
		})
	}
	t.Run("its reader has time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			text := ""
			for p, err := range call(t.Context(), slowly(t, "data: finish\n\n", "data: a\n\n", "data: b\n\ndata: stop\n\n"), nil) {
				require.NoError(t, err)
				text += p.Text
				<-time.After(time.Minute)
			}
			require.Equal(t, "ab", text)
		})
	})
}

// slowly is an upstream that sends body and then one element of more each second. It leaves the
// connection open.
func slowly(t *testing.T, body string, more ...string) *upstream.Client {
	return clientOf(t, upstream.Config{BaseURL: "http://model.test", HTTPClient: &http.Client{
		Transport: upstreamFunc(func(r *http.Request) (*http.Response, error) {
			_ = r.Body.Close()
			read, write := io.Pipe()
			context.AfterFunc(r.Context(), func() { _ = write.CloseWithError(r.Context().Err()) })
			go func() {
				_, err := io.WriteString(write, body)
				for i := 0; i < len(more) && err == nil; i++ {
					select {
					case <-time.After(time.Second):
					case <-r.Context().Done():
					}
					_, err = io.WriteString(write, more[i])
				}
			}()
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: read}, nil
		}),
	}})
}

// TestResponsesAreSeparate verifies that a response has no state of an earlier one.
func TestResponsesAreSeparate(t *testing.T) {
	giant := strings.Repeat("x", 1<<20)
	for range 3 {
		_, err := new(collect.Collector).Collect(call(t.Context(), client(t, stream("a", giant+"\ndata: half an event")), nil))
		require.ErrorIs(t, err, upstream.ErrEnded)
		for range call(t.Context(), client(t, stream("b", "c", "d", "stop")), nil) {
			break
		}
		got, err := new(collect.Collector).Collect(call(t.Context(), client(t, stream("e", "stop")), nil))
		require.NoError(t, err)
		require.Equal(t, "e", got.Message.Text())
	}
}
