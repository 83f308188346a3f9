package modeltest_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/internal/collect"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/anthropic"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/model/openai"
)

var update = flag.Bool("update", false, "write the goldens")

// profiles are the servers as users configure them. A row without an address is a local server or a
// gateway.
var profiles = map[string]struct {
	protocol modeltest.Protocol
	base     string
	model    string
	cfg      openai.Config
}{
	"deepseek":                    {modeltest.DeepSeek, "https://api.deepseek.com/v1", "deepseek-v4-pro", openai.Config{}},
	"deepseek behind a gateway":   {modeltest.DeepSeek, "", "deepseek-v4-pro", openai.Config{}},
	"gemini":                      {modeltest.Gemini, "https://generativelanguage.googleapis.com/v1beta/openai", "gemini-3-pro", openai.Config{}},
	"mistral":                     {modeltest.Mistral, "https://api.mistral.ai/v1", "magistral-medium", openai.Config{NoStreamUsage: true}},
	"kimi":                        {modeltest.Kimi, "https://api.moonshot.ai/v1", "kimi-k2.6", openai.Config{}},
	"kimi behind a gateway":       {modeltest.Kimi, "", "kimi-k2.6", openai.Config{}},
	"ollama":                      {modeltest.Ollama, "", "qwen3:8b", openai.Config{}},
	"openrouter":                  {modeltest.OpenRouter, "https://openrouter.ai/api/v1", "anthropic/claude-sonnet-4.5", openai.Config{}},
	"azure":                       {modeltest.Azure, "https://team.openai.azure.com/openai/deployments/m?api-version=2024-10-21", "m", azure},
	"azure, the newer address":    {modeltest.Azure, "https://team.openai.azure.com/openai/v1", "m", azure},
	"vllm":                        {modeltest.VLLM, "", "Qwen/Qwen3-8B", openai.Config{}},
	"groq":                        {modeltest.Groq, "https://api.groq.com/openai/v1", "openai/gpt-oss-120b", openai.Config{}},
	"groq without stream options": {modeltest.Groq, "https://api.groq.com/openai/v1", "openai/gpt-oss-120b", openai.Config{NoStreamUsage: true}},
	"openai":                      {modeltest.OpenAI, "", "m", openai.Config{}},
	"anthropic":                   {modeltest.Anthropic, "https://api.anthropic.com", "claude-sonnet-4-5", openai.Config{}},
	"deepseek-messages":           {modeltest.DeepSeekMessages, "https://api.deepseek.com/anthropic", "deepseek-v4-pro", openai.Config{}},
}

var azure = openai.Config{AuthStyle: "api_key", KeyHeader: "api-key"}

// elsewhere sends the requests for any address to an upstream.
type elsewhere struct{ host string }

func (e elsewhere) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host = "http", e.host
	return http.DefaultTransport.RoundTrip(r)
}

// TestProfiles runs a conversation of three turns with two tools and thinking through the adapters,
// against servers that reject what the real servers reject, at the addresses of the real servers.
// The golden of a profile is its last request.
func TestProfiles(t *testing.T) {
	for name, row := range profiles {
		t.Run(name, func(t *testing.T) {
			up := modeltest.Start(t, row.protocol, conversation(row.protocol)...)
			address, err := url.Parse(up.URL)
			require.NoError(t, err)
			cfg := row.cfg
			cfg.BaseURL, cfg.APIKey = cmp.Or(row.base, up.URL), "key-of-the-test"
			cfg.HTTPClient = &http.Client{Transport: elsewhere{address.Host}}
			var m model.Model
			if row.protocol == modeltest.Anthropic || row.protocol == modeltest.DeepSeekMessages {
				m, err = anthropic.New(anthropic.Config{BaseURL: cfg.BaseURL, APIKey: cfg.APIKey, HTTPClient: cfg.HTTPClient})
			} else {
				m, err = openai.New(cfg)
			}
			require.NoError(t, err)
			req := &model.Request{
				Model: row.model, System: "Be brief.", MaxOutputTokens: 4000, Thinking: model.Thinking{BudgetTokens: 2000},
				Tools: []model.Tool{
					{Name: "Read", InputSchema: []byte(`{"type":"object"}`)}, {Name: "Now", InputSchema: []byte(`{"type":"object"}`)},
				},
				Messages: []model.Message{model.UserText("What does a.txt say, and when?")},
			}
			stops := []string{model.StopToolUse, model.StopToolUse, model.StopEndTurn, model.StopEndTurn}
			for turn, stop := range stops {
				response, err := new(collect.Collector).Collect(m.Stream(t.Context(), req))
				require.NoError(t, err, "turn %d", turn+1)
				require.Equal(t, stop, response.StopReason, "turn %d", turn+1)
				require.Equal(t, model.Usage{InputTokens: 10, OutputTokens: 5}, response.Usage, "turn %d", turn+1)
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
			last := requests[len(requests)-1]
			if row.cfg.NoStreamUsage == (row.protocol == modeltest.Mistral) {
				golden(t, "profile-"+string(row.protocol)+".json", last.Body)
			}
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
// A row that says nothing is accepted too.
func TestProfilesReject(t *testing.T) {
	const (
		bridge = `,{"role":"assistant","content":"(The previous run ended here.)"`
		call   = `"id":"call00003","type"`
		extra  = `"id":"call00003","x":1,"type"`
	)
	for _, row := range []struct {
		protocol      modeltest.Protocol
		old, new, say string
	}{
		{modeltest.DeepSeek, `"reasoning_content":"I need both.",`, ``, "must be passed back"},
		{modeltest.DeepSeek, `"reasoning_content":"I need both.",`, `"reasoning_content":"",`, "must be passed back"},
		{modeltest.DeepSeek, `(The previous run ended here.)","reasoning_content":" "`, `x"`, "must be passed back"},
		{modeltest.DeepSeek, `,"reasoning_content":"Done."`, ``, ""}, // a turn without tool calls
		{modeltest.Kimi, `"Let me see.","reasoning_content":" ",`, `"Let me see.",`, "reasoning_content is missing in assistant tool call message"},
		{modeltest.Kimi, `"Let me see.","reasoning_content":" ",`, `"Let me see.","reasoning_content":"",`, "reasoning_content is missing in assistant tool call message"},
		{modeltest.Kimi, `"It says hello.","reasoning_content":" "`, `"It says hello."`, "requires reasoning_content on every assistant message"},
		{modeltest.Gemini, `c2ln+call00003/==`, `c2ln`, ""}, // an earlier turn
		{modeltest.Gemini, `"content":"Let me see."`, `"content":"Let me see.","reasoning":"x"`, "Unknown name"},
		{modeltest.Gemini, call, extra, "Unknown name"},
		{modeltest.Mistral, `"stream":true`, `"stream":true,"stream_options":{"include_usage":true}`, "stream_options"},
		{modeltest.Mistral, `"max_tokens":4000`, `"max_completion_tokens":4000`, "max_completion_tokens"},
		{modeltest.Mistral, `call00001`, `call_00001`, "length of 9"},
		{modeltest.Mistral, bridge + `}`, ``, "Unexpected role 'user' after role 'tool'"},
		{modeltest.Mistral, `{"role":"assistant",`, `{"role":"assistant","reasoning_content":"x",`, "Extra inputs are not permitted"},
		{modeltest.Mistral, call, extra, "Extra inputs are not permitted"},
		{modeltest.Groq, `"reasoning":`, `"reasoning_content":`, "is unsupported"},
		{modeltest.Groq, call, extra, "is unsupported"},
		{modeltest.OpenRouter, `"text":"I need both."`, `"text":"I need"`, "reasoning_details were changed"},
		{modeltest.Ollama, `{"role":"assistant","content":"It says hello.","reasoning":"Done."}`, `{"role":"assistant","content":null}`, "got null"},
		{modeltest.Ollama, `"arguments":"{}"`, `"arguments":"{"`, "not a JSON object"},
		{modeltest.VLLM, `"content":null,`, ``, "Field required"},
		{modeltest.Azure, `"max_completion_tokens":`, `"max_tokens":`, "Use 'max_completion_tokens' instead"},
		{modeltest.Azure, `"content":"Let me see."`, `"content":"Let me see.","reasoning_content":"x"`, "Unknown parameter"},
		{modeltest.Azure, call, extra, "Unknown parameter"},
		{modeltest.OpenAI, call, extra, "Unknown parameter"},
		{modeltest.DeepSeekMessages, `{"type":"thinking","thinking":"I need both.","signature":""},`, ``, "must be passed back"},
		{modeltest.DeepSeekMessages, `"thinking":"I need both."`, `"thinking":""`, "must be passed back"},
	} {
		t.Run(string(row.protocol)+" "+row.say, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join("testdata", "profile-"+string(row.protocol)+".json"))
			require.NoError(t, err)
			var body bytes.Buffer
			require.NoError(t, json.Compact(&body, data))
			require.Contains(t, body.String(), row.old)
			ok := post(t, row.protocol, body.String())
			require.Equal(t, 200, ok.Code, ok.Body)
			changed := post(t, row.protocol, strings.ReplaceAll(body.String(), row.old, row.new))
			if row.say == "" {
				require.Equal(t, 200, changed.Code, changed.Body)
				return
			}
			require.GreaterOrEqual(t, changed.Code, 400)
			require.Contains(t, strings.ReplaceAll(changed.Body.String(), `\"`, `"`), row.say)
		})
	}
	t.Run("gemini, the current turn", func(t *testing.T) {
		data, err := os.ReadFile(filepath.Join("testdata", "profile-gemini.json"))
		require.NoError(t, err)
		var body bytes.Buffer
		require.NoError(t, json.Compact(&body, data))
		turn, _, ok := strings.Cut(body.String(), bridge)
		require.True(t, ok)
		turn += "]}"
		require.Equal(t, 200, post(t, modeltest.Gemini, turn).Code)
		for _, call := range []string{"call00001", "call00003"} {
			changed := post(t, modeltest.Gemini, strings.ReplaceAll(turn, "c2ln+"+call, "c2ln"))
			require.Contains(t, changed.Body.String(), "missing a thought_signature")
		}
	})
	t.Run("azure, the address", func(t *testing.T) {
		data, err := os.ReadFile(filepath.Join("testdata", "profile-azure.json"))
		require.NoError(t, err)
		for target, status := range map[string]int{
			"/openai/deployments/m/chat/completions":                        404,
			"/openai/deployments/m/chat/completions?api-version=2024-10-21": 200,
			"/openai/v1/chat/completions":                                   200,
		} {
			require.Equal(t, status, postTo(t, modeltest.Azure, target, string(data)).Code, target)
		}
	})
}

func post(t *testing.T, p modeltest.Protocol, body string) *httptest.ResponseRecorder {
	t.Helper()
	target := map[modeltest.Protocol]string{
		modeltest.Gemini: "/v1beta/openai/chat/completions", modeltest.OpenRouter: "/api/v1/chat/completions",
		modeltest.Groq: "/openai/v1/chat/completions", modeltest.Azure: "/openai/v1/chat/completions",
		modeltest.DeepSeekMessages: "/anthropic/v1/messages",
	}[p]
	return postTo(t, p, cmp.Or(target, "/v1/chat/completions"), body)
}

func postTo(t *testing.T, p modeltest.Protocol, target, body string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, target, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Anthropic-Version", "2023-06-01")
	r.Header.Set("Api-Key", "key-of-the-test")
	w := httptest.NewRecorder()
	modeltest.New(p, modeltest.Stream(modeltest.Text("x"))).ServeHTTP(w, r)
	return w
}
