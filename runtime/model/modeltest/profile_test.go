package modeltest_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/anthropic"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/model/openai"
)

var update = flag.Bool("update", false, "write the goldens")

// TestProfiles runs a conversation of three turns with two tools and thinking through the adapters,
// against servers that reject what the real servers reject. The golden of a profile is its last
// request.
func TestProfiles(t *testing.T) {
	key := "key-of-the-test"
	chat := func(cfg openai.Config) func(t *testing.T, base string) model.Model {
		return func(t *testing.T, base string) model.Model {
			cfg := cfg
			cfg.BaseURL, cfg.APIKey = base, key
			c, err := openai.New(cfg)
			require.NoError(t, err)
			t.Cleanup(c.CloseIdleConnections)
			return c
		}
	}
	messages := func(t *testing.T, base string) model.Model {
		c, err := anthropic.New(anthropic.Config{BaseURL: base, APIKey: key})
		require.NoError(t, err)
		t.Cleanup(c.CloseIdleConnections)
		return c
	}
	for protocol, newModel := range map[modeltest.Protocol]func(t *testing.T, base string) model.Model{
		modeltest.DeepSeek:         chat(openai.Config{}),
		modeltest.Gemini:           chat(openai.Config{}),
		modeltest.Mistral:          chat(openai.Config{NoStreamUsage: true}),
		modeltest.Kimi:             chat(openai.Config{}),
		modeltest.Ollama:           chat(openai.Config{}),
		modeltest.OpenRouter:       chat(openai.Config{}),
		modeltest.Azure:            chat(openai.Config{AuthStyle: "api_key", KeyHeader: "api-key"}),
		modeltest.VLLM:             chat(openai.Config{}),
		modeltest.Groq:             chat(openai.Config{}),
		modeltest.OpenAI:           chat(openai.Config{}),
		modeltest.Anthropic:        messages,
		modeltest.DeepSeekMessages: messages,
	} {
		t.Run(string(protocol), func(t *testing.T) {
			up := modeltest.Start(t, protocol, conversation(protocol)...)
			m := newModel(t, up.URL)
			req := &model.Request{
				Model: "m", System: "Be brief.", MaxOutputTokens: 4000, Thinking: model.Thinking{BudgetTokens: 2000},
				Tools: []model.Tool{
					{Name: "Read", InputSchema: []byte(`{"type":"object"}`)}, {Name: "Now", InputSchema: []byte(`{"type":"object"}`)},
				},
				Messages: []model.Message{model.UserText("What does a.txt say, and when?")},
			}
			stops := []string{model.StopToolUse, model.StopToolUse, model.StopEndTurn, model.StopEndTurn}
			for turn, stop := range stops {
				response, err := model.Collect(m.Stream(t.Context(), req))
				require.NoError(t, err, "turn %d", turn+1)
				require.Equal(t, stop, response.StopReason, "turn %d", turn+1)
				req.Messages = append(req.Messages, stored(t, response.Message))
				switch calls := response.Message.ToolUses(); {
				case turn == 1: // the run reached its last turn: its results and the next message are in one
					req.Messages = append(req.Messages, results(calls, model.Block{Type: model.BlockText, Text: "Never mind."}))
				case len(calls) > 0:
					req.Messages = append(req.Messages, results(calls))
				default:
					req.Messages = append(req.Messages, model.UserText("Thanks."))
				}
			}
			requests := up.Requests()
			golden(t, "profile-"+string(protocol)+".json", requests[len(requests)-1].Body)
		})
	}
}

// conversation returns the responses of a server. Mistral accepts no other ids.
func conversation(p modeltest.Protocol) []modeltest.Reply {
	think := func(texts ...string) []modeltest.Step {
		if p == modeltest.Kimi { // the empty reasoning must be sent back too
			return nil
		}
		steps := []modeltest.Step{modeltest.Thinking(texts...)}
		if p == modeltest.Anthropic {
			steps = append(steps, modeltest.Signature("c2ln"))
		}
		return steps
	}
	return []modeltest.Reply{
		modeltest.Stream(append(think("I need ", "both."), modeltest.Text("Let me see."),
			modeltest.ToolCall("call00001", "Read", `{"file_path":`, `"a.txt"}`), modeltest.ToolCall("call00002", "Now", `{}`))...),
		modeltest.Stream(append(think("Once more."), modeltest.ToolCall("call00003", "Now", `{}`))...),
		modeltest.Stream(append(think("Done."), modeltest.Text("It says hello."))...),
		modeltest.Stream(modeltest.Text("You are welcome.")),
	}
}

func results(calls []model.Block, more ...model.Block) model.Message {
	m := model.Message{Role: model.RoleUser}
	for _, c := range calls {
		m.Content = append(m.Content, model.Block{Type: model.BlockToolResult, ID: c.ID, Text: "result of " + c.Name})
	}
	m.Content = append(m.Content, more...)
	return m
}

// stored returns a message as a session stores it.
func stored(t *testing.T, m model.Message) (loaded model.Message) {
	t.Helper()
	data, err := json.Marshal(m)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &loaded))
	return loaded
}

func golden(t *testing.T, name string, body []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		var out bytes.Buffer
		require.NoError(t, json.Indent(&out, body, "", "  "))
		require.NoError(t, os.WriteFile(path, append(out.Bytes(), '\n'), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.JSONEq(t, string(want), string(body))
}

// The profiles reject what their servers reject: each row changes one thing in an accepted request.
func TestProfilesReject(t *testing.T) {
	accepted := func(p modeltest.Protocol) string {
		data, err := os.ReadFile(filepath.Join("testdata", "profile-"+string(p)+".json"))
		require.NoError(t, err)
		var out bytes.Buffer
		require.NoError(t, json.Compact(&out, data))
		return out.String()
	}
	for _, row := range []struct {
		protocol      modeltest.Protocol
		old, new, say string
	}{
		{modeltest.DeepSeek, `"reasoning_content":"I need both.",`, ``, "reasoning_content is missing"},
		{modeltest.Kimi, `"reasoning_content":"",`, ``, "reasoning_content is missing"},
		{modeltest.Gemini, `c2ln+call00001/==`, `c2ln`, "missing a thought_signature"},
		{modeltest.Mistral, `"stream":true`, `"stream":true,"stream_options":{"include_usage":true}`, "stream_options"},
		{modeltest.Mistral, `call00001`, `call_00001`, "length of 9"},
		{modeltest.Mistral, `{"role":"assistant","content":"(The previous run ended here.)"},`, ``, "Unexpected role 'user' after role 'tool'"},
		{modeltest.Mistral, `{"role":"assistant",`, `{"role":"assistant","reasoning":"x",`, "is unsupported"},
		{modeltest.Groq, `"reasoning":`, `"reasoning_content":`, "is unsupported"},
		{modeltest.OpenRouter, `"text":"I need both."`, `"text":"I need"`, "reasoning_details were changed"},
		{modeltest.VLLM, `"content":null,`, ``, "Field required"},
		{modeltest.DeepSeekMessages, `{"type":"thinking","thinking":"I need both.","signature":""},`, ``, "must be passed back"},
	} {
		t.Run(string(row.protocol)+" "+row.say, func(t *testing.T) {
			body := accepted(row.protocol)
			require.Contains(t, body, row.old)
			up := modeltest.New(row.protocol, modeltest.Stream(modeltest.Text("x")))
			base := map[modeltest.Protocol]string{modeltest.Gemini: "/v1beta/openai", modeltest.OpenRouter: "/api/v1", modeltest.Groq: "/openai/v1"}[row.protocol]
			if row.protocol == modeltest.DeepSeekMessages {
				base = "/anthropic"
			} else if base == "" {
				base = "/v1"
			}
			ok := post(t, up, row.protocol, base, body)
			require.Equal(t, 200, ok.Code, ok.Body)
			refused := post(t, up, row.protocol, base, strings.ReplaceAll(body, row.old, row.new))
			require.GreaterOrEqual(t, refused.Code, 400)
			require.Contains(t, refused.Body.String(), row.say)
		})
	}
}

func post(t *testing.T, up *modeltest.Upstream, p modeltest.Protocol, base, body string) *httptest.ResponseRecorder {
	t.Helper()
	path := base + "/chat/completions"
	if p == modeltest.DeepSeekMessages {
		path = base + "/v1/messages"
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Anthropic-Version", "2023-06-01")
	w := httptest.NewRecorder()
	up.ServeHTTP(w, r)
	return w
}
