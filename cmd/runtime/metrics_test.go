package main_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	prom "github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// scrape returns the metrics as Prometheus reads them.
func (s *stage) scrape() map[string]*dto.MetricFamily {
	s.t.Helper()
	res, err := oneWay().Get(s.metrics)
	require.NoError(s.t, err)
	defer res.Body.Close()
	parser := expfmt.NewTextParser(prom.LegacyValidation)
	families, err := parser.TextToMetricFamilies(res.Body)
	require.NoError(s.t, err)
	return families
}

// series returns the sum of the series of a metric whose labels contain the pairs, and their
// number. The value of a histogram is its number of observations.
func series(families map[string]*dto.MetricFamily, name string, pairs ...string) (sum float64, n int) {
	for _, m := range families[name].GetMetric() {
		labels := map[string]string{}
		for _, l := range m.Label {
			labels[l.GetName()] = l.GetValue()
		}
		matches := true
		for i := 0; i+1 < len(pairs); i += 2 {
			matches = matches && labels[pairs[i]] == pairs[i+1]
		}
		if matches {
			n++
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return sum, n
}

const meteredYAML = `
agents:
  - id: a
    model: m
    provider: {protocol: anthropic, baseUrl: "{upstream}", apiKey: key}
    allowedTools: [Glob, Task, mcp__web, "Bash(git *)"]
    mcpServers: {web: {transport: http, url: "{web}"}}
    subagents: {digger: {description: Digs., prompt: You dig., model: small}}
`

// inventions are the calls of tools that do not exist.
func inventions(from int) (calls []modeltest.Step) {
	for i := range 40 {
		calls = append(calls, use(fmt.Sprint("i", i), fmt.Sprintf("invented_%d", from+i), `{}`))
	}
	return calls
}

var meteredStory = cast{
	"hello": {
		modeltest.Stream(use("glob", "Glob", `{"pattern":"*"}`), use("web", "mcp__web__echo", `{"text":"2"}`), use("rm", "Bash", `{"command":"rm x"}`),
			use("task", "Task", `{"description":"d","prompt":"dig","subagent_type":"digger"}`)),
		modeltest.Stream(modeltest.Text("done"), modeltest.Usage(model.Usage{InputTokens: 7, OutputTokens: 3, CacheReadInputTokens: 90, CacheCreationInputTokens: 11})),
	},
	"ask":      append(tool("Bash", `{"command":"echo one"}`), says("done")),
	"dig":      {says("found")},
	"fail":     {modeltest.Status(http.StatusTooManyRequests)},
	"invent 0": {modeltest.Stream(inventions(0)...), says("done")},
	"invent 1": {modeltest.Stream(inventions(40)...), says("done")},
	"bound":    {says("No.")},
	"hang":     {modeltest.Stream(modeltest.Text("One"), modeltest.Hang())},
}

// The document of the metrics lists what a runtime serves, with the same labels, and nothing else.
func TestMetricsOfTheDocument(t *testing.T) {
	t.Parallel()
	long := modeltest.Start(t, modeltest.Anthropic, modeltest.PromptTooLong(), says("A summary."), says("short"))
	s := newStage(t, meteredStory, meteredYAML+fmt.Sprintf("  - {id: long, model: m, provider: {protocol: anthropic, baseUrl: %q, apiKey: key}}\n", long.URL))
	s.start()

	require.False(t, final(t, s.run("a", wire.RunRequest{Message: "hello"})).IsError)
	require.True(t, final(t, s.run("a", wire.RunRequest{Message: "fail"})).IsError)
	require.True(t, final(t, s.run("a", wire.RunRequest{Message: "bound", MaxTurns: new(1), OutputSchema: json.RawMessage(`{"type":"object"}`)})).IsError)
	history := []wire.Turn{}
	for range 20 {
		history = append(history, wire.Turn{Role: runvalue.RoleUser, Content: strings.Repeat("long ", 5000)}, wire.Turn{Role: runvalue.RoleAssistant, Content: "yes"})
	}
	require.Equal(t, "short", *final(t, s.run("long", wire.RunRequest{Message: "hello", History: history})).Result)
	res, err := s.api().Complete(t.Context(), "a", wire.RunRequest{Message: "ask", Inputs: []string{"approval"}})
	require.NoError(t, err)
	require.Len(t, res.Pending, 1)
	_, err = s.api().Complete(t.Context(), "a", approval(res))
	require.NoError(t, err)
	_, err = s.api().Complete(t.Context(), "a", approval(res))
	require.Error(t, err)
	hanging, leave := s.begin("a", wire.RunRequest{Message: "hang"})
	hanging.until("partial_message")
	for _, err := range s.api().Run(t.Context(), "a", wire.RunRequest{Message: "again", RunID: &hanging.id}) {
		require.Error(t, err)
	}

	found := s.scrape()
	listed := map[string]bool{}
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	for _, row := range regexp.MustCompile("(?m)^\\| `(agenthost_[a-z_]+)` \\| ([a-z]+) \\|([^|]*)\\|").FindAllStringSubmatch(string(text), -1) {
		name := row[1]
		listed[name] = true
		require.Contains(t, slices.Collect(maps.Keys(found)), name, "only the document has it")
		require.Equal(t, row[2], strings.ToLower(found[name].GetType().String()), name)
		labels := map[string]bool{}
		for _, m := range found[name].Metric {
			for _, l := range m.Label {
				labels["`"+l.GetName()+"`"] = true
			}
		}
		require.Equal(t, strings.TrimSpace(row[3]), strings.Join(slices.Sorted(maps.Keys(labels)), ", "), name)
	}
	for name := range found {
		require.True(t, listed[name] || !strings.HasPrefix(name, "agenthost_"), "%s is not in the document", name)
	}

	for _, row := range []struct {
		want  float64
		name  string
		pairs []string
	}{
		{2, "agenthost_runs_total", []string{"agent", "a", "outcome", "success"}},
		{1, "agenthost_runs_total", []string{"agent", "a", "outcome", "input_required"}},
		{1, "agenthost_inputs_required_total", []string{"agent", "a", "kind", "approval"}},
		{1, "agenthost_inputs_answered_total", []string{"agent", "a", "kind", "approval", "decision", "approve"}},
		{1, "agenthost_inputs_wait_duration_seconds", []string{"agent", "a", "kind", "approval"}},
		{1, "agenthost_runs_rejected_total", []string{"agent", "a", "reason", "answers"}},
		{1, "agenthost_runs_total", []string{"agent", "a", "outcome", "rate_limit"}},
		{1, "agenthost_runs_total", []string{"agent", "a", "outcome", "output_invalid"}},
		{1, "agenthost_runs_active", []string{"agent", "a"}},
		{1, "agenthost_streams_open", []string{"agent", "a"}},
		{1, "agenthost_runs_waiting", []string{"agent", "a", "for", "model"}},
		{0, "agenthost_runs_waiting", []string{"agent", "a", "for", "tool"}},
		{1, "agenthost_runs_rejected_total", []string{"agent", "a", "reason", "run_id"}},
		{1, "agenthost_upstream_errors_total", []string{"agent", "a", "model", "m", "error_type", "rate_limit"}},
		{1, "agenthost_model_repeats_total", []string{"agent", "long", "error_type", "prompt_too_long"}},
		{1, "agenthost_model_call_duration_seconds", []string{"model", "small", "outcome", "success"}},
		{1, "agenthost_tool_calls_total", []string{"kind", "builtin", "tool", "Glob", "result", "ok"}},
		{1, "agenthost_tool_calls_total", []string{"kind", "builtin", "tool", "Bash", "result", "denied"}},
		{1, "agenthost_tool_calls_total", []string{"kind", "mcp", "tool", "mcp__web", "result", "ok"}},
		{1, "agenthost_tool_calls_total", []string{"kind", "task", "tool", "Task", "result", "ok"}},
		{90, "agenthost_tokens_total", []string{"agent", "a", "type", "cache_read"}},
		{1, "agenthost_mcp_servers", []string{"agent", "a", "state", "connected"}},
		{2, "agenthost_requests_total", []string{"method", "POST", "route", "/v1/agents/:agentId/runs", "status", "409"}},
	} {
		sum, _ := series(found, row.name, row.pairs...)
		require.InDelta(t, row.want, sum, 0, "%s %q of %s", row.name, row.pairs, found[row.name])
	}
	leave()
	s.until("the end of the run", func() bool {
		open, _ := series(s.scrape(), "agenthost_streams_open")
		active, _ := series(s.scrape(), "agenthost_runs_active")
		waiting, _ := series(s.scrape(), "agenthost_runs_waiting")
		return open+active+waiting == 0
	})
}

// Neither clients nor models create series: not by paths, methods, agents, sessions, run ids or
// names of tools.
func TestSeriesAreBounded(t *testing.T) {
	t.Parallel()
	s := newStage(t, meteredStory, meteredYAML)
	s.start()
	attack := func(round int) int {
		require.False(t, final(t, s.run("a", wire.RunRequest{Message: fmt.Sprint("invent ", round)})).IsError)
		for i := range 100 {
			n := fmt.Sprint(round, "-", i)
			for _, row := range []struct{ method, path string }{
				{http.MethodPost, "/v1/agents/" + n + "/runs"}, {http.MethodGet, "/v1/agents/" + n}, {http.MethodGet, "/" + n},
				{"M" + n, "/v1/agents"}, {http.MethodDelete, "/v1/sessions/" + n}, {http.MethodPost, "/v1/runs/" + n + "/cancel"},
				{http.MethodGet, "/v1/files/content?path=" + n},
			} {
				req, err := http.NewRequestWithContext(t.Context(), row.method, s.URL+row.path, strings.NewReader(`{"message":"x"}`))
				require.NoError(t, err)
				res, err := caller(t).Do(req)
				require.NoError(t, err)
				require.NoError(t, res.Body.Close())
			}
		}
		total := 0
		for name, family := range s.scrape() {
			if strings.HasPrefix(name, "agenthost_") {
				total += len(family.Metric)
			}
		}
		return total
	}
	first := attack(0)
	require.Equal(t, first, attack(1))
	sum, n := series(s.scrape(), "agenthost_tool_calls_total", "tool", "other")
	require.InDelta(t, 80, sum, 0)
	require.Equal(t, 1, n)
	_, methods := series(s.scrape(), "agenthost_requests_total", "method", "other")
	require.Positive(t, methods)
}
