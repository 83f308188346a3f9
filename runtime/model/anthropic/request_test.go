package anthropic_test

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
	"github.com/seed93082962/agenthost/runtime/model/anthropic"
)

var update = flag.Bool("update", false, "write the goldens anew")

// sent returns the body of the request.
func sent(t *testing.T, cfg anthropic.Config, req *model.Request) []byte {
	var body []byte
	cfg.HTTPClient = &http.Client{Transport: upstreamFunc(func(r *http.Request) (*http.Response, error) {
		var err error
		body, err = io.ReadAll(r.Body)
		require.NoError(t, err)
		require.Equal(t, int64(len(body)), r.ContentLength)
		again, err := r.GetBody()
		require.NoError(t, err)
		repeated, err := io.ReadAll(again)
		require.NoError(t, err)
		require.Equal(t, body, repeated)
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

func user(blocks ...model.Block) model.Message {
	return model.Message{Role: model.RoleUser, Content: blocks}
}

func assistant(blocks ...model.Block) model.Message {
	return model.Message{Role: model.RoleAssistant, Content: blocks}
}

func TestRequestGoldens(t *testing.T) {
	warm := 0.7
	text := func(s string) model.Block { return model.Block{Type: model.BlockText, Text: s} }
	for name, row := range map[string]struct {
		cfg anthropic.Config
		req model.Request
	}{
		"minimal": {req: model.Request{
			Model: "claude-sonnet-4-5", System: " \n", Messages: []model.Message{model.UserText("Say <b>&</b>.")},
		}},
		"settings": {req: model.Request{
			MaxOutputTokens: 1000, Model: "claude-sonnet-4-5", System: "Be brief.", Temperature: &warm,
			Messages: []model.Message{model.UserText("Hello.")},
			Tools: []model.Tool{
				{Name: "Read", Description: "Reads.", InputSchema: []byte(`{"type":"object","properties":{"file_path":{"type":"string"}}}`)},
				{Name: "Now"},
			},
		}},
		// max_tokens has to exceed the budget, and temperature is rejected with it.
		"thinking": {req: model.Request{
			Model: "claude-sonnet-4-5", Temperature: &warm, MaxOutputTokens: 4000, Thinking: model.Thinking{BudgetTokens: 10000},
			Messages: []model.Message{model.UserText("Hello.")},
		}},
		"conversation": {req: model.Request{
			Model: "claude-sonnet-4-5", MaxOutputTokens: 64,
			Messages: []model.Message{
				model.UserText("First."),
				assistant(text("Done.")),
				model.UserText("Read a.txt and b.txt."),
				assistant(
					model.Block{Type: model.BlockThinking, Text: "Two files.", Signature: "c2ln"},
					model.Block{Type: model.BlockThinking, Text: "cut off, or another vendor's"},
					model.Block{Type: model.BlockThinking, Signature: "aGlkZGVu"},
					model.Block{Type: model.BlockRedacted, Data: "b3BhcXVl"},
					text(" \n"), text("Reading."),
					model.Block{Type: model.BlockToolUse, ID: "toolu_1", Name: "Read", Input: []byte(`{"file_path": "a.txt"}`)},
					model.Block{Type: model.BlockToolUse, ID: "functions.Read:1", Name: "Read", Input: []byte(`{}`), BadInput: `{"file`},
					model.Block{Type: model.BlockToolUse, ID: "toolu_3", Name: "Now"},
				),
				user(
					text("And then?"),
					model.Block{Type: model.BlockToolResult, ID: "toolu_1", Text: "hello"},
					model.Block{Type: model.BlockToolResult, ID: "functions.Read:1", Text: " ", IsError: true},
					model.Block{Type: model.BlockToolResult, ID: "toolu_3"},
				),
			},
		}},
		"dropped_message": {req: model.Request{
			Model: "claude-sonnet-4-5",
			Messages: []model.Message{
				model.UserText("Hello."), assistant(model.Block{Type: model.BlockThinking, Text: "cut off"}), model.UserText("Again."),
			},
		}},
	} {
		t.Run(name, func(t *testing.T) { golden(t, name, sent(t, row.cfg, &row.req)) })
	}
}

// TestPrefixIsStable verifies that, without its marks, a prompt begins with the bytes of the
// previous call's prompt, so that the cache can be used. The API accepts at most four marks.
func TestPrefixIsStable(t *testing.T) {
	req := model.Request{
		Model: "claude-sonnet-4-5", System: "Be brief.",
		Tools: []model.Tool{{Name: "Read"}, {Name: "Now"}}, Messages: []model.Message{model.UserText("Hello.")},
	}
	var before []byte
	for range 4 {
		body := sent(t, anthropic.Config{}, &req)
		const mark = `,"cache_control":{"type":"ephemeral"}`
		require.LessOrEqual(t, bytes.Count(body, []byte(mark)), 4)
		bare := bytes.ReplaceAll(body, []byte(mark), nil)
		require.True(t, bytes.HasPrefix(bare, bytes.TrimSuffix(before, []byte("]}"))))
		before = bare
		req.Messages = append(req.Messages,
			assistant(model.Block{Type: model.BlockToolUse, ID: "toolu_1", Name: "Read", Input: []byte(`{}`)}),
			user(model.Block{Type: model.BlockToolResult, ID: "toolu_1", Text: "hello"}))
	}
}
