package demo_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/internal/collect"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/demo"
)

const intro = "This is the demo model: it needs no key and no network, and it only echoes."

func ask(t testing.TB, text string, tools ...string) collect.Response {
	return collected(t, &model.Request{Messages: []model.Message{model.UserText(text)}, Tools: named(tools...)})
}

func named(names ...string) []model.Tool {
	var tools []model.Tool
	for _, name := range names {
		tools = append(tools, model.Tool{Name: name})
	}
	return tools
}

func collected(t testing.TB, req *model.Request) collect.Response {
	response, err := new(collect.Collector).Collect(demo.New(0).Stream(t.Context(), req))
	require.NoError(t, err)
	return response
}

func TestAnswers(t *testing.T) {
	const usage = `To call a tool, write its name and a JSON object with its input: /tool NAME {"key": "value"}`
	for _, c := range []struct{ name, text, want string }{
		{"echo", "Hello there", intro + " You wrote: Hello there"},
		{"white space", " \n", intro},
		{"not a command", "/tools Read {}", intro + " You wrote: /tools Read {}"},
		{"bad UTF-8", "a\xffb", intro + " You wrote: a\uFFFDb"},
		{"no tool named", "/tool", usage + ". The tools are: Read, Bash."},
		{"only an input", `/tool {"a":1}`, usage + ". The tools are: Read, Bash."},
		{"unknown tool", "/tool Fly {}", `There is no tool named "Fly". The tools are: Read, Bash.`},
		{"not JSON", "/tool Read {a}", "That is not a JSON object. " + usage},
		{"not an object", "/tool Read null", "That is not a JSON object. " + usage},
		{"more than an object", "/tool Read {} {}", "That is not a JSON object. " + usage},
	} {
		t.Run(c.name, func(t *testing.T) {
			response := ask(t, c.text, "Read", "Bash")
			require.Equal(t, c.want, response.Message.Text())
			require.Len(t, response.Message.Content, 1)
			require.Equal(t, model.StopEndTurn, response.StopReason)
			require.Positive(t, response.Usage.InputTokens)
			require.Positive(t, response.Usage.OutputTokens)
		})
	}
	require.Equal(t, `There is no tool named "Fly". No tools are offered here.`, ask(t, "/tool Fly").Message.Text())
	require.Equal(t, intro, collected(t, &model.Request{}).Message.Text())
}

func TestThinking(t *testing.T) {
	response := ask(t, "/think of a number")
	require.Equal(t, []model.Block{
		{Type: model.BlockThinking, Text: "The user wants to see me think about this: of a number"},
		{Type: model.BlockText, Text: intro + " You wrote: of a number"},
	}, response.Message.Content)
}

func TestToolCall(t *testing.T) {
	for _, c := range []struct{ name, text, input string }{
		{"object", `/tool Read { "file_path" : "日本.txt" }`, `{"file_path":"日本.txt"}`},
		{"no space before the object", `/tool Read{"a":[1, 2]}`, `{"a":[1,2]}`},
		{"no input", "/tool Read", `{}`},
		{"lines", "/tool\nRead\n{\n}", `{}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := &model.Request{Messages: []model.Message{model.UserText(c.text)}, Tools: named("Read")}
			response := collected(t, req)
			require.Equal(t, model.StopToolUse, response.StopReason)
			require.Equal(t, "I call the tool Read.", response.Message.Text())
			uses := response.Message.ToolUses()
			require.Len(t, uses, 1)
			require.Equal(t, "Read", uses[0].Name)
			require.JSONEq(t, c.input, string(uses[0].Input))
			require.Regexp(t, `^demo_[0-9a-f]{16}$`, uses[0].ID)

			req.Messages = append(req.Messages, response.Message, model.UserText(c.text))
			require.NotEqual(t, uses[0].ID, collected(t, req).Message.ToolUses()[0].ID)
		})
	}
}

func TestToolResults(t *testing.T) {
	call := func(id, name string) model.Block {
		return model.Block{Type: model.BlockToolUse, ID: id, Name: name, Input: json.RawMessage("{}")}
	}
	result := func(id, text string, failed bool) model.Block {
		return model.Block{Type: model.BlockToolResult, ID: id, Text: text, IsError: failed}
	}
	response := collected(t, &model.Request{Messages: []model.Message{
		model.UserText("/tool Read {}"),
		{Role: model.RoleAssistant, Content: []model.Block{call("1", "Read"), call("2", "Bash"), call("3", "Glob")}},
		{Role: model.RoleUser, Content: []model.Block{
			result("1", "file text", false), result("2", "exit 1", true), result("3", "", false), result("4", "x", false),
		}},
	}})
	require.Equal(t, "Read returned: file text\n\nBash failed: exit 1\n\nGlob returned no output.\n\nThe tool returned: x",
		response.Message.Text())
	require.Equal(t, model.StopEndTurn, response.StopReason)
}

func TestLongTexts(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"just at the bound", strings.Repeat("字", 1000), strings.Repeat("字", 1000)},
		{"Chinese", strings.Repeat("字", 5000), strings.Repeat("字", 1000) + "... (and 4000 characters more)"},
		{"one word", strings.Repeat("x", 4<<20), strings.Repeat("x", 1000) + "... (and 4193304 characters more)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			response := ask(t, c.text)
			require.Equal(t, intro+" You wrote: "+c.want, response.Message.Text())
			require.Less(t, response.Usage.OutputTokens, int64(1100))
		})
	}
	t.Run("input of a tool call", func(t *testing.T) {
		input := `{"content":"` + strings.Repeat("語 ", 1<<20) + `"}`
		response := ask(t, "/tool Write "+input, "Write")
		require.Equal(t, input, string(response.Message.ToolUses()[0].Input))
		require.Less(t, response.Usage.OutputTokens, int64(1100))
	})
}

func TestMaxOutputTokens(t *testing.T) {
	whole := ask(t, "Hello").Usage.OutputTokens
	for _, c := range []struct {
		name   string
		limit  int
		reason string
	}{
		{"below", 3, model.StopMaxTokens},
		{"just enough", int(whole), model.StopEndTurn},
	} {
		t.Run(c.name, func(t *testing.T) {
			response := collected(t, &model.Request{Messages: []model.Message{model.UserText("Hello")}, MaxOutputTokens: c.limit})
			require.Equal(t, c.reason, response.StopReason)
			require.Equal(t, int64(c.limit), response.Usage.OutputTokens)
		})
	}
}

func TestPacing(t *testing.T) {
	for _, c := range []struct {
		name  string
		delay time.Duration
		want  time.Duration
	}{
		{"default", 0, 15 * time.Millisecond},
		{"set", time.Second, time.Second},
		{"none", -1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				req := &model.Request{Messages: []model.Message{model.UserText("Hello there 你好")}}
				start, tokens, ready := time.Now(), 0, false
				for p, err := range demo.New(c.delay).Stream(t.Context(), req) {
					require.NoError(t, err)
					require.True(t, utf8.ValidString(p.Text))
					waited := time.Since(start) > 0
					start = time.Now()
					require.False(t, ready && waited, "More was true, but the next part was not ready")
					require.Equal(t, tokens > 0 && !ready && c.want > 0, waited)
					ready = p.More
					if p.Kind == model.KindText {
						tokens++
					}
					if p.Kind == model.KindStop {
						require.False(t, p.More)
					}
				}
				require.Greater(t, tokens, 20)
			})
		})
	}
}

func TestCancel(t *testing.T) {
	cause := errors.New("enough")
	for _, delay := range []time.Duration{time.Hour, -1} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			start := time.Now()
			time.AfterFunc(time.Minute, func() { cancel(cause) })
			var last error
			for p, err := range demo.New(delay).Stream(ctx, &model.Request{}) {
				if delay < 0 && p.Kind == model.KindText {
					cancel(cause)
				}
				last = err
			}
			require.Equal(t, cause, last)
			require.LessOrEqual(t, time.Since(start), time.Minute)
		})
	}
}

func TestLoopThatBreaks(t *testing.T) {
	for range demo.New(0).Stream(t.Context(), &model.Request{}) { //nolint:errcheck // the test is about the loop
		break
	}
}
