package openai_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/session"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/wire"
)

const hello = `{"model":"helper","messages":[{"role":"user","content":"hello"}]}`

func TestModelsAreTheAgentsThatAreReady(t *testing.T) {
	b := serve(t, nil, func(c *runtime.Config) {
		broken := c.Agents[0]
		broken.ID, broken.SystemPromptFile = "broken", "missing.txt"
		c.Agents = append(c.Agents, broken)
	})
	list := b.do("GET", "/models", "")
	require.Equal(t, http.StatusOK, list.status)
	fits(t, "ListModelsResponse", list.json)
	require.Len(t, list.json["data"], 1)
	one := b.do("GET", "/models/helper", "")
	fits(t, "Model", one.json)
	require.Equal(t, list.json["data"].([]any)[0], one.json)
	require.Equal(t, http.StatusOK, b.do("HEAD", "/models", "").status)
	for _, id := range []string{"broken", "other"} {
		res := b.do("GET", "/models/"+id, "")
		require.Equal(t, http.StatusNotFound, res.status)
		fits(t, "ErrorResponse", res.json)
		require.Equal(t, "model_not_found", errorOf(t, res.json)["code"])
	}
}

func TestChatCompletion(t *testing.T) {
	usage := model.Usage{InputTokens: 7, OutputTokens: 5, CacheCreationInputTokens: 11, CacheReadInputTokens: 13}
	reply := modeltest.Stream(modeltest.Thinking("hm"), modeltest.Text("Hel", "lo <b> \"you\"\n", "é"), modeltest.Usage(usage))
	up := modeltest.Start(t, modeltest.Anthropic, reply, reply, reply)
	b := serve(t, up, nil)
	before := time.Now().Unix()

	res := b.chat(hello)
	c, message := choice(t, res)
	require.Equal(t, "Hello <b> \"you\"\né", message["content"])
	require.Nil(t, message["refusal"])
	require.Equal(t, "stop", c["finish_reason"])
	require.Equal(t, "helper", res.json["model"])
	require.Equal(t, "chatcmpl-"+res.header.Get("X-Run-Id"), res.json["id"])
	require.GreaterOrEqual(t, res.json["created"], float64(before))
	counts := res.json["usage"].(map[string]any)
	require.Equal(t, []any{31.0, 5.0, 36.0}, []any{counts["prompt_tokens"], counts["completion_tokens"], counts["total_tokens"]})
	require.Equal(t, 13.0, counts["prompt_tokens_details"].(map[string]any)["cached_tokens"])
	require.Equal(t, 11.0, counts["prompt_tokens_details"].(map[string]any)["cache_write_tokens"])

	stream := b.chat(strings.Replace(hello, "{", `{"stream":true,"stream_options":{"include_usage":true},`, 1))
	require.True(t, stream.done)
	require.Equal(t, message["content"], text(stream))
	list, finish := deltas(stream)
	require.Equal(t, []string{"stop"}, finish)
	require.Equal(t, "assistant", list[0]["role"])
	require.Empty(t, list[len(list)-1])
	last := stream.events[len(stream.events)-1]
	require.Equal(t, []any{}, last["choices"])
	require.Equal(t, counts, last["usage"])
	for _, event := range stream.events[:len(stream.events)-1] {
		require.Contains(t, event, "usage")
		require.Nil(t, event["usage"])
	}
	require.NotContains(t, stream.body, "event:", "clients of this protocol read data only")
	require.NotContains(t, stream.body, "hm")

	plain := b.chat(strings.Replace(hello, "{", `{"stream":true,`, 1))
	require.NotContains(t, plain.body, "usage")
}

// The conversation is that of the request: nothing is stored.
func TestChatCompletionCarriesItsHistory(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Stream(modeltest.Text("ok"))))
	store := session.NewMemory(session.MemoryConfig{})
	b := serve(t, up, func(c *runtime.Config) {
		c.Sessions = store
		c.Agents[0].SystemPrompt = "The prompt of the agent."
	})
	for name, row := range map[string]struct{ messages, want string }{
		"one":   {`{"role":"user","content":"a"}`, "user:a"},
		"parts": {`{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`, "user:a\n\nb"},
		"a conversation": {`{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}`,
			"user:a|assistant:b|user:c"},
		"instructions follow the prompt": {`{"role":"developer","content":"d"},{"role":"system","content":"s"},{"role":"user","content":"a"}`,
			"user:Instructions of the application:\n\nd\n\nInstructions of the application:\n\ns\n\na"},
		"the assistant begins": {`{"role":"assistant","content":"b"},{"role":"user","content":"c"}`, "user:(no message)|assistant:b|user:c"},
		"one role twice":       {`{"role":"user","content":"a"},{"role":"user","content":"b"}`, "user:a\n\nb"},
		"empty texts":          {`{"role":"user","content":"a"},{"role":"assistant","content":" "},{"role":"user","content":"b"},{"role":"user","content":""}`, "user:a\n\nb"},
		"a refusal":            {`{"role":"user","content":"a"},{"role":"assistant","content":null,"refusal":"no"},{"role":"user","content":"b"}`, "user:a|assistant:no|user:b"},
		"calls of another server": {`{"role":"user","content":"a"},
			{"role":"assistant","tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":"{}"}}]},
			{"role":"tool","tool_call_id":"x","content":"r"}`, "user:a|assistant:Call of the tool f:\n{}|user:Result of the tool f:\nr"},
	} {
		t.Run(name, func(t *testing.T) {
			b := b.in(t)
			_, message := choice(t, b.chat(`{"model":"helper","messages":[`+row.messages+`]}`))
			require.Equal(t, "ok", message["content"])
			requests := up.Requests()
			var sent struct {
				System   json.RawMessage
				Messages []struct {
					Role    string
					Content []struct{ Text string }
				}
			}
			require.NoError(t, json.Unmarshal(requests[len(requests)-1].Body, &sent))
			var got []string
			for _, m := range sent.Messages {
				require.Len(t, m.Content, 1)
				got = append(got, m.Role+":"+m.Content[0].Text)
			}
			require.Equal(t, row.want, strings.Join(got, "|"))
			require.Contains(t, string(sent.System), "The prompt of the agent.")
			require.NotContains(t, string(sent.System), "Instructions of the application")
		})
	}
	require.NotContains(t, b.log.String(), "delete session")
	for _, line := range strings.Split(b.log.String(), "\n") {
		var entry struct {
			Session string `json:"session_id"`
		}
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Session != "" {
			_, err := store.Transcript(t.Context(), entry.Session, 0, 1)
			require.ErrorIs(t, err, session.ErrUnknown)
		}
	}
}

func TestChatCompletionsThatAreRejected(t *testing.T) {
	b := serve(t, nil, func(c *runtime.Config) {
		broken := c.Agents[0]
		broken.ID, broken.SystemPromptFile = "broken", "missing.txt"
		c.Agents = append(c.Agents, broken)
	})
	with := func(member string) string { return strings.Replace(hello, "{", "{"+member+",", 1) }
	messages := func(m string) string { return `{"model":"helper","messages":[` + m + `]}` }
	for name, row := range map[string]struct {
		body   string
		status int
		param  any
		code   any
	}{
		"not JSON":              {`{`, 400, nil, nil},
		"a wrong type":          {`{"model":1}`, 400, "model", nil},
		"no model":              {`{"messages":[{"role":"user","content":"a"}]}`, 400, "model", nil},
		"an unknown model":      {strings.Replace(hello, "helper", "other", 1), 404, "model", "model_not_found"},
		"unavailable":           {strings.Replace(hello, "helper", "broken", 1), 503, nil, "agent_unavailable"},
		"no messages":           {`{"model":"helper"}`, 400, "messages", nil},
		"nothing to respond to": {messages(`{"role":"user","content":"a"},{"role":"assistant","content":"b"}`), 400, "messages", nil},
		"an unknown role":       {messages(`{"role":"robot","content":"a"}`), 400, "messages[0]", nil},
		"an image":              {messages(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://x/"}}]}`), 400, "messages[0].content[0].image_url", nil},
		"content of a number":   {messages(`{"role":"user","content":1}`), 400, "messages[0].content", nil},
		"a result of no call":   {messages(`{"role":"user","content":"a"},{"role":"tool","tool_call_id":"x","content":"b"}`), 400, "messages[1]", nil},
		"two choices":           {with(`"n":2`), 400, "n", "unsupported_parameter"},
		"log probabilities":     {with(`"logprobs":true`), 400, "logprobs", "unsupported_parameter"},
		"audio":                 {with(`"modalities":["text","audio"]`), 400, "modalities", "unsupported_parameter"},
		"a voice":               {with(`"audio":{"voice":"x"}`), 400, "audio", "unsupported_parameter"},
		"a format":              {with(`"response_format":{"type":"grammar"}`), 400, "response_format", "unsupported_parameter"},
		"an end":                {with(`"stop":["x"]`), 400, "stop", "unsupported_parameter"},
		"functions":             {with(`"functions":[{}]`), 400, "functions", "unsupported_parameter"},
		"a search":              {with(`"web_search_options":{}`), 400, "web_search_options", "unsupported_parameter"},
		"a tool that is chosen": {with(`"tool_choice":{"type":"function","function":{"name":"f"}}`), 400, "tool_choice", "unsupported_parameter"},
		"a required tool":       {with(`"tool_choice":"required"`), 400, "tool_choice", "unsupported_parameter"},
		"a custom tool":         {with(`"tools":[{"type":"custom","custom":{"name":"f"}}]`), 400, "tools[0]", "unsupported_parameter"},
		"too large":             {with(`"user":"` + strings.Repeat("x", 4<<20) + `"`), 413, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := b.in(t)
			res := b.chat(row.body)
			require.Equal(t, row.status, res.status, res.body)
			e := errorOf(t, res.json)
			require.Equal(t, row.param, e["param"], res.body)
			require.Equal(t, row.code, e["code"], res.body)
			require.NotContains(t, res.header, "X-Should-Retry")
		})
	}
	ignored := with(`"temperature":0.5,"top_p":1,"max_tokens":1,"max_completion_tokens":1,"seed":1,"user":"u","store":true,
		"presence_penalty":1,"frequency_penalty":1,"logit_bias":{},"reasoning_effort":"high","service_tier":"auto","n":1,"stop":null,
		"logprobs":false,"parallel_tool_calls":false,"tool_choice":"none","response_format":{"type":"text"},"tools":[],"unknown":{}`)
	require.Equal(t, http.StatusOK, b.chat(ignored).status)
}

func TestErrorsOfTheServerHaveTheFormOfTheProtocol(t *testing.T) {
	b := serve(t, nil, nil)
	for name, row := range map[string]struct {
		method, path string
		headers      []string
		status       int
		code         any
	}{
		"an unknown path":     {"GET", "/other", nil, 404, nil},
		"a method":            {"PUT", "/models", nil, 405, nil},
		"no key":              {"GET", "/models", []string{"Authorization", ""}, 401, "invalid_api_key"},
		"a wrong key":         {"GET", "/models", []string{"Authorization", "Bearer x"}, 401, "invalid_api_key"},
		"no key, no path":     {"GET", "/other", []string{"Authorization", ""}, 401, "invalid_api_key"},
		"another scheme":      {"GET", "/models", []string{"Authorization", "Basic " + key}, 401, "invalid_api_key"},
		"another origin":      {"POST", "/chat/completions", []string{"Origin", "https://other.example"}, 403, "forbidden"},
		"a wrong key and one": {"GET", "/models", []string{"X-Api-Key", "x"}, 401, "invalid_api_key"},
	} {
		t.Run(name, func(t *testing.T) {
			b := b.in(t)
			res := b.do(row.method, row.path, "", row.headers...)
			require.Equal(t, row.status, res.status)
			fits(t, "ErrorResponse", res.json)
			require.Equal(t, row.code, errorOf(t, res.json)["code"])
		})
	}
	require.Equal(t, http.StatusOK, b.do("GET", "/models", "", "Authorization", "bearer "+key).status)
	require.Equal(t, http.StatusOK, b.do("GET", "/models", "", "Authorization", "", "X-Api-Key", key).status)

	// A key in Authorization is not one of /v1.
	b.url = strings.TrimSuffix(b.url, "/openai/v1") + "/v1"
	require.Equal(t, http.StatusUnauthorized, b.do("GET", "/agents", "").status)
}

func TestProtocolOfARuntimeWithoutKeysChecksTheHost(t *testing.T) {
	b := serve(t, nil, func(c *runtime.Config) { c.APIKeys = nil })
	require.Equal(t, http.StatusOK, b.do("GET", "/models", "").status)
	res := b.do("GET", "/models", "", "Host", "rebound.example")
	require.Equal(t, http.StatusForbidden, res.status)
	fits(t, "ErrorResponse", res.json)
	require.Equal(t, http.StatusForbidden, b.do("GET", "/models", "", "Sec-Fetch-Site", "cross-site").status)
}

func TestRunsThatFail(t *testing.T) {
	streamed := strings.Replace(hello, "{", `{"stream":true,`, 1)
	for name, row := range map[string]struct {
		reply  modeltest.Reply
		status int
		code   string
	}{
		"rate":    {modeltest.Status(429), 429, "rate_limit_exceeded"},
		"auth":    {modeltest.Status(401), 502, "auth"},
		"server":  {modeltest.Status(500), 502, "server"},
		"context": {modeltest.PromptTooLong(), 400, "context_length_exceeded"},
		"late":    {modeltest.Stream(modeltest.Text("par", "tial"), modeltest.Error("api_error")), 502, "server"},
	} {
		t.Run(name, func(t *testing.T) {
			b := serve(t, modeltest.Start(t, modeltest.Anthropic, row.reply, row.reply), nil)
			res := b.chat(hello)
			require.Equal(t, row.status, res.status, res.body)
			require.Equal(t, row.code, errorOf(t, res.json)["code"])
			if row.code != "rate_limit_exceeded" {
				require.Equal(t, "false", res.header.Get("X-Should-Retry"), "the tools of a run may have had effects")
			}
			stream := b.chat(streamed)
			require.False(t, stream.done, "a failed stream is not complete")
			require.Equal(t, errorOf(t, res.json), errorOf(t, stream.events[len(stream.events)-1]))
			_, finish := deltas(response{events: stream.events[:len(stream.events)-1]})
			require.Empty(t, finish)
		})
	}
}

func TestReasonsForTheEnd(t *testing.T) {
	for stop, want := range map[string]string{
		model.StopEndTurn: "stop", model.StopMaxTokens: "length", model.StopContext: "length", model.StopRefusal: "content_filter",
	} {
		up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("a"), modeltest.Stop(stop)))
		c, _ := choice(t, serve(t, up, nil).chat(hello))
		require.Equal(t, want, c["finish_reason"], stop)
	}
}

// Tools of the agent are executed by the server: the client sees only texts, and why a call was
// denied.
func TestToolsOfTheAgentAreNoCallsForTheClient(t *testing.T) {
	replies := []modeltest.Reply{
		modeltest.Stream(modeltest.Text("I look."), modeltest.ToolCall("t1", "weather", `{}`), modeltest.ToolCall("t2", "Bash", `{"command":"rm x"}`)),
		modeltest.Stream(modeltest.Text("It rains.")),
	}
	up := modeltest.Start(t, modeltest.Anthropic, append(replies, replies...)...)
	b := serve(t, up, func(c *runtime.Config) {
		c.Tools = []tool.Tool{tool.Func(tool.Spec{Name: "weather", ReadOnly: true}, func(context.Context, struct{}) (string, error) {
			return "rain", nil
		})}
	})
	c, message := choice(t, b.chat(hello))
	require.Equal(t, "I look.\n\nIt rains.", message["content"])
	require.NotContains(t, message, "tool_calls")
	require.Contains(t, message["refusal"], "Bash was not executed: ")
	require.Equal(t, "stop", c["finish_reason"])
	stream := b.chat(strings.Replace(hello, "{", `{"stream":true,`, 1))
	require.Equal(t, message["content"], text(stream))
	list, _ := deltas(stream)
	require.Equal(t, message["refusal"], list[len(list)-2]["refusal"])
}

func TestDisconnectCancelsTheRun(t *testing.T) {
	for _, body := range []string{hello, strings.Replace(hello, "{", `{"stream":true,`, 1)} {
		up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("a"), modeltest.Hang()))
		b := serve(t, up, nil)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			up.Await(t, 1)
			cancel()
		}()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url+"/chat/completions", strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+key)
		if res, err := http.DefaultClient.Do(req); err == nil {
			buf := make([]byte, 1<<20)
			for err == nil {
				_, err = res.Body.Read(buf)
			}
			res.Body.Close()
		}
		_, early := up.Await(t, 1).End()
		require.True(t, early)
	}
}

// A proxy that counts the tokens of runs learns those of this protocol too, also of a failed run.
func TestUsageForAProxy(t *testing.T) {
	for _, stream := range []bool{false, true} {
		up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("ok")), modeltest.Stream(modeltest.Text("ok"), modeltest.Drop()))
		b := serve(t, up, nil)
		for range 2 {
			res := b.open(t.Context(), "POST", "/chat/completions", strings.Replace(hello, "{", `{"stream":`+strconv.FormatBool(stream)+`,`, 1), "Te", "trailers")
			for buf := make([]byte, 1<<20); ; {
				if _, err := res.Body.Read(buf); err != nil {
					break
				}
			}
			res.Body.Close()
			report := res.Header.Get(runvalue.UsageHeader)
			if stream {
				report = res.Trailer.Get(runvalue.UsageHeader)
			}
			var usage wire.RunUsage
			require.NoError(t, json.Unmarshal([]byte(report), &usage), "%v", res.Header)
			require.Equal(t, "m", usage.Model)
			require.Positive(t, usage.Usage.InputTokens+usage.Usage.OutputTokens, report)
			require.NotEmpty(t, res.Header.Get("X-Run-Id"))
		}
	}
}

// Requests share the memory of the runtime with its runs.
func TestBodiesShareTheMemoryOfTheRuntime(t *testing.T) {
	b := serve(t, nil, func(c *runtime.Config) { c.Limits = agent.Limits{MaxMemoryBytes: 1 << 20} })
	large := strings.Replace(hello, "hello", strings.Repeat("x", 1<<20), 1)
	res := b.chat(large)
	require.Equal(t, http.StatusServiceUnavailable, res.status)
	require.Equal(t, "1", res.header.Get("Retry-After"))
	require.Equal(t, "out_of_memory", errorOf(t, res.json)["code"])
	require.Equal(t, http.StatusOK, b.chat(hello).status)
}
