package openai_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/run"
	"github.com/seed93082962/agenthost/runtime/session"
)

// respond sends a request for a response, and checks all that it returns against the public
// schemas. It returns the response, which is that of the last event of a stream.
func (b *bench) respond(body string, headers ...string) (response, map[string]any) {
	b.t.Helper()
	res := b.do("POST", "/responses", body, headers...)
	if res.status != http.StatusOK {
		fits(b.t, "ErrorResponse", res.json)
		return res, nil
	}
	if res.json != nil {
		fits(b.t, "ResponseResource", res.json)
		return res, res.json
	}
	require.True(b.t, res.done)
	for i, event := range res.events {
		fits(b.t, "Event_"+event["type"].(string), event)
		require.EqualValues(b.t, i, event["sequence_number"])
		require.Contains(b.t, res.body, "event: "+event["type"].(string)+"\n")
	}
	last := res.events[len(res.events)-1]["response"].(map[string]any)
	require.Equal(b.t, last["output"], replayed(b.t, res.events), "the events make the output")
	return res, last
}

// replayed returns the output that the events of a stream make.
func replayed(t *testing.T, events []map[string]any) []any {
	t.Helper()
	items := []any{}
	deltas := map[string]string{}
	for _, event := range events {
		id, _ := event["item_id"].(string)
		switch event["type"] {
		case "response.output_text.delta", "response.reasoning.delta", "response.function_call_arguments.delta", "response.refusal.delta":
			deltas[id] += event["delta"].(string)
		case "response.output_text.done", "response.reasoning.done":
			require.Equal(t, deltas[id], event["text"])
		case "response.refusal.done":
			require.Equal(t, deltas[id], event["refusal"])
		case "response.function_call_arguments.done":
			require.Equal(t, deltas[id], event["arguments"])
		case "response.output_item.added":
			require.EqualValues(t, len(items), event["output_index"])
		case "response.output_item.done":
			require.EqualValues(t, len(items), event["output_index"])
			items = append(items, event["item"])
		}
	}
	return items
}

// types returns the types of the items of a response.
func types(r map[string]any) []string {
	var all []string
	for _, i := range r["output"].([]any) {
		all = append(all, i.(map[string]any)["type"].(string))
	}
	return all
}

// said returns the text of a response.
func said(r map[string]any) string {
	var all strings.Builder
	for _, i := range r["output"].([]any) {
		if i := i.(map[string]any); i["type"] == "message" {
			all.WriteString(i["content"].([]any)[0].(map[string]any)["text"].(string))
		}
	}
	return all.String()
}

// last returns the last item of a response.
func last(r map[string]any) map[string]any {
	list := r["output"].([]any)
	return list[len(list)-1].(map[string]any)
}

// onDisk starts runtimes with one directory of sessions, which a bus may connect.
func onDisk(t *testing.T, up *modeltest.Upstream) func(...run.Bus) *bench {
	t.Helper()
	cwd, state := t.TempDir(), t.TempDir()
	return func(bus ...run.Bus) *bench {
		return serve(t, up, func(c *runtime.Config) {
			files, err := session.NewFiles(session.FilesConfig{Dir: state, CWD: cwd})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, files.Close()) })
			c.Sessions, c.CWD = files, cwd
			if len(bus) > 0 {
				c.Bus = bus[0]
			}
		})
	}
}

// A response continues in its session, also after a restart. Responses that are continued twice
// branch.
func TestResponsesContinueAndBranch(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Choose(func(r *modeltest.Request) modeltest.Reply {
		var body struct {
			Messages []struct{ Content []struct{ Text string } }
		}
		if json.Unmarshal(r.Body, &body) != nil {
			return modeltest.Status(400)
		}
		var texts []string
		for _, m := range body.Messages {
			texts = append(texts, m.Content[0].Text)
		}
		return modeltest.Stream(modeltest.Text("<" + strings.Join(texts, "|") + ">"))
	})))
	start := onDisk(t, up)
	b := start()
	ask := func(b *bench, previous any, text string) map[string]any {
		member := ""
		if previous != nil {
			member = fmt.Sprintf(`"previous_response_id":%q,`, previous)
		}
		res, r := b.respond(`{"model":"helper",` + member + `"input":"` + text + `"}`)
		require.NotNil(t, r, res.body)
		require.Equal(t, previous, r["previous_response_id"])
		return r
	}
	first := ask(b, nil, "a")
	require.Equal(t, "<a>", said(first))
	b = start()
	second := ask(b, first["id"], "b")
	require.Equal(t, "<a|<a>|b>", said(second))
	session := func(r map[string]any) string { return r["id"].(string)[len("resp_")+32:] }
	require.Equal(t, session(first), session(second))

	third := ask(b, first["id"], "c")
	require.Equal(t, "<a|<a>|c>", said(third), "the conversation up to the first response")
	require.NotEqual(t, session(first), session(third))
	require.Equal(t, "<a|<a>|b|<a|<a>|b>|d>", said(ask(b, second["id"], "d")), "the other branch")

	// At the same time, and at two replicas, each continues the same response.
	bus := run.NewMemoryBus()
	replicas := []*bench{start(bus), start(bus)}
	fourth := ask(b, nil, "x")
	var asking sync.WaitGroup
	answers := make([]string, 16)
	for i := range answers {
		asking.Go(func() {
			res := replicas[i%2].do("POST", "/responses", fmt.Sprintf(`{"model":"helper","previous_response_id":%q,"input":"y%d"}`, fourth["id"], i))
			answers[i] = said(res.json)
		})
	}
	asking.Wait()
	for i, text := range answers {
		require.Equal(t, fmt.Sprintf("<x|<x>|y%d>", i), text)
	}
}

func TestResponsesAreDeletedAndNotStored(t *testing.T) {
	b := serve(t, nil, nil)
	_, r := b.respond(`{"model":"helper","input":"a"}`)
	path := "/responses/" + r["id"].(string)
	require.Equal(t, http.StatusOK, b.do("GET", path, "").status)
	res := b.do("DELETE", path, "")
	require.Equal(t, map[string]any{"id": r["id"], "object": "response", "deleted": true}, res.json)
	_, unstored := b.respond(`{"model":"helper","input":"a","store":false}`)
	require.Equal(t, false, unstored["store"])
	for _, id := range []any{r["id"], unstored["id"], "resp_1", "x"} {
		for _, method := range []string{"GET", "DELETE"} {
			res := b.do(method, "/responses/"+id.(string), "")
			require.Equal(t, http.StatusNotFound, res.status)
			fits(t, "ErrorResponse", res.json)
		}
		res, _ := b.respond(fmt.Sprintf(`{"model":"helper","input":"a","previous_response_id":%q}`, id))
		require.Equal(t, http.StatusBadRequest, res.status)
		require.Equal(t, "previous_response_not_found", errorOf(t, res.json)["code"])
	}
}

// A request has references in place of the items of stored responses.
func TestItemReferences(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.ToolCall("t1", "get_weather", `{"city":"Rome"}`)),
		modeltest.Stream(modeltest.Text("It rains.")), modeltest.Stream(modeltest.Text("Yes.")))
	start := onDisk(t, up)
	const request = `{"model":"helper","tools":[{"type":"function","name":"get_weather","parameters":{"type":"object"}}],"input":[{"role":"user","content":"a"}`
	_, first := start().respond(request + `]}`)
	reference := func(r map[string]any) string { return fmt.Sprintf(`,{"type":"item_reference","id":%q}`, last(r)["id"]) }
	input := request + reference(first) + fmt.Sprintf(`,{"type":"function_call_output","call_id":%q,"output":"rain"}`, last(first)["call_id"])
	_, second := start().respond(input + `]}`)
	require.Equal(t, "It rains.", said(second))
	require.Contains(t, string(up.Requests()[1].Body), `"tool_use_id":"t1"`, "the run continues")
	_, third := start().respond(input + reference(second) + `,{"role":"user","content":"Really?"}]}`)
	require.Equal(t, "Yes.", said(third))
	sent := string(up.Requests()[2].Body)
	for _, text := range []string{`Call of the tool get_weather:\n{\"city\":\"Rome\"}`, `Result of the tool get_weather:\nrain`, "It rains.", "Really?"} {
		require.Contains(t, sent, text)
	}
}

// A run waits for the results of client tools, with the previous response or with the whole
// conversation.
func TestClientToolsOfResponses(t *testing.T) {
	const tools = `"tools":[{"type":"function","name":"get_weather","parameters":{"type":"object"}}]`
	for name, row := range map[string]struct{ store, input string }{
		"previous": {"true", `"previous_response_id":%[1]q,"input":[{"type":"function_call_output","call_id":%[2]q,"output":"rain"}]`},
		"items": {"false", `"input":[{"type":"message","role":"user","content":"a"},
			{"type":"function_call","call_id":%[2]q,"name":"get_weather","arguments":"{}"},
			{"type":"function_call_output","call_id":%[2]q,"output":[{"type":"input_text","text":"rain"}]}]`},
	} {
		t.Run(name, func(t *testing.T) {
			up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.ToolCall("t1", "get_weather", `{}`)), modeltest.Stream(modeltest.Text("It rains.")))
			start := onDisk(t, up)
			_, first := start().respond(`{"model":"helper",` + tools + `,"store":` + row.store + `,"input":"a"}`)
			b := start()
			input := fmt.Sprintf(row.input, first["id"], last(first)["call_id"])
			_, second := b.respond(`{"model":"helper",` + tools + `,"store":` + row.store + `,"stream":true,` + input + `}`)
			require.Equal(t, []string{"message"}, types(second), "the result is that of the client")
			require.Equal(t, "It rains.", said(second))
			require.Contains(t, string(up.Requests()[1].Body), `"tool_use_id":"t1"`)
			stored := b.do("GET", "/responses/"+second["id"].(string), "")
			if row.store == "false" {
				require.Equal(t, http.StatusNotFound, stored.status)
				return
			}
			require.Equal(t, second["output"], stored.json["output"])
		})
	}
}

// Calls of the agent are visible items, and wait for an approval if the agent's definition does not
// allow them.
func TestApprovals(t *testing.T) {
	for name, row := range map[string]struct{ decision, want string }{
		"approve": {`"approve":true`, "completed"},
		"reject":  {`"approve":false,"reason":"not now"`, "failed"},
	} {
		t.Run(name, func(t *testing.T) {
			up := modeltest.Start(t, modeltest.Anthropic,
				modeltest.Stream(modeltest.ToolCall("t1", "Glob", `{"pattern":"*"}`), modeltest.ToolCall("t2", "Write", `{"file_path":"f","content":"x"}`)),
				modeltest.Stream(modeltest.Text("Done.")))
			b := onDisk(t, up)()
			_, first := b.respond(`{"model":"helper","stream":true,"input":"a"}`)
			require.Equal(t, []string{"mcp_call", "mcp_approval_request"}, types(first))
			require.Equal(t, "Glob", first["output"].([]any)[0].(map[string]any)["name"])
			request := last(first)
			require.Equal(t, []any{"Write", "helper"}, []any{request["name"], request["server_label"]})
			_, second := b.respond(fmt.Sprintf(`{"model":"helper","previous_response_id":%q,
				"input":[{"type":"mcp_approval_response","approval_request_id":%q,%s}]}`, first["id"], request["id"], row.decision))
			require.Equal(t, []string{"mcp_call", "message"}, types(second))
			call := second["output"].([]any)[0].(map[string]any)
			require.Equal(t, row.want, call["status"])
			if row.want == "failed" {
				require.Contains(t, call["error"], "not now")
			}
		})
	}
}

func TestResponsesThatFail(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Status(429), modeltest.Stream(modeltest.Text("par"), modeltest.Error("api_error")),
		modeltest.Stream(modeltest.Text("cut"), modeltest.Stop("max_tokens")))
	b := serve(t, up, nil)
	res, _ := b.respond(`{"model":"helper","input":"a"}`)
	require.Equal(t, http.StatusTooManyRequests, res.status)
	_, r := b.respond(`{"model":"helper","input":"a","stream":true}`)
	require.Equal(t, "failed", r["status"])
	require.Equal(t, "server", r["error"].(map[string]any)["code"])
	require.Equal(t, "par", said(r))
	_, r = b.respond(`{"model":"helper","input":"a","stream":true}`)
	require.Equal(t, "incomplete", r["status"])
	require.Equal(t, "max_output_tokens", r["incomplete_details"].(map[string]any)["reason"])

	for name, row := range map[string]struct{ body, param string }{
		"no input":       {`{"model":"helper"}`, "input"},
		"no model":       {`{"input":"a"}`, "model"},
		"background":     {`{"model":"helper","input":"a","background":true,"store":false}`, "background"},
		"a conversation": {`{"model":"helper","input":"a","conversation":"c"}`, "conversation"},
		"a format":       {`{"model":"helper","input":"a","text":{"format":{"type":"grammar"}}}`, "text.format"},
		"a tool":         {`{"model":"helper","input":"a","tools":[{"type":"web_search"}]}`, "tools[0]"},
		"an image":       {`{"model":"helper","input":[{"role":"user","content":[{"type":"input_image","image_url":"x"}]}]}`, "input[0].content[0].image_url"},
		"an item":        {`{"model":"helper","input":[{"type":"item_reference","id":"x"}]}`, "input[0]"},
		"another item":   {`{"model":"helper","input":[{"type":"item_reference","id":"msg_` + strings.Repeat("A", 22) + `0_~s"}]}`, "input[0]"},
		"a bad item":     {`{"model":"helper","input":[{"type":"item_reference","id":"msg_` + strings.Repeat("A", 22) + `0_` + strings.Repeat("A", 40) + `"}]}`, "input[0]"},
		"another type":   {`{"model":"helper","input":[{"type":"computer_call"}]}`, "input[0]"},
		"a role":         {`{"model":"helper","input":[{"role":"robot","content":"x"}]}`, "input[0]"},
		"a prompt":       {`{"model":"helper","input":"a","prompt":{"id":"p"}}`, "prompt"},
		"probabilities":  {`{"model":"helper","input":"a","top_logprobs":1}`, "top_logprobs"},
	} {
		t.Run(name, func(t *testing.T) {
			b := b.in(t)
			res, _ := b.respond(row.body)
			require.Equal(t, http.StatusBadRequest, res.status, res.body)
			require.Equal(t, row.param, errorOf(t, res.json)["param"], res.body)
		})
	}
}
