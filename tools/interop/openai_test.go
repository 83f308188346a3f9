package interop_test

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/agent"
)

// TestOpenAIClient uses the official client of OpenAI: its helpers for streams, its tool runner,
// and its errors.
func TestOpenAIClient(t *testing.T) { useOpenAI(t, serve(t, agent.Agent{})+"/openai/v1", key) }

// TestOpenAIClientOfPrograms uses the programs: the runtime with its key, and a hub with a CLI
// token, and with the key of a deployment below /runtime.
func TestOpenAIClientOfPrograms(t *testing.T) {
	const agents = "/api/v1/admin/agents"
	h := openHub(t)
	h.send(t, http.StatusCreated, "POST", agents, `{"name":"bot","providerId":"demo","model":"demo"}`, nil)
	h.send(t, http.StatusAccepted, "POST", agents+"/bot/deploy", "", nil)
	require.Eventually(t, func() bool { return h.deployment(t, "bot").State == "running" }, patience, 20*time.Millisecond)
	var issued struct{ Token string }
	h.send(t, http.StatusCreated, "POST", "/api/v1/cli/issue-token", `{"name":"interop"}`, &issued)
	for name, at := range map[string][2]string{
		"runtime": {openRuntime(t), key}, "hub": {h.url, issued.Token}, "deployment": {h.url + "/runtime/bot", h.deployment(t, "bot").Key},
	} {
		t.Run(name, func(t *testing.T) {
			useOpenAI(t, at[0]+"/openai/v1", at[1])
			useFramework(t, "openai_ai.mjs", at[0]+"/openai/v1", at[1], "responses", "chat", "compatible")
		})
	}
}

// openRuntime starts the binary of the runtime, and returns its address.
func openRuntime(t *testing.T) string {
	t.Helper()
	path, err := build("runtime", "./cmd/runtime")
	require.NoError(t, err)
	dir, address := t.TempDir(), "127.0.0.1:"+freePort(t)
	const config = "agents: [{id: bot, model: demo, provider: {protocol: demo}, permissionMode: bypassPermissions}]\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "agents.yaml"), []byte(config), 0o600))
	start(t, dir, []string{"AGENT_HTTP_ADDR=" + address, "AGENT_HTTP_API_KEY=" + key, "AGENT_STATE_DIR=" + t.TempDir()}, path)
	awaitHTTP(t, "http://"+address+"/health")
	return "http://" + address
}

// useOpenAI uses the client with the agent bot, whose model is the demo model.
func useOpenAI(t *testing.T, url, key string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "node", "openai.mjs", url, key).CombinedOutput()
	require.NoError(t, err, "%s", out)
	var got struct {
		Models                         []string
		Chat, ChatStream, ToolRunner   string
		ChatDeltas, ChatUsage          int
		Called                         []map[string]string
		Response, Retrieved            string
		ResponseStream, ResponseDeltas string
		FunctionCall, FunctionAnswer   string
		Errors                         []string

		ParsedChat, ParsedStream, ParsedResponse map[string]any
	}
	require.NoError(t, json.Unmarshal(out, &got), "%s", out)
	require.Equal(t, []string{"bot"}, got.Models)
	require.Contains(t, got.Chat, "Hello, café 😀")
	require.Equal(t, got.Chat, got.ChatStream)
	require.Greater(t, got.ChatDeltas, 1)
	require.Positive(t, got.ChatUsage)
	require.Equal(t, []map[string]string{{"city": "Paris"}}, got.Called)
	require.Contains(t, got.ToolRunner, "it rains")
	require.Contains(t, got.Response, "My name is Ada.")
	require.Equal(t, got.Response, got.Retrieved)
	require.Contains(t, got.ResponseStream, "And now?")
	require.Equal(t, got.ResponseStream, got.ResponseDeltas)
	require.JSONEq(t, `{"city":"Rome"}`, got.FunctionCall)
	require.Contains(t, got.FunctionAnswer, "it is sunny")
	for _, parsed := range []map[string]any{got.ParsedChat, got.ParsedStream, got.ParsedResponse} {
		require.Equal(t, map[string]any{"city": "Oslo", "degrees": -3.0}, parsed)
	}
	require.Equal(t, []string{
		"NotFoundError 404 response_not_found", "NotFoundError 404 model_not_found",
		"BadRequestError 400 unsupported_parameter", "InternalServerError 502 output_invalid", "AuthenticationError 401 invalid_api_key",
	}, got.Errors)
}
