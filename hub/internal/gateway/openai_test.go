package gateway_test

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/protocol/openai"
)

// Clients of OpenAI send the key of the deployment as a bearer token. Their runs count before they
// have the last bytes, and have the budget of the agent.
func TestRunsOfOpenAIAtTheRuntime(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		up := modeltest.Start(t, modeltest.Anthropic,
			modeltest.Repeat(modeltest.Stream(modeltest.Usage(model.Usage{InputTokens: 10, OutputTokens: 5}), modeltest.Text("Well."))))
		rt, err := runtime.New(t.Context(), runtime.Config{
			Agents:  []agent.Agent{{ID: "a", Model: "m", Provider: agent.Provider{Protocol: agent.ProtocolAnthropic, BaseURL: agent.Secret(up.URL), APIKey: "key"}}},
			APIKeys: []string{apiKey}, CWD: t.TempDir(),
			Protocols: map[string]func(*runtime.Runtime) http.Handler{"/openai/v1": func(rt *runtime.Runtime) http.Handler {
				return openai.New(openai.Config{Host: rt, Logger: slog.New(slog.DiscardHandler)})
			}},
		})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, rt.Close()) })
		s, counts := counting(t, url, rt)
		anyone := s.As("", "", "")
		key := []string{"Authorization", "Bearer " + apiKey}
		require.Contains(t, anyone.Do(http.MethodGet, "/runtime/a/openai/v1/models", nil, key...).Text, `"id":"a"`)
		require.Equal(t, "invalid_api_key", anyone.Get("/runtime/a/openai/v1/models").Want(http.StatusUnauthorized)["error"].(map[string]any)["code"])
		anyone.Do(http.MethodGet, "/runtime/a/openai/v1/models", nil, "Authorization", "Bearer no").Want(http.StatusUnauthorized)
		anyone.Do(http.MethodGet, "/runtime/a/v1/agents", nil, key...).Want(http.StatusUnauthorized)

		for _, upgrade := range []string{"", "websocket"} {
			socket := anyone.Do(http.MethodGet, "/runtime/a/openai/v1/responses", nil, append(key, "Connection", "Upgrade", "Upgrade", upgrade)...)
			require.Contains(t, socket.Want(http.StatusBadRequest)["error"].(map[string]any)["message"], "use /openai/v1/responses of the hub")
			anyone.Do(http.MethodGet, "/runtime/a/openai/v1/responses", nil, "Connection", "Upgrade", "Upgrade", upgrade).Want(http.StatusUnauthorized)
		}

		chat := map[string]any{"model": "a", "messages": []any{map[string]any{"role": "user", "content": "hello"}}}
		response := map[string]any{"model": "a", "input": "hello"}
		for n, request := range []struct {
			path   string
			body   map[string]any
			stream bool
		}{{"chat/completions", chat, false}, {"chat/completions", chat, true}, {"responses", response, false}, {"responses", response, true}} {
			request.body["stream"] = request.stream
			res := anyone.Do(http.MethodPost, "/runtime/a/openai/v1/"+request.path, request.body, key...)
			require.Equal(t, http.StatusOK, res.Status, res.Text)
			require.Contains(t, res.Text, "Well.")
			require.Equal(t, request.stream, strings.HasSuffix(res.Text, "data: [DONE]\n\n"))
			require.EqualValues(t, n+1, counted(t, counts)[0].Runs, "%s %v", request.path, request.stream)
		}
		require.EqualValues(t, 40, counted(t, counts)[0].InputTokens)

		limit(t, counts, 60, 15)
		for _, path := range []string{"chat/completions", "responses"} {
			refused := anyone.Do(http.MethodPost, "/runtime/a/openai/v1/"+path, chat, key...).Want(http.StatusTooManyRequests)
			require.Equal(t, "rate_limit_error", refused["error"].(map[string]any)["type"])
			require.Equal(t, "rate_limit_exceeded", refused["error"].(map[string]any)["code"])
		}
		require.EqualValues(t, 4, counted(t, counts)[0].Runs)
	}, series...)
}
