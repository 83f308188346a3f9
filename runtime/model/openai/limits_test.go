package openai_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/openai"
)

func TestMaxTools(t *testing.T) {
	for _, row := range []struct {
		base, model string
		want        int
	}{
		{"", "gpt-4o", 128},
		{"https://eu.api.openai.com/v1", "ft:own", 128},
		{"https://x.openai.azure.com/openai/v1", "own-name", 128},
		{"https://x.cognitiveservices.azure.com/openai/deployments/m", "own-name", 128},
		{"https://api.groq.com/openai/v1", "openai/gpt-oss-120b", 128},
		{"https://api.x.ai/v1", "grok-4", 200},
		{"https://generativelanguage.googleapis.com/v1beta/openai", "gemini-3-pro", 512},
		{"https://openrouter.ai/api/v1", "openai/gpt-5:nitro", 128},
		{"https://openrouter.ai/api/v1", "openai/o4-mini", 128},
		{"https://openrouter.ai/api/v1", "openai/chatgpt-4o-latest", 128},
		{"https://openrouter.ai/api/v1", "openai/gpt-oss-20b", 0},
		{"https://openrouter.ai/api/v1", "anthropic/claude-sonnet-4.5", 0},
		{"http://127.0.0.1:8000/v1", "qwen3", 0},
		{"https://api.openai.com.example.com/v1", "m", 0},
	} {
		m, err := openai.New(openai.Config{BaseURL: row.base, APIKey: "key"})
		require.NoError(t, err)
		require.Equal(t, row.want, m.(model.ToolLimiter).MaxTools(row.model), "%s %s", row.base, row.model)
	}
}
