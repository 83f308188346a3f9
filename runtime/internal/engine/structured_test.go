package engine_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/internal/engine"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/anthropic"
	"github.com/seed93082962/agenthost/runtime/model/demo"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/model/openai"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// The schemas of the tests: one that vendors enforce, and one with a keyword that they reject.
const (
	strictSum = `{"type":"object","properties":{"sum":{"type":"integer"}},"required":["sum"],"additionalProperties":false}`
	looseSum  = `{"type":"object","properties":{"sum":{"type":"integer","minimum":1}},"required":["sum"]}`
)

// redirected sends requests for the vendor to a scripted upstream.
type redirected struct{ to *url.URL }

func (r redirected) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.URL.Scheme, req.URL.Host = r.to.Scheme, r.to.Host
	return http.DefaultTransport.RoundTrip(req)
}

// vendor is upstream at the address of Anthropic or OpenAI.
func vendor(t *testing.T, protocol modeltest.Protocol, replies ...modeltest.Reply) (model.Model, *modeltest.Upstream) {
	t.Helper()
	up := modeltest.Start(t, protocol, replies...)
	to, err := url.Parse(up.URL)
	require.NoError(t, err)
	client := &http.Client{Transport: redirected{to}}
	t.Cleanup(func() { http.DefaultTransport.(*http.Transport).CloseIdleConnections() })
	var m model.Model
	if protocol == modeltest.Anthropic {
		m, err = anthropic.New(anthropic.Config{APIKey: "key", HTTPClient: client})
	} else {
		m, err = openai.New(openai.Config{APIKey: "key", HTTPClient: client})
	}
	require.NoError(t, err)
	return m, up
}

// fields returns the fields of a request by which it asks for an output, and whether it offers the
// tool of the output.
func fields(t *testing.T, r *modeltest.Request) (map[string]string, bool) {
	t.Helper()
	var body map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(r.Body, &body))
	got := map[string]string{}
	for _, name := range []string{"output_config", "response_format", "tool_choice"} {
		if body[name] != nil {
			got[name] = string(body[name])
		}
	}
	return got, strings.Contains(string(body["tools"]), `"StructuredOutput"`)
}

func text(s string) modeltest.Reply { return modeltest.Stream(modeltest.Text(s)) }

func call(input string) modeltest.Reply {
	return modeltest.Stream(modeltest.Text("Here it is."), modeltest.ToolCall("o1", "StructuredOutput", input))
}

func TestFormsOfAnOutput(t *testing.T) {
	type connect = func(*testing.T, modeltest.Protocol, ...modeltest.Reply) (model.Model, *modeltest.Upstream)
	for name, row := range map[string]struct {
		connect  connect
		protocol modeltest.Protocol
		schema   string
		change   func(*setup)
		native   bool
		want     map[string]string
	}{
		"Anthropic": {vendor, modeltest.Anthropic, strictSum, nil, true,
			map[string]string{"output_config": `{"format":{"type":"json_schema","schema":` + strictSum + `}}`}},
		"Anthropic, with tools and effort": {vendor, modeltest.Anthropic, strictSum, func(s *setup) {
			s.Tools, s.Request.Thinking = []tool.Tool{greet(true)}, model.Thinking{Adaptive: true, Effort: "low"}
		}, true, map[string]string{"output_config": `{"effort":"low","format":{"type":"json_schema","schema":` + strictSum + `}}`}},
		"Anthropic, another schema": {vendor, modeltest.Anthropic, looseSum, nil, false, map[string]string{"tool_choice": `{"type":"any"}`}},
		"Anthropic, thinking": {vendor, modeltest.Anthropic, looseSum, func(s *setup) {
			s.Request.Thinking.Adaptive = true
		}, false, map[string]string{}},
		"a compatible server": {upstream, modeltest.Anthropic, strictSum, nil, false, map[string]string{"tool_choice": `{"type":"any"}`}},
		"OpenAI": {vendor, modeltest.OpenAI, strictSum, func(s *setup) { s.Tools = []tool.Tool{greet(true)} }, true,
			map[string]string{"response_format": `{"type":"json_schema","json_schema":{"name":"output","schema":` + strictSum + `,"strict":true}}`}},
		"OpenAI, another schema": {vendor, modeltest.OpenAI, looseSum, nil, true,
			map[string]string{"response_format": `{"type":"json_schema","json_schema":{"name":"output","schema":` + looseSum + `}}`}},
		"a server of Chat Completions": {upstream, modeltest.OpenAI, looseSum, nil, true,
			map[string]string{"response_format": `{"type":"json_schema","json_schema":{"name":"output","schema":` + looseSum + `}}`}},
		"a server of Chat Completions, tools": {upstream, modeltest.OpenAI, strictSum, func(s *setup) { s.Tools = []tool.Tool{greet(true)} }, false,
			map[string]string{"tool_choice": `"required"`}},
	} {
		t.Run(name, func(t *testing.T) {
			reply := call(`{"sum":3}`)
			if row.native {
				reply = text(`{"sum":3}`)
			}
			m, up := row.connect(t, row.protocol, reply)
			s := newSetup(m)
			s.OutputSchema = json.RawMessage(row.schema)
			if row.change != nil {
				row.change(s)
			}
			got := s.run(t.Context(), t, "")
			require.NoError(t, got.err)
			require.JSONEq(t, `{"sum":3}`, string(got.outcome.Structured))
			require.Equal(t, `{"sum":3}`, got.outcome.Text)
			require.Equal(t, model.StopEndTurn, got.outcome.StopReason)
			asked, offered := fields(t, last(up))
			require.Equal(t, row.want, asked)
			require.Equal(t, !row.native, offered)
			require.Equal(t, !row.native, strings.Contains(string(last(up).Body), "End your work with a call"))
		})
	}
}

// A call of the tool of the output looks like a text to the client and to the session.
func TestACallBecomesTheText(t *testing.T) {
	m, up := upstream(t, modeltest.Anthropic,
		modeltest.Stream(modeltest.ToolCall("o1", "StructuredOutput", `{"su`, `m":"3"}`)), text("And now a text."), call(`{"sum":4}`))
	s := newSetup(m)
	s.OutputSchema = json.RawMessage(looseSum)
	got := s.run(t.Context(), t, "")
	require.NoError(t, got.err)
	require.Equal(t, []string{`partial text "{\"su"`, `partial text "m\":\"3\"}"`, "assistant end_turn 1 blocks"}, got.lines)
	require.Equal(t, `{"sum":3}`, string(got.outcome.Structured), "its value has the type of the schema")
	s.run(t.Context(), t, got.session)
	require.Contains(t, asked(t, up.Requests()[1]), `assistant: text "{\"sum\":3}"`, "the next run of the session")
}

func TestRepairOfAnOutput(t *testing.T) {
	type row struct {
		schema   string
		replies  []modeltest.Reply
		want     string // of the outcome
		problem  string
		repair   []string // in the second request
		lastLine string
	}
	for name, row := range map[string]row{
		"a call": {looseSum, []modeltest.Reply{call(`{"sum":0}`), call(`{"sum":1}`)}, `{"sum":1}`, "",
			[]string{"does not match the required schema", "minimum", "Call StructuredOutput again.", `"is_error":true`}, ""},
		"a text in place of a call":      {looseSum, []modeltest.Reply{text("It is 3."), call(`{"sum":3}`)}, `{"sum":3}`, "", []string{"it is not JSON", "Call StructuredOutput."}, ""},
		"a text that is the output":      {looseSum, []modeltest.Reply{text("```json\n{\"sum\": 3}\n```")}, `{"sum":3}`, "", nil, ""},
		"input that is not JSON":         {looseSum, []modeltest.Reply{call(`{"sum":`), call(`{"sum":3}`)}, `{"sum":3}`, "", []string{"it is not JSON"}, ""},
		"a model that never complies":    {looseSum, []modeltest.Reply{text("No."), text("Never.")}, "", "it is not JSON", nil, ""},
		"two wrong calls":                {looseSum, []modeltest.Reply{call(`{}`), call(`{"sum":"many"}`)}, "", "sum", nil, ""},
		"a limit in a call":              {looseSum, []modeltest.Reply{modeltest.Stream(modeltest.ToolCall("o1", "StructuredOutput", `{"sum"`), modeltest.Stop(model.StopMaxTokens)), call(`{"sum":3}`)}, `{"sum":3}`, "", []string{"it reached a limit (max_tokens)"}, ""},
		"a limit after another call":     {looseSum, []modeltest.Reply{modeltest.Stream(modeltest.ToolCall("g", "greet", `{"na`), modeltest.Stop(model.StopMaxTokens)), call(`{"sum":3}`)}, `{"sum":3}`, "", []string{"interrupted before it completed"}, ""},
		"a limit after all of it":        {looseSum, []modeltest.Reply{modeltest.Stream(modeltest.Text(`{"sum":3}`), modeltest.Stop(model.StopMaxTokens))}, `{"sum":3}`, "", nil, ""},
		"other calls in the same turn":   {looseSum, []modeltest.Reply{modeltest.Stream(modeltest.ToolCall("g", "greet", `{"name":"Ada"}`), modeltest.ToolCall("o1", "StructuredOutput", `{"sum":1}`)), call(`{"sum":2}`)}, `{"sum":2}`, "", []string{"Hello, Ada", "other calls came with it"}, ""},
		"a call after the repair":        {looseSum, []modeltest.Reply{text("No."), modeltest.Stream(modeltest.ToolCall("g", "greet", `{"name":"Ada"}`)), call(`{"sum":3}`)}, `{"sum":3}`, "", nil, ""},
		"one repair, not one for a turn": {looseSum, []modeltest.Reply{text("No."), modeltest.Stream(modeltest.ToolCall("g", "greet", `{"name":"Ada"}`)), text("No.")}, "", "it is not JSON", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m, up := upstream(t, modeltest.Anthropic, row.replies...)
			s := newSetup(m, greet(false))
			s.OutputSchema = json.RawMessage(row.schema)
			got := s.run(t.Context(), t, "")
			require.Len(t, up.Requests(), len(row.replies))
			require.Equal(t, len(row.replies), got.outcome.NumTurns)
			for _, part := range row.repair {
				require.Contains(t, string(up.Requests()[1].Body), part)
			}
			if row.problem == "" {
				require.NoError(t, got.err)
				require.Equal(t, row.want, string(got.outcome.Structured))
				return
			}
			var invalid *engine.OutputError
			require.ErrorAs(t, got.err, &invalid)
			require.Contains(t, invalid.Reason, row.problem)
			require.Nil(t, got.outcome.Structured)
		})
	}
}

// A server may ignore the native format, so that its model learns the schema by the repair.
func TestRepairOfATextHasTheSchema(t *testing.T) {
	m, up := upstream(t, modeltest.OpenAI, text("It is 3."), text(`{"sum":3}`))
	s := newSetup(m)
	s.OutputSchema = json.RawMessage(looseSum)
	got := s.run(t.Context(), t, "")
	require.NoError(t, got.err)
	require.Equal(t, []string{`partial text "It is 3."`, "assistant end_turn 1 blocks", `partial text "{\"sum\":3}"`, "assistant end_turn 1 blocks"}, got.lines)
	require.Contains(t, string(last(up).Body), `\"minimum\":1`)
}

func TestNoTurnForARepair(t *testing.T) {
	m, up := upstream(t, modeltest.Anthropic, text("No."))
	s := newSetup(m)
	s.OutputSchema, s.MaxTurns = json.RawMessage(looseSum), 1
	var invalid *engine.OutputError
	require.ErrorAs(t, s.run(t.Context(), t, "").err, &invalid)
	require.Len(t, up.Requests(), 1)
}

func TestARefusalIsNoOutput(t *testing.T) {
	m, _ := upstream(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("I must not."), modeltest.Stop(model.StopRefusal)))
	s := newSetup(m)
	s.OutputSchema = json.RawMessage(looseSum)
	got := s.run(t.Context(), t, "")
	require.NoError(t, got.err)
	require.Nil(t, got.outcome.Structured)
	require.Equal(t, model.StopRefusal, got.outcome.StopReason)
	require.Equal(t, "I must not.", got.outcome.Text)
}

// DeepSeek accepts neither schemas nor a choice of tools in thinking mode.
func TestAFormThatUpstreamRejects(t *testing.T) {
	up := modeltest.New(modeltest.DeepSeek, modeltest.Repeat(call(`{"sum":3}`)))
	srv := httptest.NewServer(up)
	defer srv.Close()
	m, err := openai.New(openai.Config{BaseURL: srv.URL + "/v1"})
	require.NoError(t, err)
	s := newSetup(m)
	s.OutputSchema = json.RawMessage(strictSum)
	e, err := engine.New(s.Config)
	require.NoError(t, err)
	for _, requests := range []int{3, 4} {
		held, err := s.store.Open(t.Context(), "agent", "")
		require.NoError(t, err)
		in := s.input
		in.Session = held
		run := start(e, in)
		for _, err := range run.Events(t.Context()) {
			require.NoError(t, err)
		}
		require.NoError(t, held.Close())
		require.Equal(t, `{"sum":3}`, string(run.Outcome().Structured))
		require.Equal(t, 1, run.Outcome().NumTurns, "a rejected request is not a turn")
		require.Len(t, up.Requests(), requests, "a later run begins with the form that was accepted")
	}
	var forms []map[string]string
	for _, r := range up.Requests() {
		form, _ := fields(t, r)
		forms = append(forms, form)
	}
	require.Contains(t, forms[0]["response_format"], "json_schema")
	require.Equal(t, []map[string]string{{"tool_choice": `"required"`}, {}, {}}, forms[1:])
}

// A rejection that has nothing to do with the form is the error of the run.
func TestARejectionInEveryForm(t *testing.T) {
	m, up := upstream(t, modeltest.OpenAI, modeltest.Repeat(modeltest.Status(http.StatusBadRequest)))
	s := newSetup(m)
	s.OutputSchema = json.RawMessage(strictSum)
	var rejected *model.Error
	require.ErrorAs(t, s.run(t.Context(), t, "").err, &rejected)
	require.Len(t, up.Requests(), 3)
	m, up = upstream(t, modeltest.OpenAI, modeltest.Status(http.StatusUnauthorized))
	s.Model = m
	require.ErrorAs(t, s.run(t.Context(), t, "").err, &rejected)
	require.Len(t, up.Requests(), 1)
}

// A model without the method of the native form is offered the tool. The demo model ignores it.
func TestAModelThatIgnoresTheSchema(t *testing.T) {
	s := newSetup(demo.New(0))
	s.OutputSchema = json.RawMessage(strictSum)
	got := s.run(t.Context(), t, "")
	var invalid *engine.OutputError
	require.ErrorAs(t, got.err, &invalid)
	require.Equal(t, 2, got.outcome.NumTurns)
}

// The tool of the output needs no permission, and takes the place of another if there are too many.
func TestTheToolOfTheOutputIsAlwaysOffered(t *testing.T) {
	m, up := upstream(t, modeltest.Anthropic, call(`{"sum":3}`))
	s := newSetup(m, greet(false))
	s.OutputSchema, s.Policy = json.RawMessage(strictSum), policy(t, "", []string{}, []string{"StructuredOutput"})
	require.NoError(t, s.run(t.Context(), t, "").err)
	_, offered := fields(t, last(up))
	require.True(t, offered)
	require.NotContains(t, string(last(up).Body), `"greet"`)
	_, err := engine.New(engine.Config{Model: m, Tools: []tool.Tool{tool.New(tool.Spec{Name: "StructuredOutput"}, nil)}})
	require.ErrorContains(t, err, "that of a tool of the runtime")
}

// A summary of the conversation is not bound to the schema.
func TestASummaryIsNotAnOutput(t *testing.T) {
	m, up := vendor(t, modeltest.OpenAI,
		modeltest.Stream(modeltest.ToolCall("t1", "greet", long), modeltest.Usage(model.Usage{InputTokens: 300, OutputTokens: 20})),
		modeltest.Stream(modeltest.ToolCall("t2", "greet", `{"name":"Bob"}`), modeltest.Usage(model.Usage{InputTokens: 790, OutputTokens: 30})),
		text("Ada was greeted."), text(`{"sum":2}`))
	s := newSetup(m, greet(true))
	s.ContextWindow, s.OutputSchema = 1000, json.RawMessage(strictSum)
	got := s.run(t.Context(), t, "")
	require.NoError(t, got.err)
	require.Equal(t, `{"sum":2}`, string(got.outcome.Structured))
	for i, r := range up.Requests() {
		form, _ := fields(t, r)
		require.Equal(t, i != 2, form["response_format"] != "", "request %d", i)
	}
}

// An output has a size for which an event has room.
func TestALongOutput(t *testing.T) {
	long := `{"a":"` + strings.Repeat("x", 1<<20) + `"}`
	m, up := upstream(t, modeltest.Anthropic, call(long), call(`{"a":"`+strings.Repeat("\\u0001", 170_000)+`"}`))
	s := newSetup(m)
	s.OutputSchema = json.RawMessage(`{"type":"object"}`)
	got := s.run(t.Context(), t, "")
	require.NoError(t, got.err)
	require.Contains(t, string(last(up).Body), "it has more than 1048576 bytes")
	event := &wire.Result{Type: "result", Result: &got.outcome.Text, Structured: got.outcome.Structured}
	encoded, err := wire.Event{Payload: event}.Append(nil)
	require.NoError(t, err)
	require.NotContains(t, string(encoded), `"truncated":true`)
}
