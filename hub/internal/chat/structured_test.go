package chat_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/aigc"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

var sumSchema = object{"type": "object", "properties": object{"sum": object{"type": "number"}}, "required": []any{"sum"}}

// sums returns a model whose responses are outputs.
func sums(t *testing.T) *modeltest.Upstream {
	t.Helper()
	return modeltest.Start(t, modeltest.Anthropic,
		modeltest.Repeat(modeltest.Stream(modeltest.Text("Here."), modeltest.ToolCall("o1", "StructuredOutput", `{"sum":3}`))))
}

// The stored answer has the value next to its text.
func TestStructuredAnswers(t *testing.T) {
	each(t, sums, func(t *testing.T, s *server) {
		ada := s.ada()
		path := session(ada)
		all := send(t, ada, path, object{"message": "go", "outputSchema": sumSchema}).rest()
		require.Contains(t, names(all), "result")
		require.Equal(t, "completed", awaits(t, ada, path, "completed")["status"])
		answer := messages(ada, path)[1]
		require.Equal(t, `{"sum":3}`, answer["text"])
		require.Equal(t, []any{
			object{"type": "text", "text": `{"sum":3}`}, object{"type": "structured", "value": object{"sum": 3.0}},
		}, answer["content"])

		for name, schema := range map[string]any{"a list": []any{}, "a text": "{}", "long": object{"title": strings.Repeat("x", 1<<16)}} {
			res := ada.Post(path+"/messages", object{"message": "go", "outputSchema": schema})
			fields := res.Error(http.StatusBadRequest, wire.ValidationFailed)["data"].(object)["fields"].(object)
			require.Contains(t, fields, "outputSchema", name)
		}
		for text, schema := range map[string]any{
			"reference to another document": object{"$ref": "http://127.0.0.1:1/"}, "refers to itself": object{"$ref": "#"}, "not of type object": object{"type": "string"},
		} {
			res := ada.Post(path+"/messages", object{"message": "go", "outputSchema": schema})
			require.Contains(t, res.Error(http.StatusBadRequest, wire.InvalidRequest)["message"], text)
		}
	})
}

func TestStructuredAnswersThatFail(t *testing.T) {
	no := func(t *testing.T) *modeltest.Upstream {
		t.Helper()
		return modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Stream(modeltest.Text("No."))))
	}
	with(t, no, func(t *testing.T, s *server) {
		ada := s.ada()
		path := session(ada)
		send(t, ada, path, object{"message": "go", "outputSchema": sumSchema}).rest()
		failed := awaits(t, ada, path, "failed")
		require.Equal(t, "output_invalid", failed["error"].(object)["code"])
	})
}

// An agent with a schema rejects another one, and the client receives why.
func TestStructuredAnswersOfAnAgent(t *testing.T) {
	with(t, nil, func(t *testing.T, s *server) {
		schema, err := json.Marshal(sumSchema)
		require.NoError(t, err)
		s.deploy(sums(t), func(a *agent.Agent) { a.OutputSchema = schema })
		ada := s.ada()
		path := session(ada)
		say(t, ada, path, "go")
		require.Equal(t, `{"sum":3}`, messages(ada, path)[1]["text"])
		res := ada.Post(path+"/messages", object{"message": "go", "outputSchema": sumSchema})
		require.Contains(t, res.Error(http.StatusBadRequest, wire.InvalidRequest)["message"], "the agent has its own")
		format := object{"type": "json_schema", "json_schema": object{"name": "sum", "schema": sumSchema}}
		refused := ada.Post(completions, plus(asked("go"), "response_format", format))
		failsAs(t, refused, http.StatusBadRequest)
		require.Contains(t, refused.Text, "the schema of the format must not be set: the agent has its own")
	})
}

// Without a schema of its own, the run that continues an answer has that of the message.
func TestStructuredAnswersThatWaited(t *testing.T) {
	up := func(t *testing.T) *modeltest.Upstream {
		t.Helper()
		return modeltest.Start(t, modeltest.Anthropic,
			modeltest.Stream(modeltest.ToolCall("t1", "open", `{}`)), modeltest.Stream(modeltest.ToolCall("o1", "StructuredOutput", `{"sum":3}`)))
	}
	each(t, up, func(t *testing.T, s *server) {
		ada := s.ada()
		path := session(ada)
		send(t, ada, path, object{
			"message": "go", "outputSchema": sumSchema, "inputs": []any{"client_tool"}, "clientTools": []any{object{"name": "open"}},
		}).rest()
		pending := awaits(t, ada, path, "waiting")["pending"].([]any)
		send(t, ada, path, answers(pending, object{"output": "page one"})).rest()
		answer := awaits(t, ada, path, "completed")
		require.Equal(t, []object{{"type": "structured", "value": object{"sum": 3.0}}}, blocks(answer, "structured"))
	})
}

// The output of a client of OpenAI has no visible label, which would not be JSON.
func TestStructuredAnswersOfOpenAI(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t), func(cfg *config) { cfg.Labels = labels{aigc.ModeAppend, "AI 生成"} })
	s.deploy(sums(t))
	ada := s.ada()
	schema := object{"name": "sum", "schema": sumSchema}
	body := plus(asked("go"), "response_format", object{"type": "json_schema", "json_schema": schema})
	res := ada.Post(completions, body).Want(http.StatusOK)
	require.Equal(t, `{"sum":3}`, contentOf(res))
	require.Contains(t, res["metadata"].(object)["aigc"], `"ProduceID":"acme"`, "the implicit label is next to it")
	body["messages"] = asked("go", `{"sum":3}`, "again")["messages"]
	ada.Post(completions, body).Want(http.StatusOK)
	require.Len(t, listed(ada), 1, "the client continues its chat")
	res = ada.Post(responsesPath, object{"model": "helper", "input": "go", "text": object{"format": plus(schema, "type", "json_schema")}}).Want(http.StatusOK)
	require.Equal(t, `{"sum":3}`, outputOf(res))
	require.Equal(t, `{"sum":3}`, outputOf(ada.Get(responsesPath+"/"+res["id"].(string)).Want(http.StatusOK)), "as it is stored")
}
