package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/client"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// stage is the command in a separate process with its environment: a scripted model, a working
// directory, a home, a state directory, and MCP servers over HTTP.
type stage struct {
	*process
	t           *testing.T
	up          *modeltest.Upstream
	home        string // contains the configuration; also identifies the processes of this stage
	cwd, state  string
	metrics     string // address of the metrics
	web, events *httptest.Server
	env, args   []string
}

// newStage prepares a stage. The configuration can contain {upstream}, {self}, {web}, {events} and
// {home}. start starts the command.
func newStage(t *testing.T, parts cast, config string) *stage {
	t.Helper()
	s := &stage{
		t: t, up: modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Choose(parts.answer))),
		home: t.TempDir(), cwd: t.TempDir(), state: t.TempDir(),
	}
	server := newMCPServer()
	t.Cleanup(func() { // killed clients have not closed their connections
		for session := range server.Sessions() {
			_ = session.Close()
		}
	})
	get := func(*http.Request) *sdk.Server { return server }
	s.web = serveHTTP(t, sdk.NewStreamableHTTPHandler(get, nil))
	s.events = serveHTTP(t, sdk.NewSSEHandler(get, nil))
	self, err := os.Executable()
	require.NoError(t, err)
	names := strings.NewReplacer("{upstream}", s.up.URL, "{self}", self, "{web}", s.web.URL, "{events}", s.events.URL,
		"{home}", s.home)
	s.write(filepath.Join(s.home, "agents.yaml"), names.Replace(config))
	s.env = []string{"PATH", os.Getenv("PATH"), "TMPDIR", s.home, "AGENT_STATE_DIR", s.state}
	s.args = []string{"--addr", "127.0.0.1:0", "--cwd", s.cwd, "--metrics-addr", "127.0.0.1:0"}
	return s
}

var servingMetrics = regexp.MustCompile(`"addr":"([^"\s]+)"[^\n]*"message":"serving metrics"`)

// start starts the command, also repeatedly.
func (s *stage) start() {
	s.t.Helper()
	s.process = spawn(s.t, s.home, s.env, s.args...)
	s.Started(s.t)
	m := s.Await(s.t, s.Log, servingMetrics)
	s.metrics = "http://" + m[1] + "/metrics"
}

// serveHTTP serves until the test ends, also for clients that stay connected.
func serveHTTP(t *testing.T, h http.Handler) *httptest.Server {
	server := httptest.NewServer(h)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server
}

func (s *stage) write(path, text string) {
	s.t.Helper()
	require.NoError(s.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(s.t, os.WriteFile(path, []byte(text), 0o600))
}

// api is a client without kept connections, which would count as resources of a run.
func (s *stage) api() *client.Client {
	s.t.Helper()
	c, err := client.New(client.Config{BaseURL: s.URL, HTTPClient: oneWay()})
	require.NoError(s.t, err)
	return c
}

func oneWay() *http.Client { return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} }

// begin starts a run. leave closes its connection.
func (s *stage) begin(agent string, req wire.RunRequest) (f *following, leave func()) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	next, stop := iter.Pull2(s.api().Run(ctx, agent, req))
	s.t.Cleanup(func() {
		cancel()
		stop()
	})
	f = &following{t: s.t, next: next}
	f.id = f.until("system").(*wire.System).RunID
	return f, cancel
}

// run executes a run and returns all events.
func (s *stage) run(agent string, req wire.RunRequest) []wire.Payload {
	s.t.Helper()
	var all []wire.Payload
	for ev, err := range s.api().Run(s.t.Context(), agent, req) {
		require.NoError(s.t, err, "%s", s.Log)
		if ev.EventName() != "partial_message" {
			all = append(all, ev.Payload)
		}
	}
	return all
}

// results returns the results of an agent's tool calls in a run by call id.
func results(all []wire.Payload) map[string]wire.ToolResultDetail {
	by := map[string]wire.ToolResultDetail{}
	for _, p := range all {
		if r, ok := p.(*wire.ToolResult); ok {
			by[r.Result.ToolUseID] = r.Result
		}
	}
	return by
}

// final returns the result event of a run.
func final(t *testing.T, all []wire.Payload) *wire.Result {
	t.Helper()
	require.Greater(t, len(all), 2)
	require.IsType(t, &wire.Done{}, all[len(all)-1])
	require.IsType(t, &wire.Result{}, all[len(all)-2])
	return all[len(all)-2].(*wire.Result)
}

// until polls ok every few milliseconds until it returns true.
func (s *stage) until(what string, ok func() bool) {
	s.t.Helper()
	tick, late := time.NewTicker(2*time.Millisecond), time.After(patience)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			require.FailNow(s.t, "in vain: "+what, "%s", s.Log)
		}
	}
}

// appears waits for a file below the working directory, and removes it.
func (s *stage) appears(name string) {
	s.t.Helper()
	s.until("file "+name, func() bool { return os.Remove(filepath.Join(s.cwd, name)) == nil })
}

// count returns a metric, or 0 if it does not exist yet.
func (s *stage) count(series string) float64 {
	s.t.Helper()
	res, err := oneWay().Get(s.metrics)
	require.NoError(s.t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(s.t, err)
	_, rest, _ := strings.Cut("\n"+string(body), "\n"+series+" ")
	value, _, _ := strings.Cut(rest, "\n")
	if value == "" {
		return 0
	}
	n, err := strconv.ParseFloat(value, 64)
	require.NoError(s.t, err)
	return n
}

// cast has the responses of the model: for the last text of a request, one response after the
// other.
type cast map[string][]modeltest.Reply

func (c cast) answer(r *modeltest.Request) modeltest.Reply {
	p := readPrompt(r)
	for i, m := range slices.Backward(p.Messages) {
		text, turn := "", 0
		for _, b := range m.Content {
			if b.Type == "text" && m.Role == "user" {
				text = b.Text
			}
		}
		if text == "" {
			continue
		}
		for _, m := range p.Messages[i+1:] {
			if m.Role == "assistant" {
				turn++
			}
		}
		if turn < len(c[text]) {
			return c[text][turn]
		}
		break
	}
	return modeltest.Status(http.StatusTeapot) // fails the test
}

// says returns a response with one text.
func says(text string) modeltest.Reply { return modeltest.Stream(modeltest.Text(text)) }

// use returns a tool call.
func use(id, name, input string) modeltest.Step { return modeltest.ToolCall(id, name, input) }

// prompt is a request to the model.
type prompt struct {
	System   json.RawMessage
	Tools    json.RawMessage
	Messages []struct {
		Role    string
		Content []promptBlock
	}
}

type promptBlock struct {
	Type      string
	Text      string
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage // of a tool_result
	IsError   bool            `json:"is_error"`
}

func readPrompt(r *modeltest.Request) prompt {
	var p prompt
	if err := json.NewDecoder(bytes.NewReader(r.Body)).Decode(&p); err != nil {
		panic(err)
	}
	return p
}

// toolResults returns the results of tool calls in a request by call id.
func (p *prompt) toolResults() map[string]promptBlock {
	by := map[string]promptBlock{}
	for _, m := range p.Messages {
		for _, b := range m.Content {
			if b.Type == "tool_result" {
				by[b.ToolUseID] = b
			}
		}
	}
	return by
}
