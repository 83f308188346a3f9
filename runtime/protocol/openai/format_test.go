package openai_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

const (
	sumSchema = `{"type":"object","properties":{"sum":{"type":"integer"}},"required":["sum"],"additionalProperties":false}`

	chatFormat     = `"response_format":{"type":"json_schema","json_schema":{"name":"sum","strict":true,"schema":` + sumSchema + `}}`
	responseFormat = `"text":{"format":{"type":"json_schema","name":"sum","strict":true,"schema":` + sumSchema + `}}`
)

// twice is an agent that explains itself and calls a tool, sends what is not an output, and then an
// output.
func twice() []modeltest.Reply {
	return []modeltest.Reply{
		modeltest.Stream(modeltest.Text("I look."), modeltest.ToolCall("t1", "Glob", `{"pattern":"*"}`)),
		modeltest.Stream(modeltest.Thinking("hm"), modeltest.Signature("c2ln"), modeltest.Text("It is 3.")),
		modeltest.Stream(modeltest.Text("Here."), modeltest.ToolCall("o1", "StructuredOutput", `{"su`, `m":3}`)),
	}
}

func refusing() []modeltest.Reply {
	return []modeltest.Reply{modeltest.Stream(modeltest.Text("I must ", "not."), modeltest.Stop(model.StopRefusal))}
}

func TestFormatOfAChatCompletion(t *testing.T) {
	for _, stream := range []string{"", `"stream":true,`} {
		b := serve(t, modeltest.Start(t, modeltest.Anthropic, append(twice(), append(refusing(), modeltest.Stream(modeltest.Text(`{"any":1}`)))...)...), nil)
		ask := func(format string) (message map[string]any, finish string) {
			res := b.chat(strings.Replace(hello, "{", "{"+stream+format+",", 1))
			require.Equal(t, http.StatusOK, res.status, res.body)
			if stream == "" {
				c, message := choice(t, res)
				return message, c["finish_reason"].(string)
			}
			list, reasons := deltas(res)
			message = map[string]any{"content": nil, "refusal": nil}
			if content := text(res); content != "" {
				message["content"] = content
			}
			for _, d := range list {
				if d["refusal"] != nil {
					message["refusal"] = d["refusal"]
				}
			}
			return message, reasons[0]
		}
		message, finish := ask(chatFormat)
		require.Equal(t, `{"sum":3}`, message["content"], "the output is the only text")
		require.Nil(t, message["refusal"])
		require.Equal(t, "stop", finish)

		message, finish = ask(chatFormat)
		require.Nil(t, message["content"])
		require.Equal(t, "I must not.", message["refusal"])
		require.Equal(t, "stop", finish)

		message, _ = ask(`"response_format":{"type":"json_object"}`)
		require.Equal(t, `{"any":1}`, message["content"])
	}
}

func TestFormatOfAResponse(t *testing.T) {
	for _, stream := range []string{"", `"stream":true,`} {
		b := serve(t, modeltest.Start(t, modeltest.Anthropic, append(twice(), refusing()...)...), nil)
		_, r := b.respond(`{"model":"helper","input":"a",` + stream + responseFormat + `}`)
		require.Equal(t, "completed", r["status"])
		require.Equal(t, []string{"mcp_call", "reasoning", "message"}, types(r))
		require.Equal(t, `{"sum":3}`, said(r))
		require.Equal(t, map[string]any{"format": map[string]any{
			"type": "json_schema", "name": "sum", "description": nil, "strict": true, "schema": object(t, sumSchema),
		}}, r["text"])
		stored := b.do("GET", "/responses/"+r["id"].(string), "")
		require.Equal(t, r["output"], stored.json["output"])

		_, r = b.respond(`{"model":"helper","input":"a",` + stream + responseFormat + `}`)
		require.Equal(t, "completed", r["status"])
		require.Equal(t, []any{map[string]any{"type": "refusal", "refusal": "I must not."}}, last(r)["content"])
		stored = b.do("GET", "/responses/"+r["id"].(string), "")
		require.Equal(t, r["output"], stored.json["output"])
	}
}

func object(t *testing.T, text string) (v map[string]any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &v))
	return v
}

// An output that does not match is the error of the run, and no text of it is sent.
func TestFormatThatTheModelDoesNotKeep(t *testing.T) {
	no := modeltest.Stream(modeltest.Text("No."))
	b := serve(t, modeltest.Start(t, modeltest.Anthropic, no, no, no, no, no, no), nil)
	res := b.chat(strings.Replace(hello, "{", "{"+chatFormat+",", 1))
	require.Equal(t, http.StatusBadGateway, res.status)
	require.Equal(t, "output_invalid", errorOf(t, res.json)["code"])
	res = b.chat(strings.Replace(hello, "{", `{"stream":true,`+chatFormat+",", 1))
	require.NotContains(t, res.body, "No.")
	require.Equal(t, "output_invalid", errorOf(t, res.events[len(res.events)-1])["code"])
	_, r := b.respond(`{"model":"helper","input":"a","stream":true,` + responseFormat + `}`)
	require.Equal(t, "failed", r["status"])
	require.Equal(t, "output_invalid", r["error"].(map[string]any)["code"])
	require.Empty(t, r["output"])
}

// The schema of an agent is that of every response, and a client may not set another.
func TestFormatOfAnAgent(t *testing.T) {
	b := serve(t, modeltest.Start(t, modeltest.Anthropic, append(twice(), twice()...)...), func(c *runtime.Config) {
		c.Agents[0].OutputSchema = json.RawMessage(sumSchema)
	})
	_, message := choice(t, b.chat(hello))
	require.Equal(t, `{"sum":3}`, message["content"])
	require.Equal(t, `{"sum":3}`, text(b.chat(strings.Replace(hello, "{", `{"stream":true,`, 1))))
	res := b.chat(strings.Replace(hello, "{", "{"+chatFormat+",", 1))
	require.Equal(t, http.StatusBadRequest, res.status)
	require.Equal(t, "the schema of the format must not be set: the agent has its own", errorOf(t, res.json)["message"])
}

func TestFormatsThatAreRejected(t *testing.T) {
	b := serve(t, modeltest.Start(t, modeltest.Anthropic), nil)
	for name, row := range map[string]struct{ format, message string }{
		"no schema":        {`{"type":"json_schema","json_schema":{"name":"sum"}}`, "response_format must have a schema"},
		"no member":        {`{"type":"json_schema"}`, "response_format must have a schema"},
		"a list":           {`{"type":"json_schema","json_schema":{"name":"a","schema":{"type":"array"}}}`, "it is not of type object"},
		"another document": {`{"type":"json_schema","json_schema":{"name":"a","schema":{"$ref":"http://127.0.0.1:1/"}}}`, "reference to another document"},
		"a schema of text": {`{"type":"json_schema","json_schema":{"name":"a","schema":"{}"}}`, "not a JSON object"},
	} {
		t.Run(name, func(t *testing.T) {
			res := b.in(t).chat(strings.Replace(hello, "{", `{"response_format":`+row.format+",", 1))
			require.Equal(t, http.StatusBadRequest, res.status)
			require.Contains(t, errorOf(t, res.json)["message"], row.message)
		})
	}
}

// A client sends its format again with the results of its tools.
func TestFormatNextToClientTools(t *testing.T) {
	call := modeltest.Stream(modeltest.Text("One moment."), modeltest.ToolCall("t1", "pick", `{}`))
	b := serve(t, modeltest.Start(t, modeltest.Anthropic, call, modeltest.Stream(modeltest.ToolCall("o1", "StructuredOutput", `{"sum":3}`))), nil)
	const tools = `"tools":[{"type":"function","function":{"name":"pick"}}],` + chatFormat + `,`
	c, message := choice(t, b.chat(strings.Replace(hello, "{", "{"+tools, 1)))
	require.Equal(t, "tool_calls", c["finish_reason"])
	require.Nil(t, message["content"])
	id := message["tool_calls"].([]any)[0].(map[string]any)["id"].(string)
	_, message = choice(t, b.chat(`{`+tools+`"model":"helper","messages":[{"role":"user","content":"a"},
		{"role":"assistant","tool_calls":[{"id":"`+id+`","type":"function","function":{"name":"pick","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"`+id+`","content":"today"}]}`))
	require.Equal(t, `{"sum":3}`, message["content"])
}
