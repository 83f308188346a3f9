package main_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// lines parses a JSON log.
func lines(t *testing.T, log string) (all []map[string]any) {
	t.Helper()
	scanner := bufio.NewScanner(strings.NewReader(log))
	for scanner.Scan() {
		var line map[string]any
		require.NoError(t, json.Unmarshal(scanner.Bytes(), &line), scanner.Text())
		all = append(all, line)
	}
	return all
}

// about returns the lines with that message.
func about(t *testing.T, log, message string) (some []map[string]any) {
	t.Helper()
	for _, line := range lines(t, log) {
		if line["message"] == message {
			some = append(some, line)
		}
	}
	return some
}

// The lowest level is a flag or a variable. Other levels are rejected before anything starts.
func TestLevelOfTheLog(t *testing.T) {
	for level, shown := range map[string]bool{"": true, "debug": true, "info": true, "warn": false, "error": false} {
		p := spawn(t, t.TempDir(), []string{"AGENT_LOG_LEVEL", level}, "--addr", "127.0.0.1:0")
		p.Started(t)
		require.NoError(t, p.Cmd.Process.Signal(syscall.SIGINT))
		p.Wait(t)
		require.Equal(t, shown, len(about(t, p.Log.String(), "stopped")) > 0, level)
	}
	for _, level := range []string{"trace", "fatal", "INFO+1", "loud", "disabled"} {
		_, _, err := once(t, nil, "--log-level", level)
		require.ErrorContains(t, err, "use debug, info, warn or error")
		_, _, err = once(t, []string{"AGENT_LOG_LEVEL", level})
		require.ErrorContains(t, err, "use debug, info, warn or error")
	}
}

func TestLogOfRequests(t *testing.T) {
	p := spawn(t, t.TempDir(), []string{"TZ", "Asia/Shanghai"}, "--addr", "127.0.0.1:0")
	p.Started(t)
	begin := time.Now().Add(-time.Minute)
	c := caller(t)
	var ids []string
	for path, status := range map[string]int{"/v1/agents": 200, "/v1/agents/nobody": 404, "/nowhere?key=planted": 404,
		"/health": 200} {
		res, err := c.Get(p.URL + path)
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		require.Equal(t, status, res.StatusCode)
		if path != "/health" { // too frequent for the log
			ids = append(ids, res.Header.Get("X-Request-ID"))
		}
	}
	require.NoError(t, p.Cmd.Process.Signal(syscall.SIGINT))
	p.Wait(t)

	requests := about(t, p.Log.String(), "request")
	var logged []string
	for _, line := range requests {
		logged = append(logged, line["request_id"].(string))
		require.Equal(t, "info", line["level"])
		require.Equal(t, "GET", line["method"])
		require.Contains(t, line, "path")
		require.Contains(t, line, "status")
		require.Contains(t, line, "duration_ms")
	}
	require.ElementsMatch(t, ids, logged)
	require.NotContains(t, p.Log.String(), "planted", "queries are not logged")
	for _, line := range lines(t, p.Log.String()) {
		at, err := time.Parse("2006-01-02T15:04:05.000Z", line["time"].(string))
		require.NoError(t, err, "UTC, with milliseconds")
		require.WithinRange(t, at, begin, time.Now().Add(time.Minute))
		require.Len(t, line["time"], len("2006-01-02T15:04:05.000Z"))
	}
}

func TestLogOfRuns(t *testing.T) {
	t.Chdir(t.TempDir())
	in := serving(t, nil)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, in.URL+"/v1/agents/demo/runs",
		strings.NewReader(`{"message": "hello", "metadata": {"tenant": "a"}}`))
	require.NoError(t, err)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("X-Request-ID", "my-own")
	res, err := caller(t).Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	var answer wire.RunResponse
	require.NoError(t, json.NewDecoder(res.Body).Decode(&answer))

	runs := about(t, in.Log.String(), "run")
	require.Len(t, runs, 1)
	require.Equal(t, "my-own", runs[0]["request_id"])
	require.Equal(t, answer.RunID, runs[0]["run_id"])
	require.Equal(t, "demo", runs[0]["agent"])
	require.Equal(t, "completed", runs[0]["state"])
	require.Equal(t, map[string]any{"tenant": "a"}, runs[0]["metadata"])
}

// Every setting that can contain a secret contains one, and every kind of output is produced.
func TestSecretsAreNotLogged(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic,
		modeltest.Stream(modeltest.Text("Hi.")),
		modeltest.Raw(401, "application/json",
			`{"type":"error","error":{"type":"authentication_error","message":"bad key planted-file"}}`),
		modeltest.Raw(500, "application/json",
			`{"type":"error","error":{"type":"api_error","message":"key planted-file did not work"}}`),
		modeltest.Raw(200, "text/html", "planted-file"),
	)
	dir := write(t, `
agents:
  - id: a
    model: m
    provider: {protocol: anthropic, baseUrl: `+up.URL+`, apiKey: "${TEAM_KEY}"}
    systemPrompt: planted-prompt
    mcpServers: {web: {transport: http, url: "http://127.0.0.1:1/planted-path", headers: {X-Key: planted-header}}}
  - {id: away, model: m, provider: {protocol: openai, baseUrl: "http://127.0.0.1:1/planted-path"}}
  - {id: wrong, model: m, provider: {protocol: openai, baseUrl: "planted-address"}}
  - {id: strange, model: m, provider: {protocol: anthropic, apiKey: "planted file"}}
`)
	env := []string{
		"AGENT_HTTP_API_KEY", "planted-caller", "TEAM_KEY", "planted-file",
		"ANTHROPIC_API_KEY", "planted-lent", "OPENAI_API_KEY", "planted-lent", "OPENAI_BASE_URL", "http://planted-lent",
	}
	p := spawn(t, dir, env, "--addr", "127.0.0.1:0")
	p.Started(t)
	var answers []any
	for range 4 {
		answer, err := clientOf(t, p.URL, "planted-caller").Complete(t.Context(), "a", wire.RunRequest{Message: "planted-message"})
		answers = append(answers, answer, err)
	}
	for _, id := range []string{"away", "wrong", "strange"} {
		answer, err := clientOf(t, p.URL, "planted-caller").Complete(t.Context(), id, wire.RunRequest{Message: "planted-message"})
		require.Error(t, err)
		answers = append(answers, answer, err)
	}
	detail, err := clientOf(t, p.URL, "planted-caller").Agent(t.Context(), "a")
	require.NoError(t, err)
	detail.MCPServers["web"] = wire.MCPServer{Headers: detail.MCPServers["web"].Headers} // args and url are returned unchanged
	answers = append(answers, detail)
	_, err = clientOf(t, p.URL, "planted-wrong").Agents(t.Context())
	require.Error(t, err)
	require.NoError(t, p.Cmd.Process.Signal(syscall.SIGINT))
	p.Wait(t)
	require.Len(t, about(t, p.Log.String(), "run"), 5)
	require.NotContains(t, p.Log.String(), "planted")
	require.NotContains(t, p.Stdout.String(), "planted")
	text, err := json.Marshal(answers)
	require.NoError(t, err)
	require.NotContains(t, string(text), "planted")

	check := spawn(t, dir, env, "--check")
	check.Wait(t)
	require.NotContains(t, check.Stdout.String()+check.Log.String(), "planted")
	require.Equal(t, 4, strings.Count(check.Stdout.String(), "\n"))
}
