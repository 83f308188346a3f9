package runtime_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/tool"
)

const sumSchema = `{"type":"object","properties":{"sum":{"type":"number"}},"required":["sum"]}`

// sum is a response that is an output.
func sum(input string) modeltest.Reply {
	return modeltest.Stream(modeltest.ToolCall("o1", "StructuredOutput", input))
}

// ofAgent gives the helper the schema of its output.
func ofAgent(c *runtime.Config) { c.Agents[0].OutputSchema = json.RawMessage(sumSchema) }

func TestStructuredOutput(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic, sum(`{"sum":1}`), sum(`{"sum":2}`), modeltest.Stream(modeltest.Text("Plain.")),
		modeltest.Stream(modeltest.Text("No.")), sum(`{}`))
	b := serve(t, up, nil)
	const with = `{"message":"hello","outputSchema":` + sumSchema
	_, res := b.blocking(t, with+"}")
	require.JSONEq(t, `{"sum":1}`, string(res.Structured))
	require.JSONEq(t, `{"sum":1}`, res.Text)

	all := b.open(t.Context(), t, with+"}").rest()
	require.Equal(t, []string{"system", "partial_message", "assistant", "result", "done"}, names(all))
	require.Equal(t, map[string]any{"type": "text", "text": `{"sum":2}`}, all[1].data["partial"])
	require.Equal(t, map[string]any{"sum": 2.0}, all[3].data["structured"])
	require.Equal(t, "end_turn", all[3].data["stop_reason"])

	_, res = b.blocking(t, `{"message":"hello"}`)
	require.Nil(t, res.Structured)
	require.NotContains(t, string(up.Requests()[2].Body), "StructuredOutput", "the schema is that of one request")

	status, res := b.blocking(t, with+"}")
	require.Equal(t, http.StatusBadGateway, status.status)
	require.Equal(t, "output_invalid", res.ErrorType)
	require.Contains(t, res.Error, "the output does not match outputSchema")
	require.Equal(t, 2, res.NumTurns)
	require.NotContains(t, status.body, `"structured"`)
}

func TestStructuredOutputOfAnAgent(t *testing.T) {
	b := serve(t, modeltest.Start(t, modeltest.Anthropic, sum(`{"sum":1}`)), ofAgent)
	_, res := b.blocking(t, `{"message":"hello","outputSchema":null}`)
	require.JSONEq(t, `{"sum":1}`, string(res.Structured))
	refused := b.do(t, "POST", runs, `{"message":"hello","outputSchema":`+sumSchema+`}`)
	require.Equal(t, http.StatusBadRequest, refused.status)
	require.JSONEq(t, `{"error":"Invalid request: outputSchema must not be set: the agent has its own"}`, refused.body)
	require.Contains(t, b.do(t, "GET", "/v1/agents/helper", "").body, `"outputSchema":`+sumSchema)
}

// A schema that cannot be used is rejected before anything is called or stored.
func TestOutputSchemasAreChecked(t *testing.T) {
	for name, row := range map[string]struct{ schema, problem string }{
		"another document": {`{"type":"object","properties":{"a":{"$ref":"http://127.0.0.1:1/a.json"}}}`, "reference to another document"},
		"a loop":           {`{"$ref":"#"}`, "refers to itself"},
		"1 MiB":            {`{"type":"object","title":"` + strings.Repeat("x", 1<<20) + `"}`, "more than 65536 bytes"},
		"of a list":        {`{"type":"array"}`, "it is not of type object"},
		"not an object":    {`"{}"`, "not a JSON object"},
	} {
		t.Run(name, func(t *testing.T) {
			b := serve(t, modeltest.Start(t, modeltest.Anthropic), nil)
			res := b.do(t, "POST", runs, `{"message":"hello","outputSchema":`+row.schema+`}`)
			require.Equal(t, http.StatusBadRequest, res.status, res.body)
			require.Contains(t, res.body, "Invalid request: outputSchema: ")
			require.Contains(t, res.body, row.problem)
			bad := serve(t, nil, func(c *runtime.Config) { c.Agents[0].OutputSchema = json.RawMessage(row.schema) })
			require.ErrorContains(t, bad.Unavailable()["helper"], row.problem)
		})
	}
}

// The schemas of the runs in progress share the memory of the runtime.
func TestOutputSchemasUseMemory(t *testing.T) {
	var properties []string
	for i := range 1300 {
		properties = append(properties, fmt.Sprintf(`"p%d":{"$ref":"#/$defs/a"}`, i))
	}
	large := `{"type":"object","properties":{` + strings.Join(properties, ",") + `},"$defs":{"a":{"properties":{"a":{},"b":{},"c":{}}}}}`
	b := serve(t, modeltest.Start(t, modeltest.Anthropic, sum(`{}`)), func(c *runtime.Config) { c.Limits.MaxMemoryBytes = 4 << 20 })
	res := b.do(t, "POST", runs, `{"message":"hello","outputSchema":`+large+`}`)
	require.Equal(t, http.StatusServiceUnavailable, res.status, res.body)
	require.Contains(t, res.body, "Out of memory")
	_, run := b.blocking(t, `{"message":"hello","outputSchema":{"type":"object"}}`)
	require.JSONEq(t, `{}`, string(run.Structured), "and it is released")
}

// A run that waits is continued with the schema of its request, also by another process.
func TestAnswersKeepTheOutputSchema(t *testing.T) {
	const tools = `,"clientTools":[{"name":"pick"}]`
	w, up := waiting(t, nil, callOf("pick", `{}`, "StructuredOutput", `{"sum":9}`), sum(`{"sum":"x"}`), sum(`{"sum":1}`),
		callOf("pick", `{}`), sum(`{"other":2}`), callOf("pick", `{}`), sum(`{"sum":3}`))
	first := w.ask(t, tools+`,"outputSchema":`+sumSchema)
	require.Nil(t, first.Structured)
	w.start(t, up, nil)
	res := w.answer(t, first, `"output":"today"`)
	require.JSONEq(t, `{"sum":1}`, string(res.Structured), res.Error)
	require.Contains(t, string(up.Requests()[1].Body), "other calls came with it")

	first = w.ask(t, tools+`,"outputSchema":`+sumSchema)
	_, res = w.blocking(t, strings.TrimSuffix(answersTo(first, `"output":"x"`), "}")+`,"outputSchema":{"type":"object","required":["other"]}}`)
	require.JSONEq(t, `{"other":2}`, string(res.Structured), "that of the request with the answers comes first")

	first = w.ask(t, tools+`,"outputSchema":{"type":"object","required":["other"]}`)
	w.start(t, up, ofAgent)
	res = w.answer(t, first, `"output":"x"`)
	require.JSONEq(t, `{"sum":3}`, string(res.Structured), "that of the agent before all")
}

// The run that continues one with its answers has no repair of its own.
func TestAnswersKeepTheRepair(t *testing.T) {
	w, up := waiting(t, nil, sum(`{}`), callOf("pick", `{}`), callOf("pick", `{}`), sum(`{}`))
	const tools = `,"clientTools":[{"name":"pick"}]`
	first := w.ask(t, tools+`,"outputSchema":`+sumSchema)
	w.start(t, up, nil)
	_, second := w.blocking(t, strings.TrimSuffix(answersTo(first, `"output":"today"`), "}")+tools+"}")
	_, res := w.blocking(t, answersTo(second, `"output":"today"`))
	require.Equal(t, "output_invalid", res.ErrorType)
	require.Len(t, up.Requests(), 4)
}

// The schema is that of the agent, not of its subagents.
func TestSubagentsHaveNoOutputSchema(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic,
		modeltest.Stream(modeltest.ToolCall("t1", "Task", `{"description":"look","prompt":"Look.","subagent_type":"scout"}`)),
		modeltest.Stream(modeltest.Text("All quiet.")), sum(`{"sum":0}`))
	b := serve(t, up, func(c *runtime.Config) {
		ofAgent(c)
		c.Agents[0].Subagents = map[string]agent.Subagent{"scout": {Description: "Looks", Prompt: "You scout."}}
	})
	_, res := b.blocking(t, `{"message":"hello"}`)
	require.JSONEq(t, `{"sum":0}`, string(res.Structured), res.Error)
	require.NotContains(t, string(up.Requests()[1].Body), "StructuredOutput")
}

// A cancel ends the run in its repair, and the usage counts both calls.
func TestCancelDuringARepair(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("No.")), modeltest.Stream(modeltest.Text("Well"), modeltest.Hang()))
	b := serve(t, up, ofAgent)
	s := b.open(t.Context(), t, `{"message":"hello","stream":true}`)
	id := s.until("system").data["runId"].(string)
	s.until("assistant")
	s.until("partial_message")
	require.Equal(t, http.StatusAccepted, b.do(t, "POST", "/v1/runs/"+id+"/cancel", "").status)
	end := s.until("cancelled")
	require.GreaterOrEqual(t, end.data["usage"].(map[string]any)["input_tokens"], 20.0)
}

func TestClientToolsMustNotHaveTheNameOfTheOutput(t *testing.T) {
	b := serve(t, nil, func(c *runtime.Config) { c.Tools = []tool.Tool{greet()} })
	res := b.do(t, "POST", runs, `{"message":"hello","inputs":["client_tool"],"clientTools":[{"name":"structuredoutput"}]}`)
	require.Equal(t, http.StatusBadRequest, res.status)
	require.Contains(t, res.body, "is that of a tool of the agent")
}
