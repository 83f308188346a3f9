package runtime_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// A proxy that requests trailers receives the tokens of a run by model, of a stream and of JSON.
func TestUsageHeader(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic, replies(4)...)
	b := serve(t, up, func(c *runtime.Config) {
		c.Agents[0].Subagents = map[string]agent.Subagent{"s": {Description: "d", Prompt: "p", Model: "small"}}
	})
	want := wire.RunUsage{
		Model: "m", Usage: wire.Usage{InputTokens: 21, OutputTokens: 9}, Others: map[string]wire.Usage{"small": {InputTokens: 7, OutputTokens: 3}},
	}
	for _, headers := range [][]string{{"Te", "trailers"}, {"Te", "trailers", "Accept", "application/json"}, nil, {"Accept", "application/json"}} {
		res := b.request(t.Context(), t, http.MethodPost, runs, `{"message":"hello"}`, headers...)
		_, err := io.Copy(io.Discard, res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		text := res.Header.Get(runvalue.UsageHeader) + res.Trailer.Get(runvalue.UsageHeader)
		if len(headers) == 0 || headers[0] != "Te" {
			require.Empty(t, text)
			continue
		}
		var got wire.RunUsage
		require.NoError(t, json.Unmarshal([]byte(text), &got))
		require.Equal(t, want, got, headers)
	}
}

// A proxy that requests trailers learns the id of a run before its JSON, which is its end.
func TestEarlyRunID(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("Well.")), modeltest.Stream(modeltest.Text("Well.")))
	b := serve(t, up, func(*runtime.Config) {})
	for _, headers := range [][]string{{"Te", "trailers", "Accept", "application/json"}, {"Accept", "application/json"}} {
		var early []string
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
			early = append(early, h.Get("X-Run-Id"))
			return nil
		}})
		res := b.request(ctx, t, http.MethodPost, runs, `{"message":"hello"}`, headers...)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusOK, res.StatusCode)
		if headers[0] != "Te" {
			require.Empty(t, early)
			continue
		}
		require.Equal(t, []string{res.Header.Get("X-Run-Id")}, early)
	}
}

// replies are those of runs with one subagent.
func replies(runs int) (all []modeltest.Reply) {
	used := modeltest.Usage(model.Usage{InputTokens: 7, OutputTokens: 3})
	for range runs {
		all = append(all, modeltest.Stream(used, modeltest.ToolCall("t1", "Task", `{"description":"d","prompt":"p","subagent_type":"s"}`)),
			modeltest.Stream(used, modeltest.Text("Done.")), modeltest.Stream(used, modeltest.Text("Well.")))
	}
	return all
}
