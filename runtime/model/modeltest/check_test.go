package modeltest_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/png"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

func answered(t *testing.T, p modeltest.Protocol, r *http.Request, status int, message string) {
	up := modeltest.New(p, modeltest.Stream(modeltest.Text("x")))
	w := httptest.NewRecorder()
	up.ServeHTTP(w, r)
	require.Equal(t, status, w.Code, w.Body)
	require.Contains(t, strings.ReplaceAll(w.Body.String(), `\"`, `'`), message)
}

func TestEndpoint(t *testing.T) {
	for _, p := range protocols {
		base := map[modeltest.Protocol]string{modeltest.OpenAI: "/v1"}[p]
		for _, c := range []struct {
			name    string
			change  func(*http.Request)
			status  int
			message string
		}{
			{"as it should be", func(*http.Request) {}, 200, "x"},
			{"another query", func(r *http.Request) { r.URL.RawQuery = "beta=true" }, 200, "x"},
			{"path", func(r *http.Request) { r.URL.Path = "/v1" + r.URL.Path }, 404, ""},
			{"method", func(r *http.Request) { r.Method = http.MethodPut }, 405, "Method Not Allowed"},
			{"content type", func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, 400, "Content-Type"},
		} {
			t.Run(string(p)+" "+c.name, func(t *testing.T) {
				r := request(t.Context(), t, p, base, valid(p))
				c.change(r)
				answered(t, p, r, c.status, c.message)
			})
		}
	}
	r := request(t.Context(), t, modeltest.Anthropic, "", anthropicBody)
	r.Header.Del("Anthropic-Version")
	answered(t, modeltest.Anthropic, r, 400, "anthropic-version: header is required")
}

type checkCase struct{ name, body, message string } // message "" for a valid body

func runChecks(t *testing.T, p modeltest.Protocol, base, head string, cases []checkCase) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			body := c.body
			if body[0] == '[' {
				body = head + `,"messages":` + body + `}`
			}
			status := http.StatusBadRequest
			if c.message == "" {
				status = http.StatusOK
			}
			answered(t, p, request(t.Context(), t, p, base, body), status, c.message)
		})
	}
}

func picture(t *testing.T, width, height int) []byte {
	t.Helper()
	var data bytes.Buffer
	require.NoError(t, png.Encode(&data, image.NewGray(image.Rect(0, 0, width, height))))
	return data.Bytes()
}

func TestAnthropicChecks(t *testing.T) {
	const (
		head    = `{"model":"m","max_tokens":100,"stream":true`
		hi      = `{"role":"user","content":"hi"}`
		use     = `{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"Read","input":{}}]}`
		useText = `{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"s"},{"type":"text","text":"t"},{"type":"tool_use","id":"a","name":"Read","input":{}},{"type":"tool_use","id":"b","name":"Read","input":{}}]}`
		resultA = `{"type":"tool_result","tool_use_id":"a","content":""}`
		resultB = `{"type":"tool_result","tool_use_id":"b","content":[{"type":"text","text":"r"}],"is_error":true}`
		cached  = `{"type":"text","text":"t","cache_control":{"type":"ephemeral"}}`
		tail    = `,"messages":[` + hi + `]}`
		thinks  = `{"model":"m","max_tokens":5000,"stream":true,"thinking":{"type":"enabled","budget_tokens":2000}`
	)
	views := func(n int, data []byte, mediaType, rest string) string {
		view := fmt.Sprintf(`{"type":"image","source":{"type":"base64","media_type":%q,"data":%q}}`, mediaType, base64.StdEncoding.EncodeToString(data))
		return fmt.Sprintf(`[%s,%s,{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[%s]%s}]}]`,
			hi, use, view+strings.Repeat(","+view, n-1), rest)
	}
	viewed := func(data []byte, mediaType, rest string) string { return views(1, data, mediaType, rest) }
	runChecks(t, modeltest.Anthropic, "", head, []checkCase{
		{"tool call and results", `[` + hi + `,` + useText + `,{"role":"user","content":[` + resultB + `,` + resultA + `,{"type":"text","text":"and"}]}]`, ""},
		{"system, tools, thinking", `{"model":"m","max_tokens":10000,"stream":true,"system":[` + cached + `],"thinking":{"type":"enabled","budget_tokens":1024},"temperature":1,` +
			`"tools":[{"name":"Read","description":"d","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"}}]` + tail, ""},
		{"no model", `{"max_tokens":1,"stream":true` + tail, "model: Field required"},
		{"no max_tokens", `{"model":"m","stream":true` + tail, "max_tokens"},
		{"no stream", `{"model":"m","max_tokens":1` + tail, "stream"},
		{"unknown field", head + `,"bad_input":1` + tail, "Extra inputs are not permitted"},
		{"temperature", head + `,"temperature":1.5` + tail, "temperature: range: 0..1"},
		{"small budget", head + `,"thinking":{"type":"enabled","budget_tokens":10}` + tail, "greater than or equal to 1024"},
		{"budget over max_tokens", head + `,"thinking":{"type":"enabled","budget_tokens":2000}` + tail, "`max_tokens` must be greater"},
		{"thinking with temperature", `{"model":"m","max_tokens":5000,"stream":true,"temperature":0.5,"thinking":{"type":"enabled","budget_tokens":2000}` + tail, "may only be set to 1"},
		{"thinking, good", `{"model":"m","max_tokens":5000,"stream":true,"thinking":{"type":"enabled","budget_tokens":2000}` + tail, ""},
		{"thinking, after a summary", thinks + `,"messages":[` + hi + `,` + use + `,{"role":"user","content":[` + resultA + `]}]}`,
			"a final `assistant` message must start with a thinking block"},
		{"thinking, at the start of the turn only", thinks + `,"messages":[` + hi + `,` + useText + `,{"role":"user","content":[` + resultB + `,` + resultA + `]},` +
			strings.Replace(use, `"a"`, `"c"`, 1) + `,{"role":"user","content":[` + strings.Replace(resultA, `"a"`, `"c"`, 1) + `]}]}`, ""},
		{"thinking, earlier turns without it", thinks + `,"messages":[` + hi + `,` + use + `,{"role":"user","content":[` + resultA + `]},` +
			`{"role":"assistant","content":"t"},` + hi + `]}`, ""},
		{"thinking last", `[` + hi + `,{"role":"assistant","content":[{"type":"text","text":"t"},{"type":"thinking","thinking":"x","signature":"s"}]},` + hi + `]`,
			"The final block in an assistant message cannot be"},
		{"adaptive", head + `,"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"low"}` + tail, ""},
		{"adaptive with a budget", head + `,"thinking":{"type":"adaptive","budget_tokens":2000}` + tail, "budget_tokens: Extra inputs"},
		{"adaptive with temperature", head + `,"thinking":{"type":"adaptive"},"temperature":0.5` + tail, "may only be set to 1"},
		{"unknown thinking", head + `,"thinking":{"type":"auto"}` + tail, "does not match any of the expected tags"},
		{"unknown effort", head + `,"output_config":{"effort":"some"}` + tail, "output_config.effort"},
		{"tool name", head + `,"tools":[{"name":"a b","input_schema":{"type":"object"}}]` + tail, "tools.0.custom.name"},
		{"same tool twice", head + `,"tools":[{"name":"a","input_schema":{"type":"object"}},{"name":"a","input_schema":{"type":"object"}}]` + tail, "must be unique"},
		{"tool schema", head + `,"tools":[{"name":"a","input_schema":{}}]` + tail, "input_schema.type"},
		{"empty system block", head + `,"system":[{"type":"text","text":""}]` + tail, "system: text content blocks must be non-empty"},
		{"no messages", `[]`, "at least one message"},
		{"assistant first", `[{"role":"assistant","content":"x"},` + hi + `]`, "first message must use the 'user' role"},
		{"same role twice", `[` + hi + `,` + hi + `]`, "roles must alternate"},
		{"system role", `[{"role":"system","content":"x"}]`, "Input should be 'user' or 'assistant'"},
		{"assistant last", `[` + hi + `,{"role":"assistant","content":"x"}]`, "prefill"},
		{"no content", `[{"role":"user","content":[]}]`, "non-empty content"},
		{"empty string", `[{"role":"user","content":""}]`, "must be non-empty"},
		{"empty text", `[{"role":"user","content":[{"type":"text","text":""}]}]`, "must be non-empty"},
		{"white space", `[{"role":"user","content":" \n"}]`, "non-whitespace"},
		{"content is a number", `[{"role":"user","content":1}]`, "valid array"},
		{"unknown block", `[{"role":"user","content":[{"type":"sound"}]}]`, "does not match any of the expected tags"},
		{"unknown field of a block", `[{"role":"user","content":[{"type":"text","text":"x","bad_input":""}]}]`,
			"text.bad_input: Extra inputs are not permitted"},
		{"thinking without signature", `[` + hi + `,{"role":"assistant","content":[{"type":"thinking","thinking":"x"},{"type":"text","text":"t"}]},` + hi + `]`, "thinking.signature: Field required"},
		{"cached thinking", `[` + hi + `,{"role":"assistant","content":[{"type":"thinking","thinking":"x","signature":"s","cache_control":{}}]},` + hi + `]`, "thinking.cache_control: Extra inputs"},
		{"redacted without data", `[` + hi + `,{"role":"assistant","content":[{"type":"redacted_thinking"},{"type":"text","text":"t"}]},` + hi + `]`,
			"redacted_thinking.data"},
		{"call by the user", `[{"role":"user","content":[{"type":"tool_use","id":"a","name":"n","input":{}}]}]`,
			"can only be in `assistant` messages"},
		{"call without result", `[` + hi + `,` + use + `,` + hi + `]`, "without `tool_result` blocks immediately after: a"},
		{"call that is last", `[` + hi + `,` + use + `]`, "prefill"},
		{"one result of two", `[` + hi + `,` + useText + `,{"role":"user","content":[` + resultA + `]}]`, "immediately after: b"},
		{"result without call", `[{"role":"user","content":[` + resultA + `]}]`, "unexpected `tool_use_id`"},
		{"result twice", `[` + hi + `,` + use + `,{"role":"user","content":[` + resultA + `,` + resultA + `]}]`, "single result"},
		{"result after text", `[` + hi + `,` + use + `,{"role":"user","content":[{"type":"text","text":"x"},` + resultA + `]}]`,
			"must come first"},
		{"empty text in a result", `[` + hi + `,` + use + `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":""}]}]}]`, "must be non-empty"},
		{"image", viewed(picture(t, 1, 1), "image/png", ""), ""},
		{"image of another type", viewed(picture(t, 1, 1), "image/gif", ""), "appears to be a image/png image"},
		{"image of no type", viewed(picture(t, 1, 1), "image/jpg", ""), "media_type: Input should be"},
		{"incomplete image", viewed(picture(t, 9, 9)[:20], "image/png", ""), "Could not process image"},
		{"image that is none", viewed([]byte("<svg/>"), "image/png", ""), "Could not process image"},
		{"empty image", viewed(nil, "image/png", ""), "invalid base64"},
		{"large image", viewed(append(picture(t, 1, 1), make([]byte, 4<<20)...), "image/png", ""), "exceeds 5 MB maximum"},
		{"wide image", viewed(picture(t, 8001, 1), "image/png", ""), "8000 pixels"},
		{"many images", views(21, picture(t, 2000, 1), "image/png", ""), ""},
		{"large images", views(20, picture(t, 2001, 1), "image/png", ""), ""},
		{"many large images", views(21, picture(t, 2001, 1), "image/png", ""), "many-image requests: 2000 pixels"},
		{"image of a user", `[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + base64.StdEncoding.EncodeToString(picture(t, 1, 1)) + `"}}]}]`, ""},
		{"image of a user of another type", `[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/gif","data":"` + base64.StdEncoding.EncodeToString(picture(t, 1, 1)) + `"}}]}]`, "appears to be a image/png image"},
		{"image of the assistant", `[` + hi + `,{"role":"assistant","content":[{"type":"image","source":{}}]},` + hi + `]`, "can only be in `user` messages"},
		{"document", `[{"role":"user","content":[{"type":"document","title":"a","source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0="}}]}]`, ""},
		{"text document", `[{"role":"user","content":[{"type":"document","source":{"type":"text","media_type":"text/plain","data":"a"}}]}]`, ""},
		{"document of another type", `[{"role":"user","content":[{"type":"document","source":{"type":"base64","media_type":"text/plain","data":"JVBERi0="}}]}]`, "media_type: Input should be 'application/pdf'"},
		{"document that is none", `[{"role":"user","content":[{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"AAAA"}}]}]`, "was not valid"},
		{"document without base64", `[{"role":"user","content":[{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"%"}}]}]`, "invalid base64 data"},
		{"document with a name", `[{"role":"user","content":[{"type":"document","name":"a","source":{"type":"text","media_type":"text/plain","data":"a"}}]}]`, "Extra inputs are not permitted"},
		{"empty text document", `[{"role":"user","content":[{"type":"document","source":{"type":"text","media_type":"text/plain","data":""}}]}]`, "at least 1 character"},
		{"document of a text type", `[{"role":"user","content":[{"type":"document","source":{"type":"text","media_type":"text/csv","data":"a"}}]}]`, "Input should be 'text/plain'"},
		{"document of a URL", `[{"role":"user","content":[{"type":"document","source":{"type":"url","media_type":"","data":""}}]}]`, "Input tag 'url'"},
		{"image of an error", viewed(picture(t, 1, 1), "image/png", `,"is_error":true`), "all content must be type `text`"},
		{"same call twice", `[` + hi + `,` + use + `,{"role":"user","content":[` + resultA + `]},` + use + `,{"role":"user","content":[` + resultA + `]}]`, "ids must be unique"},
		{"id of a call", `[` + hi + `,` + strings.Replace(use, `"a"`, `"a.b"`, 1) + `,` + hi + `]`, "tool_use.id"},
		{"input of a call", `[` + hi + `,` + strings.Replace(use, `{}`, `"x"`, 1) + `,` + hi + `]`, "valid dictionary"},
		{"five cached blocks", `[{"role":"user","content":[` + strings.Repeat(cached+",", 4) + cached + `]}]`, "maximum of 4 blocks"},
		{"four cached blocks", `[{"role":"user","content":[` + strings.Repeat(cached+",", 3) + cached + `]}]`, ""},
	})
}

func TestOpenAIChecks(t *testing.T) {
	const (
		head = `{"model":"m","stream":true`
		hi   = `{"role":"user","content":"hi"}`
		call = `{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"Read","arguments":"{}"}}]}`
		tool = `{"role":"tool","tool_call_id":"a","content":""}`
		tail = `,"messages":[` + hi + `]}`
	)
	runChecks(t, modeltest.OpenAI, "/v1", head, []checkCase{
		{"tool call and result", `[{"role":"system","content":"s"},` + hi + `,` + call + `,` + tool + `,` + hi + `]`, ""},
		{"the same id in a later call", `[` + hi + `,` + call + `,` + tool + `,` + call + `,` + tool + `]`, ""},
		{"parts", `[{"role":"user","content":[{"type":"text","text":"x"}]}]`, ""},
		{"file", `[{"role":"user","content":[{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,JVBERi0="}}]}]`, ""},
		{"file without a name", `[{"role":"user","content":[{"type":"file","file":{"file_data":"data:application/pdf;base64,JVBERi0="}}]}]`, "unsupported file"},
		{"file of another type", `[{"role":"user","content":[{"type":"file","file":{"filename":"a","file_data":"data:text/plain;base64,JVBERi0="}}]}]`, "unsupported file"},
		{"file that is none", `[{"role":"user","content":[{"type":"file","file":{"filename":"a","file_data":"data:application/pdf;base64,AAAA"}}]}]`, "unsupported file"},
		{"no model", `{"stream":true` + tail, "model parameter"},
		{"no stream", `{"model":"m"` + tail, "stream"},
		{"wrong type", `{"model":1` + tail, "could not parse"},
		{"temperature", head + `,"temperature":3` + tail, "temperature"},
		{"two limits", head + `,"max_tokens":1,"max_completion_tokens":1` + tail, "at the same time"},
		{"limit of 0", head + `,"max_tokens":0` + tail, "Expected a value >= 1"},
		{"no tools", head + `,"tools":[]` + tail, "empty array"},
		{"too many tools", head + `,"tools":[` + strings.Repeat(`{},`, 128) + `{}]` + tail, "maximum length 128"},
		{"tool type", head + `,"tools":[{}]` + tail, "tools[0].type"},
		{"tool name", head + `,"tools":[{"type":"function","function":{"name":"a.b"}}]` + tail, "tools[0].function.name"},
		{"tool schema", head + `,"tools":[{"type":"function","function":{"name":"a","parameters":{}}}]` + tail, "Invalid schema"},
		{"no messages", `[]`, "must end with a user or tool message"},
		{"late system", `[` + hi + `,{"role":"system","content":"s"}]`, "must stand first"},
		{"assistant first", `[{"role":"assistant","content":"x"},` + hi + `]`, "must begin with a user message"},
		{"assistant last", `[` + hi + `,{"role":"assistant","content":"x"}]`, "must end with a user"},
		{"unknown role", `[{"role":"bot","content":"x"}]`, "Supported values"},
		{"empty user", `[{"role":"user","content":""}]`, "must not be empty"},
		{"empty part", `[{"role":"user","content":[{"type":"text","text":""}]}]`, "must not be empty"},
		{"content is a number", `[{"role":"user","content":1}]`, "Invalid type"},
		{"empty assistant", `[` + hi + `,{"role":"assistant","content":null},` + hi + `]`, "expected a string, got null"},
		{"call without result", `[` + hi + `,` + call + `,` + hi + `]`, "did not have response messages: a"},
		{"call that is last", `[` + hi + `,` + call + `]`, "did not have response messages: a"},
		{"result without call", `[` + hi + `,` + tool + `]`, "must be a response to a preceeding"},
		{"result without content", `[` + hi + `,` + call + `,{"role":"tool","tool_call_id":"a"}]`, "expected a string, got null"},
		{"no calls", `[` + hi + `,{"role":"assistant","content":"x","tool_calls":[]},` + hi + `]`, "empty array"},
		{"long id", `[` + hi + `,` + strings.Replace(call, `"a"`, `"`+strings.Repeat("a", 41)+`"`, 1) + `,{"role":"tool","tool_call_id":"` + strings.Repeat("a", 41) + `","content":"x"}]`, "maximum length 40"},
		{"call type", `[` + hi + `,` + strings.Replace(call, `"function",`, `"",`, 1) + `]`, "type"},
		{"call name", `[` + hi + `,` + strings.Replace(call, `"Read"`, `"R d"`, 1) + `]`, "function.name"},
		{"arguments", `[` + hi + `,` + strings.Replace(call, `,"arguments":"{}"`, ``, 1) + `]`, "function.arguments"},
	})
}
