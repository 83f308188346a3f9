package openai_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/internal/collect"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/openai"
)

var update = flag.Bool("update", false, "write the goldens anew")

// sent returns the body of the request.
func sent(t *testing.T, cfg openai.Config, req *model.Request) []byte {
	var body []byte
	cfg.HTTPClient = &http.Client{Transport: upstreamFunc(func(r *http.Request) (*http.Response, error) {
		var err error
		body, err = io.ReadAll(r.Body)
		require.NoError(t, err)
		require.Equal(t, int64(len(body)), r.ContentLength)
		return nil, errors.New("no network here")
	})}
	_, err := new(collect.Collector).Collect(client(t, cfg).Stream(t.Context(), req))
	require.Error(t, err)
	return body
}

func golden(t *testing.T, name string, body []byte) {
	t.Helper()
	path := filepath.Join("testdata", name+".json")
	if *update {
		var out bytes.Buffer
		require.NoError(t, json.Indent(&out, body, "", "  "))
		require.NoError(t, os.WriteFile(path, append(out.Bytes(), '\n'), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.JSONEq(t, string(want), string(body))
}

func TestRequestGoldens(t *testing.T) {
	warm := 0.7
	text := func(s string) model.Block { return model.Block{Type: model.BlockText, Text: s} }
	for name, row := range map[string]struct {
		cfg openai.Config
		req model.Request
	}{
		"minimal": {req: model.Request{
			Model: "gpt-4.1", System: " \n", Messages: []model.Message{model.UserText("Say <b>&</b>.")},
		}},
		"settings": {cfg: openai.Config{BaseURL: "http://localhost:8000/v1"}, req: model.Request{
			MaxOutputTokens: 1000, Model: "qwen3", System: "Be brief.", Temperature: &warm, Thinking: model.Thinking{BudgetTokens: 5000},
			Messages: []model.Message{model.UserText("Hello.")},
			Tools: []model.Tool{
				{Name: "Read", Description: "Reads.", InputSchema: []byte(`{"type":"object","properties":{"file_path":{"type":"string"}}}`)},
				{Name: "Now"},
			},
		}},
		"conversation": {req: model.Request{
			Model: "gpt-4.1", MaxOutputTokens: 64,
			Messages: []model.Message{
				{Role: model.RoleUser, Content: []model.Block{text("Read a.txt and b.txt."), text(" "), text("Now.")}},
				{Role: model.RoleAssistant, Content: []model.Block{
					{Type: model.BlockThinking, Text: "Two files.", Signature: "c2ln"}, {Type: model.BlockRedacted, Data: "b3BhcXVl"},
					text("Reading."),
					{Type: model.BlockToolUse, ID: "call_1", Name: "Read", Input: []byte(`{"file_path":"a.txt"}`)},
					{Type: model.BlockToolUse, ID: "call_2", Name: "Read", Input: []byte(`{}`), BadInput: `{"file`},
				}},
				{Role: model.RoleUser, Content: []model.Block{
					text("And then?"),
					{Type: model.BlockToolResult, ID: "call_1"},
					{Type: model.BlockToolResult, ID: "call_2", Text: "no such file", IsError: true},
				}},
				{Role: model.RoleAssistant, Content: []model.Block{{Type: model.BlockToolUse, ID: "call_3", Name: "Now"}}},
				{Role: model.RoleUser, Content: []model.Block{
					{Type: model.BlockToolResult, ID: "call_3", Text: "error: no clock", IsError: true},
				}},
				{Role: model.RoleAssistant, Content: []model.Block{{Type: model.BlockThinking, Text: "cut off"}}},
			},
		}},
	} {
		t.Run(name, func(t *testing.T) { golden(t, name, sent(t, row.cfg, &row.req)) })
	}
}

func TestNameOfTheOutputLimit(t *testing.T) {
	const older, newer = "max_tokens", "max_completion_tokens"
	for name, row := range map[string]struct{ base, model, want string }{
		"OpenAI":                     {"", "gpt-4.1", newer},
		"Azure":                      {"https://x.openai.azure.com/openai/v1", "any", newer},
		"regional":                   {"https://eu.api.openai.com/v1", "gpt-4.1", newer},
		"server of one's own":        {"http://localhost:8000/v1", "qwen3", older},
		"reasoning model elsewhere":  {"http://localhost:4000/v1", "o4-mini", newer},
		"gateway with vendor's name": {"https://gateway.example.com/v1", "openai/gpt-5-mini", newer},
		"open weights":               {"https://gateway.example.com/v1", "openai/gpt-oss-120b", older},
		"older model elsewhere":      {"https://gateway.example.com/v1", "gpt-4o", older},
		"a name in o":                {"https://gateway.example.com/v1", "olmo-2", older},
		"a host that looks alike":    {"https://api.openai.com.example.com/v1", "m", older},
	} {
		t.Run(name, func(t *testing.T) {
			body := sent(t, openai.Config{BaseURL: row.base}, &model.Request{Model: row.model, MaxOutputTokens: 77})
			var got map[string]any
			require.NoError(t, json.Unmarshal(body, &got))
			require.Equal(t, 77.0, got[row.want])
			require.Equal(t, row.want == older, got[older] != nil)
			require.Equal(t, row.want == newer, got[newer] != nil)
		})
	}
}
