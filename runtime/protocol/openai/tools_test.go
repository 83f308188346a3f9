package openai_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/session"
)

const weatherTool = `"tools":[{"type":"function","function":{"name":"get_weather","description":"d",
	"parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}}]`

// answered returns the request that follows a response with calls, with one result for each.
func answered(t *testing.T, message map[string]any, outputs ...string) string {
	t.Helper()
	list := []any{map[string]any{"role": "user", "content": "hello"}, message}
	for i, c := range message["tool_calls"].([]any) {
		list = append(list, map[string]any{"role": "tool", "tool_call_id": c.(map[string]any)["id"], "content": outputs[i]})
	}
	messages, err := json.Marshal(list)
	require.NoError(t, err)
	return `{"model":"helper",` + weatherTool + `,"messages":` + string(messages) + `}`
}

// The client executes its tools: the run waits for their results, also in another process.
func TestClientToolsOfChatCompletions(t *testing.T) {
	calls := modeltest.Stream(modeltest.Text("I ask."),
		modeltest.ToolCall("t1", "get_weather", `{"city":`, `"Paris"}`), modeltest.ToolCall("t2", "get_weather", `{"city":"Rome"}`))
	up := modeltest.Start(t, modeltest.Anthropic, calls, calls, modeltest.Stream(modeltest.Text("Rain and sun.")))
	cwd, state := t.TempDir(), t.TempDir()
	var store *session.Files
	start := func() *bench {
		return serve(t, up, func(c *runtime.Config) {
			files, err := session.NewFiles(session.FilesConfig{Dir: state, CWD: cwd})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, files.Close()) })
			c.Sessions, c.StoreOnRequest = files, true
			store = files
		})
	}
	b := start()
	stream := b.chat(strings.Replace(hello, "{", `{"stream":true,`+weatherTool+`,`, 1))
	list, finish := deltas(stream)
	require.Equal(t, []string{"tool_calls"}, finish)
	require.Equal(t, "I ask.", text(stream))
	streamed := list[len(list)-2]["tool_calls"].([]any)
	require.Len(t, streamed, 2)

	c, message := choice(t, b.chat(strings.Replace(hello, "{", "{"+weatherTool+",", 1)))
	require.Equal(t, "tool_calls", c["finish_reason"])
	require.Equal(t, "I ask.", message["content"])
	got := message["tool_calls"].([]any)
	require.Len(t, got, 2)
	for i, city := range []string{"Paris", "Rome"} {
		call, chunk := got[i].(map[string]any), streamed[i].(map[string]any)
		require.JSONEq(t, `{"city":"`+city+`"}`, call["function"].(map[string]any)["arguments"].(string))
		require.Equal(t, call["function"], chunk["function"])
		require.EqualValues(t, i, chunk["index"])
		require.NotEqual(t, call["id"], chunk["id"], "another conversation")
	}

	b = start() // nothing waits in memory
	next := b.chat(answered(t, message, "rain", "sun"))
	c, last := choice(t, next)
	require.Equal(t, "Rain and sun.", last["content"])
	require.Equal(t, "stop", c["finish_reason"])
	body := string(up.Requests()[2].Body)
	require.Contains(t, body, `"tool_use_id":"t1"`, "the conversation continues")
	require.NotContains(t, body, "Result of the tool")

	id := got[0].(map[string]any)["id"].(string)
	_, err := store.Transcript(t.Context(), id[len("call_")+32:], 0, 1)
	require.ErrorIs(t, err, session.ErrUnknown, "a conversation that does not wait is not stored")
}

// Results that nothing waits for, such as those of a repeated request, are a part of the
// conversation.
func TestResultsThatNothingWaitsFor(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic,
		modeltest.Stream(modeltest.ToolCall("t1", "get_weather", `{"city":"Paris"}`)),
		modeltest.Stream(modeltest.Text("one")), modeltest.Stream(modeltest.Text("two")))
	b := serve(t, up, nil)
	_, message := choice(t, b.chat(strings.Replace(hello, "{", "{"+weatherTool+",", 1)))
	require.Nil(t, message["content"])
	request := answered(t, message, "rain")
	for _, want := range []string{"one", "two"} {
		_, last := choice(t, b.chat(request))
		require.Equal(t, want, last["content"])
	}
	require.Contains(t, string(up.Requests()[2].Body), `Result of the tool get_weather:\nrain`)
}

func TestToolsThatAreRejected(t *testing.T) {
	b := serve(t, nil, nil)
	for name, tools := range map[string]string{
		"a name":      `[{"type":"function","function":{"name":"a b"}}]`,
		"names":       `[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"F"}}]`,
		"of MCP":      `[{"type":"function","function":{"name":"mcp__a__b"}}]`,
		"too many":    `[` + strings.Repeat(`{"type":"function","function":{"name":"f"}},`, 64) + `{"type":"function","function":{"name":"f"}}]`,
		"of no shape": `[{"type":"function","function":{"name":"f","parameters":[]}}]`,
	} {
		t.Run(name, func(t *testing.T) {
			b := b.in(t)
			res := b.chat(strings.Replace(hello, "{", `{"tools":`+tools+`,`, 1))
			require.Equal(t, http.StatusBadRequest, res.status, res.body)
			require.NotContains(t, res.body, "clientTools", "names are those of the protocol")
		})
	}
}
