package modeltest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/toolschema"
	"github.com/seed93082962/agenthost/runtime/internal/collect"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/anthropic"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/model/openai"
)

var seventy = strings.Repeat("n", 70)

// schemas are input schemas of tools that servers offer, with the input that a model sends for the
// converted schema and the input that the tool gets.
var schemas = map[string]struct{ schema, sent, got string }{
	"a union at the top": {`{"type":"object","anyOf":[{"properties":{"content":{"type":"string"}},"required":["content"]},{"properties":{"url":{"type":"string"}},"required":["url"]}]}`,
		`{"url":"x"}`, `{"url":"x"}`},
	"a union without a type":  {`{"oneOf":[{"type":"object","properties":{"a":{}}}]}`, `{"a":1}`, `{"a":1}`},
	"a property $filter":      {`{"type":"object","properties":{"$filter":{"type":"string"}},"required":["$filter"]}`, `{"_filter":"a < 1"}`, `{"$filter":"a < 1"}`},
	"a property with a space": {`{"type":"object","properties":{"Account Number":{}}}`, `{"Account_Number":12345678901234567890}`, `{"Account Number":12345678901234567890}`},
	"a long property":         {`{"type":"object","properties":{"` + seventy + `":{}}}`, `{"` + seventy[:64] + `":[1]}`, `{"` + seventy + `":[1]}`},
	"an array without items":  {`{"type":"object","properties":{"a":{"type":"object","properties":{"b":{"type":"array"}}}}}`, `{"a":{"b":[1]}}`, `{"a":{"b":[1]}}`},
	"a tuple of draft 7":      {`{"type":"object","properties":{"a":{"type":"array","items":[{"type":"string"}]}}}`, `{"a":["x"]}`, `{"a":["x"]}`},
	"an unknown type":         {`{"type":"object","properties":{"a":{"type":"any"}}}`, `{"a":1}`, `{"a":1}`},
	"draft 4":                 {`{"type":"object","properties":{"a":{"type":"number","minimum":0,"exclusiveMinimum":true,"required":true}}}`, `{"a":1}`, `{"a":1}`},
	"no properties":           {`{"type":"object"}`, `{}`, `{}`},
	"no schema":               {``, ``, `{}`},
}

// One tool whose schema a vendor rejects must not fail the requests of an agent: the upstreams
// reject what the vendors reject.
func TestSchemasOfTools(t *testing.T) {
	for _, protocol := range []modeltest.Protocol{modeltest.Anthropic, modeltest.OpenAI, modeltest.Mistral} {
		for name, row := range schemas {
			t.Run(string(protocol)+" "+name, func(t *testing.T) {
				half := len(row.sent) / 2
				up := modeltest.Start(t, protocol, modeltest.Stream(modeltest.Text("I will."),
					modeltest.ToolCall("call00001", "Other", `{"_filter":1}`), modeltest.ToolCall("call00002", "Tool", row.sent[:half], row.sent[half:])))
				m := client(t, protocol, up.URL)
				req := &model.Request{Model: "m", Messages: []model.Message{model.UserText("Go.")}, Tools: []model.Tool{
					{Name: "NotAnObject", InputSchema: json.RawMessage(`{"type":"array","items":{}}`)},
					{Name: "Other", InputSchema: json.RawMessage(`{"type":"object","properties":{}}`)},
					{Name: "Tool", InputSchema: json.RawMessage(row.schema)},
				}}
				held := 0
				req.Reserve = func(n int) error { held += n; return nil }
				response, err := new(collect.Collector).Collect(m.Stream(t.Context(), req))
				require.NoError(t, err)
				require.Zero(t, held)
				calls := response.Message.ToolUses()
				require.Len(t, calls, 2)
				require.Equal(t, `{"_filter":1}`, string(calls[0].Input), "another tool")
				require.Equal(t, row.got, string(calls[1].Input))
				sent := string(up.Requests()[0].Body)
				require.NotContains(t, sent, "NotAnObject")
				require.Contains(t, sent, `"Other"`)
			})
		}
		t.Run(string(protocol)+" no tool that can be offered", func(t *testing.T) {
			up := modeltest.Start(t, protocol, modeltest.Stream(modeltest.Text("Yes.")))
			_, err := new(collect.Collector).Collect(client(t, protocol, up.URL).Stream(t.Context(), &model.Request{Model: "m",
				Messages: []model.Message{model.UserText("Go.")}, Tools: []model.Tool{{Name: "T", InputSchema: json.RawMessage(`{"type":"string"}`)}}}))
			require.NoError(t, err)
			require.NotContains(t, string(up.Requests()[0].Body), `"tools"`)
		})
	}
}

// A gateway puts a signature into the id of a call and requires it back unchanged.
func TestLongIDs(t *testing.T) {
	for _, protocol := range []modeltest.Protocol{modeltest.OpenRouter, modeltest.Ollama, modeltest.DeepSeekMessages} {
		t.Run(string(protocol), func(t *testing.T) {
			id := "call|" + strings.Repeat("CsQB+/=", 9_000) + "=="
			up := modeltest.Start(t, protocol,
				modeltest.Stream(modeltest.Thinking("Hm."), modeltest.ToolCall(id, "Read", `{}`)), modeltest.Stream(modeltest.Text("Done.")))
			m := client(t, protocol, up.URL)
			req := &model.Request{Model: "m", Messages: []model.Message{model.UserText("Go.")}, Tools: []model.Tool{{Name: "Read"}}}
			response, err := new(collect.Collector).Collect(m.Stream(t.Context(), req))
			require.NoError(t, err)
			req.Messages = append(req.Messages, stored(t, response.Message), results(response.Message.ToolUses()))
			_, err = new(collect.Collector).Collect(m.Stream(t.Context(), req))
			require.NoError(t, err)
			require.Equal(t, 2, strings.Count(string(up.Requests()[1].Body), `"`+id+`"`))
		})
	}
}

// Images of results are sent where each server accepts them: next to the text of the result, or in
// a message of the user after all results.
func TestImages(t *testing.T) {
	var picture bytes.Buffer
	require.NoError(t, png.Encode(&picture, image.NewGray(image.Rect(0, 0, 1, 1))))
	shot := model.Image{MediaType: "image/png", Data: picture.Bytes()}
	for protocol, want := range map[modeltest.Protocol]string{
		modeltest.Anthropic: `"type":"image","source":`, modeltest.OpenAI: `"type":"image_url"`, modeltest.Mistral: `"type":"image_url"`, modeltest.Ollama: `"type":"image_url"`,
	} {
		t.Run(string(protocol), func(t *testing.T) {
			up := modeltest.Start(t, protocol, modeltest.Stream(modeltest.Text("Two.")))
			calls := model.Message{Role: model.RoleAssistant}
			shots := model.Message{Role: model.RoleUser}
			for _, id := range []string{"call00001", "call00002", "call00003"} {
				calls.Content = append(calls.Content, model.Block{Type: model.BlockToolUse, ID: id, Name: "Look", Input: json.RawMessage("{}")})
				shots.Content = append(shots.Content, model.Block{Type: model.BlockToolResult, ID: id, Text: "[image]", Images: []model.Image{shot}})
			}
			shots.Content[1].Images = nil
			last := model.Message{Role: model.RoleUser, Content: append(slices.Clone(shots.Content), model.Block{Type: model.BlockText, Text: "And now?"})}
			again := model.Message{Role: model.RoleAssistant, Content: slices.Clone(calls.Content)}
			for i := range again.Content {
				again.Content[i].ID = fmt.Sprintf("call0001%d", i)
				last.Content[i].ID = again.Content[i].ID
			}
			_, err := new(collect.Collector).Collect(client(t, protocol, up.URL).Stream(t.Context(), &model.Request{Model: "m", Tools: []model.Tool{{Name: "Look"}},
				Messages: []model.Message{model.UserText("Look."), calls, shots, again, last}}))
			require.NoError(t, err)
			body := string(up.Requests()[0].Body)
			require.Equal(t, 4, strings.Count(body, want))
			require.Equal(t, 6, strings.Count(body, "[image]"))
			require.Contains(t, body, "And now?")
		})
	}
}

func TestLongDescription(t *testing.T) {
	up := modeltest.Start(t, modeltest.Azure, modeltest.Stream(modeltest.Text("Yes.")))
	address, err := url.Parse(up.URL)
	require.NoError(t, err)
	cfg := azure
	cfg.BaseURL = "https://team.openai.azure.com/openai/v1"
	cfg.APIKey = "key-of-the-test"
	cfg.HTTPClient = &http.Client{Transport: elsewhere{address.Host}}
	m, err := openai.New(cfg)
	require.NoError(t, err)
	_, err = new(collect.Collector).Collect(m.Stream(t.Context(), &model.Request{Model: "m", Messages: []model.Message{model.UserText("Go.")},
		Tools: []model.Tool{{Name: "T", Description: strings.Repeat("名", 1025)}}}))
	require.NoError(t, err)
}

func client(t *testing.T, protocol modeltest.Protocol, base string) model.Model {
	t.Helper()
	var m model.Model
	var err error
	if protocol == modeltest.Anthropic || protocol == modeltest.DeepSeekMessages {
		m, err = anthropic.New(anthropic.Config{BaseURL: base, APIKey: "key-of-the-test"})
	} else {
		m, err = openai.New(openai.Config{BaseURL: base, APIKey: "key-of-the-test", NoStreamUsage: true})
	}
	require.NoError(t, err)
	return m
}

// An input that is held back counts as memory of the response, and is part of it only when the
// response is complete.
func TestHeldInputs(t *testing.T) {
	tools := []model.Tool{{Name: "Tool", InputSchema: json.RawMessage(`{"type":"object","properties":{"$a":{}}}`)}}
	full := errors.New("no memory")
	for name, row := range map[string]struct {
		steps []modeltest.Step
		limit int
		want  error
	}{
		"cut off":   {[]modeltest.Step{modeltest.ToolCall("c1", "Tool", `{"_a":1}`), modeltest.Cut()}, 1 << 20, io.ErrUnexpectedEOF},
		"no memory": {[]modeltest.Step{modeltest.ToolCall("c1", "Tool", `{"_a":"`+strings.Repeat("x", 50_000)+`"}`)}, 100_000, full},
	} {
		t.Run(name, func(t *testing.T) {
			up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(row.steps...))
			held := 0
			response, err := new(collect.Collector).Collect(client(t, modeltest.Anthropic, up.URL).Stream(t.Context(), &model.Request{Model: "m", Tools: tools,
				Messages: []model.Message{model.UserText("Go.")}, Reserve: func(n int) error {
					if held+n > row.limit {
						return full
					}
					held += n
					return nil
				}}))
			require.ErrorIs(t, err, row.want)
			require.Empty(t, response.Message.ToolUses())
			require.Zero(t, held)
		})
	}
}

// The upstreams reject the schemas that the vendors reject, with their texts.
func TestSchemasAreRejected(t *testing.T) {
	for _, row := range []struct{ schema, anthropic, openai string }{
		{`{"type":"array"}`, "Input should be 'object'", "type: "},
		{`{"properties":{}}`, "Input should be 'object'", "type: "},
		{`{"type":"object","properties":{},"anyOf":[{}]}`, "does not support oneOf, allOf, or anyOf", "and not have 'oneOf'/'anyOf'"},
		{`{"type":"object","properties":{},"not":{}}`, "", "and not have 'oneOf'/'anyOf'"},
		{`{"type":"object","properties":{"$filter":{}}}`, "Property keys should match pattern", ""},
		{`{"type":"object","properties":{"` + seventy + `":{}}}`, "Property keys should match pattern", ""},
		{`{"type":"object","properties":{"a":{"properties":{"$b":{}}}}}`, "", ""},
		{`{"type":"object"}`, "", "object schema missing properties"},
		{`{"type":"object","properties":{"a":{"anyOf":[{"type":"array"}]}}}`, "", "array schema missing items"},
		{`{"type":"object","properties":{"a":{"type":"array","items":[]}}}`, "draft 2020-12", "is not of type 'object', 'boolean'"},
		{`{"type":"object","properties":{"a":{"type":"any"}}}`, "draft 2020-12", "any is not valid"},
		{`{"type":"object","properties":{"a":{"required":true}}}`, "draft 2020-12", "true is not valid"},
		{`{"type":"object","properties":{"a":{"type":"array","items":{"$ref":"#/properties/a"}},"b":true}}`, "", ""},
	} {
		for protocol, want := range map[modeltest.Protocol]string{modeltest.Anthropic: row.anthropic, modeltest.OpenAI: row.openai} {
			tool := `{"name":"T","input_schema":` + row.schema + `}`
			path := "/v1/messages"
			if protocol == modeltest.OpenAI {
				tool = `{"type":"function","function":{"name":"T","parameters":` + row.schema + `}}`
				path = "/v1/chat/completions"
			}
			w := postTo(t, protocol, path, `{"model":"m","max_tokens":10,"stream":true,"messages":[{"role":"user","content":"x"}],"tools":[`+tool+`]}`)
			if want == "" {
				require.Equal(t, 200, w.Code, "%s: %s", row.schema, w.Body)
				continue
			}
			require.Equal(t, 400, w.Code, row.schema)
			require.Contains(t, w.Body.String(), want, row.schema)
		}
	}
}

// Generated schemas, valid or not, are accepted by both vendors after their conversion.
func TestConvertedSchemasAreAccepted(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2)) // the same schemas each time
	keywords := []string{"type", "properties", "required", "items", "anyOf", "oneOf", "allOf", "not", "enum", "const", "$ref", "$defs", "minimum",
		"exclusiveMinimum", "minLength", "pattern", "description", "additionalProperties", "prefixItems", "additionalItems", "patternProperties", "x-own"}
	names := []string{"a", "b", "$c", "d e", "", seventy, "名"}
	scalars := []any{nil, true, false, 0, 1, -1, 1.5, "", "a", "object", "array", "string", "any", "#", "#/$defs/a", "#/properties/$c", "#/x", "https://x/y", "$c"}
	var value func(depth int) any
	schema := func(depth int) map[string]any {
		s := map[string]any{}
		for range r.IntN(5) {
			keyword := keywords[r.IntN(len(keywords))]
			switch s[keyword] = value(depth); keyword {
			case "type":
				if r.IntN(3) > 0 {
					s[keyword] = []any{"object", "array", []any{"object", "null"}, []any{"array"}}[r.IntN(4)]
				}
			case "$ref":
				if r.IntN(3) > 0 {
					s[keyword] = []any{"#", "#/$defs/a", "#/properties/$c", "#/properties/a/items/0"}[r.IntN(4)]
				}
			}
		}
		return s
	}
	value = func(depth int) any {
		switch n := r.IntN(6); {
		case depth == 0 || n < 2:
			return scalars[r.IntN(len(scalars))]
		case n == 2:
			list := make([]any, r.IntN(3))
			for i := range list {
				list[i] = value(depth - 1)
			}
			return list
		case n == 3:
			m := map[string]any{}
			for range r.IntN(4) {
				m[names[r.IntN(len(names))]] = value(depth - 1)
			}
			return m
		}
		return schema(depth - 1)
	}
	converted := 0
	for range 1_500 {
		text, err := json.Marshal(schema(5))
		require.NoError(t, err)
		fitted, err := toolschema.Fit(text)
		if err != nil {
			continue
		}
		converted++
		again, err := toolschema.Fit(text)
		require.NoError(t, err)
		require.Equal(t, string(fitted.JSON), string(again.JSON), "the order of keys does not matter: %s", text)
		for protocol, form := range map[modeltest.Protocol][2]string{
			modeltest.Anthropic: {"/v1/messages", `{"name":"T","input_schema":%s}`},
			modeltest.OpenAI:    {"/v1/chat/completions", `{"type":"function","function":{"name":"T","parameters":%s}}`},
		} {
			w := postTo(t, protocol, form[0], `{"model":"m","max_tokens":10,"stream":true,"messages":[{"role":"user","content":"x"}],"tools":[`+
				fmt.Sprintf(form[1], fitted.JSON)+`]}`)
			require.Equal(t, 200, w.Code, "%s -> %s: %s", text, fitted.JSON, w.Body)
		}
	}
	require.Greater(t, converted, 500)
}
