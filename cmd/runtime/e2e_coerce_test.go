package main_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/wire"
)

const coerceYAML = `
agents:
  - id: a
    model: m
    provider: {protocol: anthropic, baseUrl: "{upstream}", apiKey: key}
    allowedTools: [Read, Edit, TodoWrite, Bash(ls *), strict, mcp__good]
    maxTurns: 20
    mcpServers:
      good: %s
    customTools: [{path: strict.ts}]
`

func newCoercing(t *testing.T, parts cast) *stage {
	s := newStage(t, parts, fmt.Sprintf(coerceYAML, fmt.Sprintf(stdioServer, "tools")))
	s.write(filepath.Join(s.home, "strict.ts"), `export default {name: "strict", description: "Counts.", call: input => input.list.map(e => e.n + 1).join(),
		inputSchema: {type: "object", properties: {list: {type: "array", items: {type: "object", properties: {n: {type: "integer", minimum: 3}}, required: ["n"]}}}, required: ["list"], additionalProperties: false}}`)
	return s
}

// Inputs whose values have another type reach built-in tools, custom tools and tools of MCP servers
// in the form of their schemas, which the events have too.
func TestInputsOfAnotherType(t *testing.T) {
	t.Parallel()
	rows := []struct{ id, name, input, sent, want string }{
		{"read", "Read", `{"file_path":"a.txt","offset":"2","limit":"1","pages":null}`, `{"file_path":"a.txt","limit":1,"offset":2}`, "2\ttwo"},
		{"edit", "Edit", `{"file_path":"a.txt","old_string":"t","new_string":7,"replace_all":"true"}`,
			`{"file_path":"a.txt","new_string":"7","old_string":"t","replace_all":true}`, ""},
		{"edited", "Read", `{"file_path":"a.txt","offset":2.0}`, `{"file_path":"a.txt","offset":2}`, "2\t7wo"},
		{"todos", "TodoWrite", `{"todos":"[{\"content\":\"Rest\",\"status\":\"pending\"}]"}`, `{"todos":[{"content":"Rest","status":"pending"}]}`, "[ ] Rest"},
		{"judged", "Bash", `{"command":"ls a.txt","timeout":"5000"}`, `{"command":"ls a.txt","timeout":5000}`, "a.txt"},
		{"strict", "strict", `{"list":"[{\"n\":\"3\"},{\"n\":4}]"}`, `{"list":[{"n":3},{"n":4}]}`, "4,5"},
		{"echo", "mcp__good__echo", `{"text":12}`, `{"text":"12"}`, "echo: 12"},
		{"whole", "mcp__good__echo", `"{\"text\":\"[1]\"}"`, `{"text":"[1]"}`, "echo: [1]"},
	}
	var replies []modeltest.Reply
	for _, row := range rows {
		replies = append(replies, modeltest.Stream(use(row.id, row.name, row.input)))
	}
	s := newCoercing(t, cast{"go": append(replies, says("Done."))})
	s.write(filepath.Join(s.cwd, "a.txt"), "one\ntwo\nthree\n")
	s.start()
	all := s.run("a", wire.RunRequest{Message: "go"})
	require.Equal(t, "Done.", *final(t, all).Result)
	sent := map[string]string{}
	for _, p := range all {
		if p, ok := p.(*wire.Assistant); ok && p.Message.Content[0].Type == "tool_use" {
			sent[p.Message.Content[0].ID] = string(p.Message.Content[0].Input)
		}
	}
	outcome := results(all)
	for _, row := range rows {
		require.False(t, outcome[row.id].IsError, "%s: %s", row.id, outcome[row.id].Output)
		require.Contains(t, outcome[row.id].Output, row.want, row.id)
		require.JSONEq(t, row.sent, sent[row.id], row.id)
	}
}

// An input without a reading is an error with what to send instead. A run whose model repeats it
// ends before its turns are used.
func TestARepeatedCallEndsTheRun(t *testing.T) {
	t.Parallel()
	var replies []modeltest.Reply
	for i := range 10 {
		replies = append(replies, modeltest.Stream(use(fmt.Sprint("t", i+1), "strict", `{"list":[{"n":"many"}]}`)))
	}
	s := newCoercing(t, cast{"go": replies})
	s.start()
	all := s.run("a", wire.RunRequest{Message: "go"})
	outcome := results(all)
	require.Len(t, outcome, 6)
	require.Contains(t, outcome["t1"].Output, "send list[0].n as an integer, not as a string.")
	require.NotContains(t, outcome["t2"].Output, "in a row")
	require.Contains(t, outcome["t3"].Output, "refused in 3 turns in a row")
	end := final(t, all)
	require.Equal(t, "error_during_execution", end.Subtype)
	require.True(t, end.IsError)
	require.Contains(t, strings.Join(end.Errors, ""), "the same refused tool call in 6 turns in a row")
}
