package interop_test

import (
	"encoding/json"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/agent"
)

// TestOpenAIClient uses the official client of OpenAI: its helpers for streams, its tool runner, and
// its errors.
func TestOpenAIClient(t *testing.T) {
	url := serve(t, agent.Agent{})
	out, err := exec.CommandContext(t.Context(), "node", "openai.mjs", url+"/openai/v1", key).CombinedOutput()
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
