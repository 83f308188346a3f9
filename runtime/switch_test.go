package runtime_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/session"
)

// vendor is a provider as users configure it.
type vendor struct {
	name     string
	protocol modeltest.Protocol
	model    string
	provider agent.Provider
	thinking agent.Thinking
	id       string // form of its call ids
}

func vendors() []vendor {
	no := false
	chat := func(base string) agent.Provider {
		return agent.Provider{Protocol: agent.ProtocolOpenAI, BaseURL: agent.Secret(base), APIKey: "key-of-the-test"}
	}
	messages := func(base string) agent.Provider {
		return agent.Provider{Protocol: agent.ProtocolAnthropic, BaseURL: agent.Secret(base), APIKey: "key-of-the-test"}
	}
	azure := chat("https://team.openai.azure.com/openai/deployments/m?api-version=2024-10-21")
	azure.APIKeyHeader = "api-key"
	mistral := chat("https://api.mistral.ai/v1")
	mistral.StreamUsage = &no
	budget := agent.Thinking{BudgetTokens: 2000}
	return []vendor{
		{"anthropic", modeltest.Anthropic, "claude-sonnet-4-5", messages("https://api.anthropic.com"), budget, "toolu_01A%d"},
		{"another claude", modeltest.Anthropic, "claude-opus-4-7", messages("https://api.anthropic.com"),
			agent.Thinking{Type: agentvalue.ThinkingAdaptive, Effort: "low"}, "toolu_01B%d"},
		{"deepseek messages", modeltest.DeepSeekMessages, "deepseek-v4-pro", messages("https://api.deepseek.com/anthropic"), budget, "call_00_%d"},
		{"openai", modeltest.Azure, "gpt-5.1", azure, agent.Thinking{}, "call_PTLP8xhu3uwZk4l3nlnrrJh%d"},
		{"deepseek", modeltest.DeepSeek, "deepseek-v4-pro", chat("https://api.deepseek.com/v1"), agent.Thinking{}, "call_01_%d"},
		{"kimi", modeltest.Kimi, "kimi-k2.6", chat("https://api.moonshot.ai/v1"), agent.Thinking{}, "functions.Read:%d"},
		{"gemini", modeltest.Gemini, "gemini-3-pro", chat("https://generativelanguage.googleapis.com/v1beta/openai"), agent.Thinking{}, "function-call-%d"},
		{"mistral", modeltest.Mistral, "magistral-medium", mistral, agent.Thinking{}, "call0000%d"},
		{"ollama", modeltest.Ollama, "qwen3:8b", chat("http://127.0.0.1:11434/v1"), agent.Thinking{}, "call_abcdefg%d"},
		{"openrouter", modeltest.OpenRouter, "anthropic/claude-sonnet-4.5", chat("https://openrouter.ai/api/v1"), agent.Thinking{}, "toolu_vrtx_%d"},
		{"vllm", modeltest.VLLM, "openai/gpt-oss-120b", chat("http://127.0.0.1:8000/v1"), agent.Thinking{}, "chatcmpl-tool-0af3b%d"},
		{"groq", modeltest.Groq, "openai/gpt-oss-120b", chat("https://api.groq.com/openai/v1"), agent.Thinking{}, "fc_8a1b9ce2-4a7e-4c05-9%d"},
	}
}

// thought is in all thinking of a vendor and nowhere else.
func (v *vendor) thought() string { return "Secret of " + v.name + "." }

// sendsThoughts reports whether the thinking of a vendor is sent back: OpenAI and Gemini send none.
func (v *vendor) sendsThoughts() bool {
	return v.protocol != modeltest.Azure && v.protocol != modeltest.Gemini
}

// requireThoughts checks that the last request has the thinking of v, and that no request has that
// of the others.
func (v *vendor) requireThoughts(t *testing.T, requests []string, others []vendor) {
	t.Helper()
	require.Equal(t, v.sendsThoughts(), strings.Contains(requests[len(requests)-1], v.thought()))
	for i := range others {
		if other := &others[i]; other.name != v.name {
			for _, body := range requests {
				require.NotContains(t, body, other.thought())
				require.NotContains(t, body, "sig-of-"+other.model)
			}
		}
	}
}

func (v *vendor) call(n int, name, input string) modeltest.Step {
	return modeltest.ToolCall(fmt.Sprintf(v.id, n), name, input)
}

// responses are three runs: one that has only text, one with two tools, and one that ends with a
// call on its last turn, so that the next run continues without its result.
func (v *vendor) responses() []modeltest.Reply {
	think := func(steps ...modeltest.Step) modeltest.Reply {
		first := []modeltest.Step{modeltest.Thinking(v.thought())}
		if v.protocol == modeltest.Anthropic {
			first = append(first, modeltest.Signature("sig-of-"+v.model))
		}
		return modeltest.Stream(append(first, steps...)...)
	}
	return []modeltest.Reply{
		think(modeltest.Text("Well.")),
		think(modeltest.Text("Both."), v.call(1, "Read", `{"file_path":"a.txt"}`), v.call(2, "Glob", `{"pattern":"*"}`)),
		think(v.call(3, "Read", `{"file_path":"a.txt"}`)),
		think(modeltest.Text("It says hello.")),
		think(v.call(4, "Read", `{"file_path":"a.txt"}`)),
		think(v.call(5, "Read", `{"file_path":"a.txt"}`)),
	}
}

// rewrite sends the requests for any address to an upstream.
type rewrite struct{ to *url.URL }

func (w rewrite) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host = w.to.Scheme, w.to.Host
	return http.DefaultTransport.RoundTrip(r)
}

// chat runs the three runs of a vendor in a session, in a runtime of their own, and returns the
// bodies of the requests. A short chat is one run with one tool call.
func (v *vendor) chat(t *testing.T, dir, sessionID string, short bool) (id string, requests []string) {
	t.Helper()
	responses, options := v.responses(), []string{``, ``, `,"maxTurns":2`}
	if short {
		responses, options = responses[2:4], options[:1]
	}
	up := modeltest.Start(t, v.protocol, responses...)
	to, err := url.Parse(up.URL)
	require.NoError(t, err)
	store, err := session.NewFiles(session.FilesConfig{Dir: filepath.Join(dir, "state"), CWD: filepath.Join(dir, "cwd")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	b := serve(t, nil, func(c *runtime.Config) {
		c.CWD, c.Sessions, c.HTTPClient = filepath.Join(dir, "cwd"), store, &http.Client{Transport: rewrite{to}}
		c.Agents = []agent.Agent{{ID: "helper", Model: v.model, Provider: v.provider, Thinking: v.thinking}}
	})
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	for _, option := range options {
		res, run := b.blocking(t, `{"message":"Go on.","sessionId":"`+sessionID+`"`+option+`}`)
		if option == "" {
			require.Equal(t, http.StatusOK, res.status, res.body)
		} else {
			require.Equal(t, "error_max_turns", run.ErrorType, res.body)
		}
		sessionID = run.SessionID
	}
	for _, r := range up.Requests() {
		requests = append(requests, string(r.Body))
	}
	require.Len(t, requests, len(responses))
	return sessionID, requests
}

// A session continues after the agent's provider or model was changed, and after it was changed
// back. Each provider rejects what the real one rejects. It receives its own thinking, also after a
// restart of the runtime, but not that of another one.
func TestSessionsContinueWithAnotherProvider(t *testing.T) {
	list := vendors()
	for i := range list {
		t.Run(list[i].name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			require.NoError(t, os.MkdirAll(filepath.Join(dir, "cwd"), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "cwd", "a.txt"), []byte("hello"), 0o600))
			from := &list[i]
			id, first := from.chat(t, dir, "first", false)
			from.requireThoughts(t, first, nil)
			for j := range list {
				if i == j {
					continue
				}
				to := &list[j]
				next, requests := to.chat(t, dir, id, true)
				require.Equal(t, id, next)
				to.requireThoughts(t, requests, list)
			}
			_, again := from.chat(t, dir, id, false)
			from.requireThoughts(t, again, list)
			require.Equal(t, from.sendsThoughts(), strings.Contains(again[0], from.thought()), "of its first runs")
		})
	}
}

// A conversation is summarised in the middle of a turn with tool calls and thinking. The rest of
// the turn is accepted.
func TestSummariesInTheMiddleOfATurn(t *testing.T) {
	for _, v := range vendors() {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			think := []modeltest.Step{modeltest.Thinking(v.thought())}
			if v.protocol == modeltest.Anthropic {
				think = append(think, modeltest.Signature("sig-of-"+v.model))
			}
			used := func(n int64) modeltest.Step { return modeltest.Usage(model.Usage{InputTokens: n, OutputTokens: 5}) }
			second := []modeltest.Step{v.call(2, "Read", `{"file_path":"a.txt"}`), used(780)}
			if v.protocol != modeltest.Anthropic { // which thinks only at the start of a turn
				second = append(think, second...)
			}
			up := modeltest.Start(t, v.protocol,
				modeltest.Stream(append(think, v.call(1, "Read", `{"file_path":"a.txt"}`), used(300))...),
				modeltest.Stream(second...),
				modeltest.Stream(append(think, modeltest.Text("The summary."), used(800))...),
				modeltest.Stream(append(think, v.call(3, "Read", `{"file_path":"a.txt"}`), used(100))...),
				modeltest.Stream(append(think, modeltest.Text("Done."), used(100))...),
			)
			to, err := url.Parse(up.URL)
			require.NoError(t, err)
			b := serve(t, nil, func(c *runtime.Config) {
				require.NoError(t, os.WriteFile(filepath.Join(c.CWD, "a.txt"), []byte(strings.Repeat("hello ", 300)), 0o600))
				c.HTTPClient = &http.Client{Transport: rewrite{to}}
				c.Agents = []agent.Agent{{ID: "helper", Model: v.model, Provider: v.provider, Thinking: v.thinking, ContextWindow: 1000}}
			})
			t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
			res, run := b.blocking(t, `{"message":"Go on."}`)
			require.Equal(t, http.StatusOK, res.status, res.body)
			require.Equal(t, "Done.", run.Text)
			requests := up.Requests()
			require.Len(t, requests, 5)
			require.Contains(t, string(requests[3].Body), "The summary.")
			require.NotContains(t, string(requests[3].Body), fmt.Sprintf(v.id, 1)+`"`)
		})
	}
}
