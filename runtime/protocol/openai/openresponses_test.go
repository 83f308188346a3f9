package openai_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// socket is a WebSocket connection of a client.
type socket struct {
	t    *testing.T
	conn *websocket.Conn
}

// dial opens a connection with headers in pairs, which ends with the test.
func (b *bench) dial(headers ...string) *socket {
	b.t.Helper()
	h := http.Header{"Authorization": {"Bearer " + key}}
	for i := 0; i+1 < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	conn, res, err := websocket.Dial(b.t.Context(), b.url+"/responses", &websocket.DialOptions{HTTPHeader: h})
	if res != nil && res.Body != nil {
		res.Body.Close()
	}
	require.NoError(b.t, err)
	conn.SetReadLimit(-1)
	b.t.Cleanup(func() { _ = conn.CloseNow() })
	return &socket{b.t, conn}
}

func (s *socket) send(body string) {
	s.t.Helper()
	require.NoError(s.t, s.conn.Write(s.t.Context(), websocket.MessageText, []byte(body)))
}

// next returns the next message, which is valid by the public schemas.
func (s *socket) next() map[string]any {
	s.t.Helper()
	kind, data, err := s.conn.Read(s.t.Context())
	require.NoError(s.t, err)
	require.Equal(s.t, websocket.MessageText, kind)
	var v map[string]any
	require.NoError(s.t, json.Unmarshal(data, &v), "%s", data)
	if v["type"] == "error" {
		fits(s.t, "WebSocketErrorEvent", v)
	} else {
		fits(s.t, "Event_"+v["type"].(string), v)
	}
	return v
}

// turn sends a request for a response. It returns the response, or the error.
func (s *socket) turn(body string) (response, failure map[string]any) {
	s.t.Helper()
	s.send(`{"type":"response.create",` + body + `}`)
	return s.end()
}

// end returns the response in progress, or the error.
func (s *socket) end() (response, failure map[string]any) {
	s.t.Helper()
	var events []map[string]any
	for {
		event := s.next()
		if event["type"] == "error" {
			return nil, event["error"].(map[string]any)
		}
		require.EqualValues(s.t, len(events), event["sequence_number"])
		events = append(events, event)
		switch event["type"] {
		case "response.completed", "response.failed", "response.incomplete":
			r := event["response"].(map[string]any)
			require.Equal(s.t, r["output"], replayed(s.t, events), "the events make the output")
			return r, nil
		}
	}
}

// answering is an upstream that calls get_weather if it is asked for the weather, and otherwise
// responds with a text. It requires that requests about a code word have it.
func answering(t *testing.T) *modeltest.Upstream {
	t.Helper()
	return modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Choose(func(r *modeltest.Request) modeltest.Reply {
		body := string(r.Body)
		switch {
		case strings.Contains(body, "the weather like"):
			return modeltest.Stream(modeltest.ToolCall("t1", "get_weather", `{"location":"San Francisco, CA"}`))
		case strings.Contains(body, "What is the code word?"):
			return modeltest.Stream(modeltest.Text(body[strings.Index(body, "code word: "):][:20]))
		case strings.Contains(body, "code word"):
			return modeltest.Stream(modeltest.Text("OK"))
		}
		return modeltest.Stream(modeltest.Thinking("I count."), modeltest.Text("Hello", " my", " friend"))
	})))
}

// TestOpenResponses has the cases of the compliance suite of Open Responses of 2026-04-24, by their
// ids there: 10 over HTTP, and 7 over WebSocket.
func TestOpenResponses(t *testing.T) {
	const (
		weather = `"tools":[{"type":"function","name":"get_weather","description":"Get the current weather for a location",
			"parameters":{"type":"object","properties":{"location":{"type":"string"}},"required":["location"]}}]`
		asked = `"input":[{"type":"message","role":"user","content":"What's the weather like in San Francisco?"}]`
		user  = `"input":[{"type":"message","role":"user","content":"Say hello in exactly 3 words."}]`
	)
	up := answering(t)
	b := serve(t, up, nil)
	for id, row := range map[string]struct{ body, want string }{
		"basic-response": {user, "message"},
		"assistant-phase": {`"input":[{"type":"message","role":"assistant","phase":"commentary","content":"I should answer with the saved number."},
			{"type":"message","role":"assistant","phase":"final_answer","content":"The number is four."},
			{"type":"message","role":"user","content":"Repeat only the number."}]`, "message"},
		"streaming-response": {`"stream":true,` + user, "message"},
		"system-prompt": {`"input":[{"type":"message","role":"system","content":"You are a pirate. Always respond in pirate speak."},
			{"type":"message","role":"user","content":"Say hello."}]`, "message"},
		"image-input": {`"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"What do you see in this image?"},
			{"type":"input_image","image_url":"` + dataURL("image/png", heart) + `"}]}]`, "message"},
		"tool-calling": {weather + `,` + asked, "function_call"},
		"multi-turn": {`"input":[{"type":"message","role":"user","content":"My name is Alice."},
			{"type":"message","role":"assistant","content":"Hello Alice! Nice to meet you. How can I help you today?"},
			{"type":"message","role":"user","content":"What is my name?"}]`, "message"},
		// of a version before
		"tool-calling-streaming": {`"stream":true,` + weather + `,` + asked, "function_call"},
		"string-input":           {`"input":"Say hello."`, "message"},
	} {
		t.Run(id, func(t *testing.T) {
			b := b.in(t)
			res, r := b.respond(`{"model":"helper",` + row.body + `}`)
			require.NotNil(t, r, res.body)
			require.Equal(t, "completed", r["status"])
			require.Contains(t, types(r), row.want)
			require.Equal(t, 10.0, r["usage"].(map[string]any)["input_tokens"])
			if row.want == "message" {
				require.Equal(t, []string{"reasoning", "message"}, types(r))
				require.Equal(t, "Hello my friend", said(r))
			} else {
				require.JSONEq(t, `{"location":"San Francisco, CA"}`, last(r)["arguments"].(string))
			}
			again := b.do("GET", "/responses/"+r["id"].(string), "")
			fits(t, "ResponseResource", again.json)
			require.Equal(t, r["output"], again.json["output"])
			require.Equal(t, r["usage"], again.json["usage"])
			require.Equal(t, r["status"], again.json["status"])
		})
	}
	t.Run("response-output-phase-schema", func(t *testing.T) {
		_, r := b.in(t).respond(`{"model":"helper",` + user + `}`)
		for _, phase := range []string{"commentary", "final_answer"} {
			last(r)["phase"] = phase
			fits(t, "ResponseResource", r)
		}
	})
	t.Run("compact-response", func(t *testing.T) {
		r := b.in(t).compact(`{"model":"helper","prompt_cache_key":"openresponses-compact-test","input":[
			{"type":"message","role":"user","content":"We agreed to launch on Tuesday and notify support first."},
			{"type":"message","role":"assistant","content":"Understood. The launch is Tuesday, with support notified beforehand."}]}`)
		require.Equal(t, []string{"compaction"}, types(r))
		require.Equal(t, 10.0, r["usage"].(map[string]any)["input_tokens"])
	})
	t.Run("compact-missing-model", func(t *testing.T) {
		res := b.in(t).do("POST", "/responses/compact", `{"input":[{"type":"message","role":"user","content":"Compact this conversation."}]}`)
		require.Equal(t, http.StatusBadRequest, res.status)
		require.Equal(t, "model", errorOf(t, res.json)["param"])
	})

	const unstored = `"model":"helper","store":false,`
	in := func(t *testing.T) *bench { return b.in(t) }
	t.Run("websocket-response", func(t *testing.T) {
		r, _ := in(t).dial().turn(`"model":"helper","input":[{"type":"message","role":"user","content":"Count from 1 to 3."}]`)
		require.Equal(t, "completed", r["status"])
		require.Equal(t, "Hello my friend", said(r))
	})
	t.Run("websocket-sequential-responses", func(t *testing.T) {
		s := in(t).dial()
		for _, text := range []string{"first", "second"} {
			s.send(`{"type":"response.create",` + unstored + `"input":"Reply with exactly: ` + text + `"}`)
		}
		for range 2 {
			r, _ := s.end()
			require.Equal(t, "completed", r["status"])
		}
	})
	t.Run("websocket-continuation", func(t *testing.T) {
		s := in(t).dial()
		first, _ := s.turn(unstored + `"input":"Remember the code word: cobalt. Reply with OK."`)
		second, _ := s.turn(unstored + `"previous_response_id":"` + first["id"].(string) + `","input":"What is the code word? Reply with only the code word."`)
		require.Contains(t, said(second), "cobalt")
		third, _ := s.turn(unstored + `"previous_response_id":"` + second["id"].(string) + `","input":"What is the code word?"`)
		require.Contains(t, said(third), "cobalt")
	})
	t.Run("websocket-reconnect-store-false-recovery", func(t *testing.T) {
		first, _ := in(t).dial().turn(unstored + `"input":"Remember the code word: copper. Reply with OK."`)
		s := in(t).dial()
		_, e := s.turn(unstored + `"previous_response_id":"` + first["id"].(string) + `","input":"Try to continue."`)
		require.Equal(t, "previous_response_not_found", e["code"])
		r, _ := s.turn(unstored + `"input":[{"type":"message","role":"user","content":"Start a new response."}]`)
		require.Equal(t, "completed", r["status"])
	})
	t.Run("websocket-previous-response-not-found", func(t *testing.T) {
		_, e := in(t).dial().turn(unstored + `"previous_response_id":"resp_openresponses_missing_1764967971000","input":"This should fail."`)
		require.Equal(t, "previous_response_not_found", e["code"])
	})
	t.Run("websocket-failed-continuation-evicts-cache", func(t *testing.T) {
		s := in(t).dial()
		first, _ := s.turn(unstored + `"input":"Remember the code word: ember. Reply with OK."`)
		previous := `"previous_response_id":"` + first["id"].(string) + `",`
		_, e := s.turn(unstored + previous + `"input":[{"type":"function_call_output","call_id":"call_openresponses_missing","output":"No matching tool call."}]`)
		require.Equal(t, "input", e["param"])
		_, e = s.turn(unstored + previous + `"input":"Try to continue."`)
		require.Equal(t, "previous_response_not_found", e["code"])
	})
	t.Run("websocket-compact-new-chain", func(t *testing.T) {
		compacted := in(t).compact(`{"model":"helper","input":[
			{"type":"message","role":"user","content":[{"type":"input_text","text":"Remember the compaction code word: slate."}]},
			{"type":"message","role":"assistant","content":[{"type":"output_text","text":"OK."}]},
			{"type":"message","role":"user","content":[{"type":"input_text","text":"Compress this conversation for later continuation."}]}]}`)
		input, err := json.Marshal(append(compacted["output"].([]any), map[string]any{"type": "message", "role": "user", "content": "Continue from here."}))
		require.NoError(t, err)
		r, _ := in(t).dial().turn(unstored + `"tools":[],"input":` + string(input))
		require.Equal(t, "completed", r["status"])
		requests := up.Requests()
		require.Contains(t, string(requests[len(requests)-1].Body), `before this message:\n\nOK\n\nContinue`, "the summary")
	})
}

// compact compacts a conversation.
func (b *bench) compact(body string) map[string]any {
	b.t.Helper()
	res := b.do("POST", "/responses/compact", body)
	require.Equal(b.t, http.StatusOK, res.status, res.body)
	fits(b.t, "CompactResource", res.json)
	return res.json
}
