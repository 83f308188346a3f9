package main_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Clients of OpenAI send the key of the runtime as Authorization: Bearer, only to their own routes.
func TestClientsOfOpenAI(t *testing.T) {
	t.Chdir(write(t, demo))
	in := serving(t, []string{"AGENT_HTTP_API_KEY", "planted"})
	client := caller(t)
	send := func(path, header, value string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, in.URL+path,
			strings.NewReader(`{"model":"from-file","messages":[{"role":"user","content":"hello"}]}`))
		require.NoError(t, err)
		req.Header.Set(header, value)
		res, err := client.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return res.StatusCode, string(body)
	}
	for _, header := range [][2]string{{"Authorization", "Bearer planted"}, {"X-Api-Key", "planted"}} {
		status, body := send("/openai/v1/chat/completions", header[0], header[1])
		require.Equal(t, http.StatusOK, status, body)
		var completion struct {
			Choices []struct{ Message struct{ Content string } }
		}
		require.NoError(t, json.Unmarshal([]byte(body), &completion))
		require.Contains(t, completion.Choices[0].Message.Content, "hello")
	}
	status, body := send("/openai/v1/chat/completions", "Authorization", "Bearer other")
	require.Equal(t, http.StatusUnauthorized, status)
	require.Contains(t, body, `"invalid_api_key"`)
	status, _ = send("/v1/agents/from-file/runs", "Authorization", "Bearer planted")
	require.Equal(t, http.StatusUnauthorized, status)
}
