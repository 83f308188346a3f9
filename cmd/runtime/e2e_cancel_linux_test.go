package main_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/tool/js"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// The end of a run must come within a second of its cancel. A busy machine may need longer for
// anything, so the test fails only after this time; the log has the actual time.
const cancelGuard = time.Minute

const cancelYAML = `
agents:
  - id: a
    model: m
    provider: &upstream {protocol: anthropic, baseUrl: "{upstream}", apiKey: key}
    permissionMode: bypassPermissions
    mcpServers:
      local: %[1]s
      web: {transport: http, url: "{web}"}
      events: {transport: sse, url: "{events}"}
    subagents:
      digger: {description: Digs., prompt: You dig.}
    customTools:
      - {path: spin.ts}
      - {path: forever.ts}
      - {path: quick.ts}
  - id: mute-stdio
    model: m
    provider: *upstream
    limits: {mcpConnectTimeout: 1h}   # a run waits for it
    mcpServers: {mute: %[2]s}
  - id: mute-http
    model: m
    provider: *upstream
    limits: {mcpConnectTimeout: 1h}
    mcpServers: {mute: {transport: http, url: "{mute}"}}
`

var scripts = map[string]string{
	"spin.ts": `export default {name: "spin", description: "Never ends.", call() { for (;;); }}`,
	"forever.ts": `export default {name: "forever", description: "Waits.", async call() {
		setInterval(() => { const end = Date.now() + 5; while (Date.now() < end); }, 10) // keeps its worker busy, which identifies it
		await new Promise(() => {}) }}`,
	"quick.ts": `export default {name: "quick", description: "Answers.", call(input: {text: string}): string { return "quick: " + input.text }}`,
}

// phase is the state of a run when it is cancelled.
type phase struct {
	name    string
	agent   string // "" means a
	says    []modeltest.Reply
	reached func(s *stage, f *following)
}

// inFile waits for the file that the run creates.
func inFile(s *stage, _ *following) { s.appears("started") }

// atInit is after the first event, when the run waits for its servers. They belong to the runtime,
// which has connected them since its start, and remain after a cancel.
func atInit(*stage, *following) {}

// inScript waits until a worker of the command has used CPU time, which idle ones do not.
func inScript(s *stage, f *following) {
	f.until("assistant")
	used := map[int]time.Duration{}
	s.until("a busy worker", func() bool {
		for _, p := range s.processes() {
			if !strings.HasSuffix(p.line, js.WorkerArg+" ") {
				continue
			}
			now, err := cpuTime(p.pid)
			if first, ok := used[p.pid]; err == nil && ok && now-first > 60*time.Millisecond {
				return true
			} else if err == nil && !ok {
				used[p.pid] = now
			}
		}
		return false
	})
}

func tool(name, input string) []modeltest.Reply {
	return []modeltest.Reply{modeltest.Stream(modeltest.Text("Now "), use("call_1", name, input))}
}

func bashPhase(name, command string) phase {
	return phase{name: name, says: tool("Bash", fmt.Sprintf(`{"command":%q}`, command)), reached: inFile}
}

func phases(cwd string) []phase {
	started := fmt.Sprintf(`{"text":%q}`, filepath.Join(cwd, "started"))
	return []phase{
		{name: "connecting stdio", agent: "mute-stdio", reached: atInit},
		{name: "connecting http", agent: "mute-http", reached: atInit},
		{name: "model silent", says: []modeltest.Reply{modeltest.Stream(modeltest.Hang())}, reached: inRequest},
		{name: "streaming", says: []modeltest.Reply{modeltest.Stream(modeltest.Text("one"), modeltest.Hang())},
			reached: func(_ *stage, f *following) { f.until("partial_message") }},
		bashPhase("bash", "touch started; sleep 1000 & sleep 1000"),
		bashPhase("bash deaf to SIGTERM", "trap '' TERM; touch started; sleep 1000 & while :; do sleep 1000; done"),
		bashPhase("bash that writes without end", "touch started; yes"),
		{name: "mcp stdio", says: tool("mcp__local__wait", started), reached: inFile},
		{name: "mcp stdio deaf", says: tool("mcp__local__deaf", started), reached: inFile},
		{name: "mcp http", says: tool("mcp__web__wait", started), reached: inFile},
		{name: "mcp sse", says: tool("mcp__events__wait", started), reached: inFile},
		{name: "script that loops", says: tool("spin", `{}`), reached: inScript},
		{name: "script that waits", says: tool("forever", `{}`), reached: inScript},
		{name: "subagent streaming", says: task("stream"), reached: inRequest},
		{name: "subagent in bash", says: task("bash"), reached: inFile},
		{name: "two subagents in bash", reached: func(s *stage, _ *following) { s.appears("started"); s.appears("started2") },
			says: []modeltest.Reply{modeltest.Stream(
				use("call_1", "Task", `{"description":"d","prompt":"bash","subagent_type":"digger"}`),
				use("call_2", "Task", `{"description":"d","prompt":"bash too","subagent_type":"digger"}`))}},
	}
}

func task(prompt string) []modeltest.Reply {
	return tool("Task", fmt.Sprintf(`{"description":"d","prompt":%q,"subagent_type":"digger"}`, prompt))
}

// inRequest waits for a hanging request.
func inRequest(s *stage, _ *following) {
	s.until("a request that hangs", func() bool {
		for _, r := range s.up.Requests() {
			select {
			case <-r.Closed():
			default:
				text := readPrompt(r).Messages[0].Content[0].Text
				if text == "stream" || text == "model silent" {
					return true
				}
			}
		}
		return false
	})
}

// warmUp makes the command create the resources that persist between runs.
var warmUp = []modeltest.Reply{
	modeltest.Stream(
		use("w1", "Bash", `{"command":"true"}`), use("w2", "quick", `{"text":"w"}`), use("w3", "mcp__local__echo", `{"text":"w"}`),
		use("w4", "mcp__web__echo", `{"text":"w"}`), use("w5", "mcp__events__echo", `{"text":"w"}`),
		use("w6", "Task", `{"description":"d","prompt":"short","subagent_type":"digger"}`),
		use("w7", "Task", `{"description":"d","prompt":"short","subagent_type":"digger"}`),
	),
	says("Warm."),
}

// It is not parallel, because it measures time.
func TestCancelReleasesAllResources(t *testing.T) {
	parts := cast{
		"warm up":  warmUp,
		"short":    {modeltest.Stream(modeltest.Wait(20*time.Millisecond), modeltest.Text("Dug."))}, // so that two runs need two connections
		"stream":   {modeltest.Stream(modeltest.Text("Digging"), modeltest.Hang())},
		"bash":     tool("Bash", `{"command":"touch started; sleep 1000 & sleep 1000"}`),
		"bash too": tool("Bash", `{"command":"touch started2; sleep 1000 & sleep 1000"}`),
	}
	var s *stage
	mute := serveHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Method == http.MethodPost {
			<-r.Context().Done()
		}
	}))
	config := fmt.Sprintf(cancelYAML, fmt.Sprintf(stdioServer, "tools"), fmt.Sprintf(stdioServer, "silent"))
	s = newStage(t, parts, strings.ReplaceAll(config, "{mute}", mute.URL))
	for name, text := range scripts {
		s.write(filepath.Join(s.home, name), text)
	}
	all := phases(s.cwd)
	for _, p := range all {
		parts[p.name] = p.says
	}
	s.start()
	longest, at := time.Duration(0), ""
	ways := map[string]func(*stage, *following, func()) time.Duration{"endpoint": byEndpoint, "disconnect": byLeaving}
	for _, p := range all {
		for _, way := range []string{"endpoint", "disconnect"} {
			t.Run(p.name+"/"+way, func(t *testing.T) {
				s := *s
				s.t = t
				require.False(t, final(t, s.run("a", wire.RunRequest{Message: "warm up"})).IsError)
				before := s.settled()
				agent := p.agent
				if agent == "" {
					agent = "a"
				}
				const tokens = `agenthost_tokens_total{agent="a",estimated="true",model="m",type="input"}`
				counted := s.count(tokens)
				f, leave := s.begin(agent, wire.RunRequest{Message: p.name})
				p.reached(&s, f)
				took := ways[way](&s, f, leave)
				for _, r := range s.up.Requests() {
					select {
					case <-r.Closed():
					case <-time.After(cancelGuard):
						require.FailNow(t, "a request upstream is left", "%s", r.Body)
					}
				}
				s.returns(before)
				if p.name == "streaming" {
					require.Greater(t, s.count(tokens), counted+10)
				}
				t.Logf("cancel took %v", took.Round(time.Millisecond))
				require.Less(t, took, cancelGuard)
				if took > longest {
					longest, at = took, t.Name()
				}
			})
		}
	}
	t.Logf("the longest cancel took %v, in %s", longest.Round(time.Millisecond), at)
}

// byEndpoint cancels a run and waits for the end of its stream.
func byEndpoint(s *stage, f *following, _ func()) time.Duration {
	s.t.Helper()
	begin := time.Now()
	answer, err := s.api().Cancel(s.t.Context(), f.id)
	require.NoError(s.t, err)
	require.Equal(s.t, wire.StateCancelling, answer.State)
	require.Equal(s.t, wire.ReasonClientRequest, f.until("cancelled").(*wire.Cancelled).Reason)
	f.until("done")
	took := time.Since(begin)
	require.NoError(s.t, f.end())
	s.cancelled(f, wire.ReasonClientRequest)
	return took
}

// byLeaving closes the connection of a run and waits until the run has ended.
func byLeaving(s *stage, f *following, leave func()) time.Duration {
	s.t.Helper()
	begin := time.Now()
	leave()
	s.until("no active run", func() bool {
		n := 0.0
		for _, agent := range []string{"a", "mute-stdio", "mute-http"} {
			n += s.count(fmt.Sprintf("agenthost_runs_active{agent=%q}", agent))
		}
		return n == 0
	})
	took := time.Since(begin)
	require.ErrorIs(s.t, f.end(), context.Canceled)
	s.cancelled(f, wire.ReasonDisconnect)
	return took
}

// cancelled checks the response to a repeated cancel.
func (s *stage) cancelled(f *following, reason wire.Reason) {
	s.t.Helper()
	answer, err := s.api().Cancel(s.t.Context(), f.id)
	require.NoError(s.t, err)
	require.Equal(s.t, wire.CancelResponse{RunID: f.id, State: wire.StateCancelled, Reason: reason}, answer)
}
