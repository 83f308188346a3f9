package main_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/wire"
)

const conversationYAML = `
agents:
  - id: a
    model: claude-test
    provider: {protocol: anthropic, baseUrl: "{upstream}", apiKey: key}
    systemPrompt: You keep notes.
    maxTurns: 20
    allowedTools: [Read, Write, Edit, Glob, Grep, "Bash(echo *)", "Bash(sleep *)", TodoWrite, Skill, Task, mcp__local, mcp__web__echo, mcp__events, quick]
    disallowedTools: ["Read(secret/**)"]
    mcpServers:
      local: %s
      web: {transport: http, url: "{web}"}
      events: {transport: sse, url: "{events}"}
    subagents:
      digger: {description: Digs., prompt: You dig., tools: [Read]}
    customTools: [{path: quick.ts}]
    datasets: {handbook: The staff handbook}
`

// story is a conversation that uses every kind of tool.
var story = cast{
	"tell": {
		modeltest.Stream(modeltest.Text("I begin."),
			use("todo", "TodoWrite", `{"todos":[{"content":"Write notes","status":"in_progress","activeForm":"Writing notes"}]}`),
			use("write", "Write", `{"file_path":"notes/a.txt","content":"one\ntwo\n"}`)),
		modeltest.Stream(use("read", "Read", `{"file_path":"notes/a.txt"}`), use("glob", "Glob", `{"pattern":"**/*.txt"}`),
			use("grep", "Grep", `{"pattern":"tw.","output_mode":"content"}`), use("secret", "Read", `{"file_path":"secret/key.txt"}`)),
		modeltest.Stream(use("edit", "Edit", `{"file_path":"notes/a.txt","old_string":"two","new_string":"three"}`),
			use("echo", "Bash", `{"command":"echo 42"}`), use("rm", "Bash", `{"command":"echo x; rm -r notes"}`)),
		modeltest.Stream(use("skill", "Skill", `{"skill":"rhyme"}`),
			use("task1", "Task", `{"description":"d","prompt":"dig one","subagent_type":"digger"}`),
			use("task2", "Task", `{"description":"d","prompt":"dig two","subagent_type":"digger"}`)),
		modeltest.Stream(use("local", "mcp__local__echo", `{"text":"1"}`), use("web", "mcp__web__echo", `{"text":"2"}`),
			use("events", "mcp__events__echo", `{"text":"3"}`), use("script", "quick", `{"text":"4"}`)),
		modeltest.Stream(modeltest.Text("All ", "done."),
			modeltest.Usage(model.Usage{InputTokens: 7, OutputTokens: 3, CacheReadInputTokens: 90, CacheCreationInputTokens: 11})),
	},
	"dig one": {modeltest.Stream(use("dig1", "Read", `{"file_path":"notes/a.txt"}`)), says("Found three.")},
	"dig two": {modeltest.Stream(use("dig2", "Write", `{"file_path":"notes/b.txt","content":"mine"}`)), says("I may not write.")},
	"sleep":   {modeltest.Stream(modeltest.Text("Good night."), use("sleep", "Bash", `{"command":"sleep 1000"}`))},
	"wake":    {says("I was asleep.")},
}

func newConversation(t *testing.T) *stage {
	s := newStage(t, story, fmt.Sprintf(conversationYAML, fmt.Sprintf(stdioServer, "tools")))
	s.write(filepath.Join(s.home, "quick.ts"), scripts["quick.ts"])
	s.write(s.cwd+"/.agents/skills/rhyme/SKILL.md", "---\nname: rhyme\ndescription: Makes rhymes.\n---\nNotes, boats.\n")
	s.write(s.cwd+"/secret/key.txt", "planted")
	s.start()
	return s
}

func TestConversationWithEveryKindOfTool(t *testing.T) {
	t.Parallel()
	s := newConversation(t)
	all := s.run("a", wire.RunRequest{Message: "tell"})
	end := final(t, all)
	init, ok := all[0].(*wire.System)
	require.True(t, ok)
	requireOrder(t, all)

	// The events that the client received.
	require.Equal(t, []string{"rhyme"}, init.Skills)
	var servers []string
	for _, server := range init.MCPServers {
		servers = append(servers, server.Name)
		require.Contains(t, []string{"pending", "connected"}, server.Status, "they connect when the runtime starts")
	}
	require.Equal(t, []string{"events", "local", "web"}, servers)
	require.Equal(t, "All done.", *end.Result)
	require.Equal(t, 6, end.NumTurns)
	var denied []string
	for _, d := range end.PermissionDenials {
		denied = append(denied, d.ToolName+" "+d.ToolUseID)
	}
	require.ElementsMatch(t, []string{"Read secret", "Bash rm", "Write dig2"}, denied)
	outcome := results(all)
	for id, want := range map[string]string{
		"write": "notes/a.txt", "read": "two", "glob": "notes/a.txt", "grep": "two", "edit": "notes/a.txt", "echo": "42",
		"skill": "Notes, boats.",
		"task1": "Found three.", "task2": "I may not write.", "local": "echo: 1", "web": "echo: 2", "events": "echo: 3",
		"script": "quick: 4", "dig1": "three",
	} {
		require.False(t, outcome[id].IsError, "%s: %s", id, outcome[id].Output)
		require.Contains(t, outcome[id].Output, want, id)
	}
	for _, id := range []string{"secret", "rm"} {
		require.True(t, outcome[id].IsError, id)
		require.NotContains(t, outcome[id].Output, "planted")
	}
	require.True(t, outcome["dig2"].IsError)

	// The usage: 10 in and 5 out for each of the five responses and the four of the subagents.
	require.Equal(t, wire.Usage{InputTokens: 97, OutputTokens: 48, CacheReadInputTokens: 90, CacheCreationInputTokens: 11},
		end.Usage)
	require.InDelta(t, 97, s.count(`agenthost_tokens_total{agent="a",estimated="false",model="claude-test",type="input"}`), 0)
	require.InDelta(t, 1, s.count(`agenthost_runs_total{agent="a",outcome="success"}`), 0)
	require.InDelta(t, 1, s.count(`agenthost_tool_calls_total{agent="a",kind="builtin",result="ok",tool="Edit"}`), 0)

	// The files on the disk.
	text, err := os.ReadFile(s.cwd + "/notes/a.txt")
	require.NoError(t, err)
	require.Equal(t, "one\nthree\n", string(text))
	require.NoFileExists(t, s.cwd+"/notes/b.txt")

	// The requests to the model.
	requests := s.requests("claude-test", "You keep notes.")
	require.Len(t, requests, 6)
	requireStablePrefix(t, requests)
	last := readPrompt(requests[5])
	for id, want := range outcome {
		if strings.HasPrefix(id, "dig") {
			require.NotContains(t, last.toolResults(), id, "a subagent returns only its last text")
			continue
		}
		require.Equal(t, want.IsError, last.toolResults()[id].IsError, id)
	}
	require.Contains(t, string(last.System), "- rhyme: Makes rhymes.")
	require.Contains(t, string(last.System), "- handbook: The staff handbook")

	// The stored transcript: everything except the messages of subagents.
	path, messages := s.transcript(init.SessionID)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.Len(t, messages, 12)
	require.Equal(t, model.UserText("tell"), messages[0])
	require.Equal(t, "All done.", messages[11].Text())
}

// requireOrder checks the order of events.
func requireOrder(t *testing.T, all []wire.Payload) {
	t.Helper()
	called := map[string]bool{}
	for i, p := range all {
		switch p := p.(type) {
		case *wire.System:
			require.Equal(t, i == 0, p.Subtype == runvalue.SystemInit, "init comes first, and once")
		case *wire.Assistant:
			for _, b := range p.Message.Content {
				called[b.ID] = true
			}
		case *wire.ToolResult:
			require.True(t, called[p.Result.ToolUseID], "a result comes after its call, and once")
			delete(called, p.Result.ToolUseID)
			id := p.Result.ToolUseID
			require.Equal(t, strings.HasPrefix(id, "dig"), p.ParentToolUseID != nil)
		case *wire.Result:
			require.Equal(t, len(all)-2, i)
		case *wire.Done:
			require.Equal(t, len(all)-1, i)
		}
	}
	delete(called, "") // of texts
	require.Empty(t, called)
}

// requests returns those of the main loop, whose system prompt starts with a text.
func (s *stage) requests(name, system string) (own []*modeltest.Request) {
	s.t.Helper()
	for _, r := range s.up.Requests() {
		if bytes.Contains(r.Body, []byte(name)) && bytes.Contains(readPrompt(r).System, []byte(system)) {
			own = append(own, r)
		}
	}
	return own
}

// requireStablePrefix checks the condition of prompt caches: each request starts with the bytes of
// the previous one.
func requireStablePrefix(t *testing.T, requests []*modeltest.Request) {
	t.Helper()
	first := readPrompt(requests[0])
	before := []string{}
	for _, r := range requests {
		p := readPrompt(r)
		require.Equal(t, string(first.System), string(p.System))
		require.Equal(t, string(first.Tools), string(p.Tools))
		require.Contains(t, string(p.System)+string(p.Tools), "cache_control")
		require.LessOrEqual(t, bytes.Count(r.Body, []byte(`"cache_control"`)), 4, "the vendor takes no more")
		var raw struct{ Messages []json.RawMessage }
		require.NoError(t, json.Unmarshal(r.Body, &raw))
		require.Contains(t, string(raw.Messages[len(raw.Messages)-1]), "cache_control")
		var now []string
		for _, m := range raw.Messages {
			now = append(now, strings.ReplaceAll(string(m), `,"cache_control":{"type":"ephemeral"}`, ""))
		}
		require.Greater(t, len(now), len(before))
		require.Equal(t, before, now[:len(before)])
		before = now
	}
}

// transcript reads the messages in the file of a session.
func (s *stage) transcript(id string) (path string, messages []model.Message) {
	s.t.Helper()
	found, err := filepath.Glob(filepath.Join(s.state, "sessions", "*", "a", "*", id+".jsonl"))
	require.NoError(s.t, err)
	require.Len(s.t, found, 1)
	data, err := os.ReadFile(found[0])
	require.NoError(s.t, err)
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	require.Contains(s.t, lines[0], `"format":"agenthost session","version":2`)
	for _, line := range lines[1:] {
		if strings.HasPrefix(line, `{"event":`) {
			continue
		}
		var m model.Message
		require.NoError(s.t, json.Unmarshal([]byte(line), &m))
		messages = append(messages, m)
	}
	return found[0], messages
}

// A runtime that was killed during a call continues the session after a restart, and no process
// that it had started survives.
func TestSessionContinuesAfterAKill(t *testing.T) {
	t.Parallel()
	s := newConversation(t)
	f, _ := s.begin("a", wire.RunRequest{Message: "sleep"})
	session := f.until("assistant").(*wire.Assistant).SessionID
	var children []proc
	s.until("the command of the model", func() bool {
		children = s.processes()
		return slices.ContainsFunc(children, func(p proc) bool { return p.line == "sleep 1000 " })
	})
	require.GreaterOrEqual(t, len(children), 3, "a server, a worker and a command: %v", children)
	s.Signal(t, syscall.SIGKILL)
	require.Error(t, f.end())
	s.Wait(t)
	for _, p := range children {
		s.until("the end of "+p.line, func() bool { return !alive(p.pid) })
	}
	_, messages := s.transcript(session)
	require.Len(t, messages, 2, "the message and the call, which has no answer")

	s.start()
	all := s.run("a", wire.RunRequest{Message: "wake", SessionID: new(session)})
	require.True(t, all[0].(*wire.System).Resumed)
	require.Equal(t, session, all[0].(*wire.System).SessionID)
	require.Equal(t, "I was asleep.", *final(t, all).Result)
	requests := s.up.Requests()
	last := readPrompt(requests[len(requests)-1])
	require.True(t, last.toolResults()["sleep"].IsError)
	require.Contains(t, string(last.toolResults()["sleep"].Content), "interrupted")
	require.Len(t, last.Messages, 3)
	_, messages = s.transcript(session)
	require.Len(t, messages, 4)
}
