package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/gateway"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// runOf begins a run with one message, and returns its whole response.
func runOf(t *testing.T, req *http.Request) (*http.Response, string) {
	t.Helper()
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res, string(text)
}

// The tokens of an agent whose subagents have many models are in one trailer.
func TestRunsWithManyModels(t *testing.T) {
	t.Parallel()
	const models = 12
	used := modeltest.Usage(model.Usage{InputTokens: 7, OutputTokens: 3})
	a := agent.Agent{ID: "a", Model: "m", Provider: agent.Provider{Protocol: agent.ProtocolAnthropic, APIKey: "key"}, MaxTurns: 2 * models, Subagents: map[string]agent.Subagent{}}
	var replies []modeltest.Reply
	for i := range models {
		name := fmt.Sprintf("s%02d", i)
		a.Subagents[name] = agent.Subagent{Description: "d", Prompt: "p", Model: name + strings.Repeat("-long", 12)}
		call := fmt.Sprintf(`{"description":"d","prompt":"p","subagent_type":%q}`, name)
		replies = append(replies, modeltest.Stream(used, modeltest.ToolCall("t"+name, "Task", call)), modeltest.Stream(used, modeltest.Text("Done.")))
	}
	up := modeltest.Start(t, modeltest.Anthropic, append(replies, modeltest.Stream(used, modeltest.Text("All done.")))...)
	a.Provider.BaseURL = agent.Secret(up.URL)
	s, counts := counting(t, dbtest.SQLite(t, series...), host(t, a), func(c *gateway.Config) { c.Transport = nil })
	res, text := runOf(t, s.As("", "", "").Request(http.MethodPost, "/runtime/a/v1/agents/a/runs", map[string]any{"message": "hello"}, "X-Api-Key", apiKey))
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.True(t, strings.HasSuffix(text, "event: done\ndata: {}\n\n"))
	var input int64
	for _, row := range counted(t, counts) {
		input += row.InputTokens
	}
	require.EqualValues(t, 7*(2*models+1), input)
	require.Len(t, counted(t, counts), models+1)
}

// The hub reads a report of the most bytes that a runtime writes. A trailer that it cannot read
// changes nothing for the client, whose stream is complete.
func TestTrailersOfAnyLength(t *testing.T) {
	t.Parallel()
	reportOf := func(size int) string {
		report := `{"model":"m","usage":{"output_tokens":10},"padding":""}`
		return strings.Replace(report, `""`, `"`+strings.Repeat("x", size-len(report))+`"`, 1)
	}
	for name, row := range map[string]struct {
		size int
		read bool
	}{
		"short":         {200, true},
		"1 KiB":         {1 << 10, true},
		"the longest":   {runvalue.MaxUsage, true},
		"too long":      {runvalue.MaxTrailer, false},
		"much too long": {64 << 10, false},
		"megabytes":     {1 << 20, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, counts := counting(t, dbtest.SQLite(t, series...), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X-Run-Id", "run")
				_, _ = io.WriteString(w, "event: result\ndata: {}\n\n")
				_ = http.NewResponseController(w).Flush()
				_, _ = io.WriteString(w, "event: done\ndata: {}\n\n")
				w.Header().Set(http.TrailerPrefix+runvalue.UsageHeader, reportOf(row.size))
			}), func(c *gateway.Config) { c.Transport = nil })
			for range 2 {
				_, text := runOf(t, s.As("", "", "").Request(http.MethodPost, "/runtime/a/v1/agents/a/runs", nil, "X-Api-Key", apiKey))
				require.Equal(t, "event: result\ndata: {}\n\nevent: done\ndata: {}\n\n", text)
			}
			all := counted(t, counts)
			require.Len(t, all, 1)
			require.EqualValues(t, 2, all[0].Runs)
			if row.read {
				require.EqualValues(t, 20, all[0].OutputTokens)
			}
		})
	}
}
