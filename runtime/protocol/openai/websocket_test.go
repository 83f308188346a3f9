package openai_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/protocol/openai"
)

// serveWith is serve with a configuration of the protocol.
func serveWith(t *testing.T, up *modeltest.Upstream, cfg openai.Config) *bench {
	t.Helper()
	memory := &atomic.Int64{}
	b := serve(t, up, func(c *runtime.Config) {
		c.Protocols = map[string]func(*runtime.Runtime) http.Handler{"/openai/v1": func(rt *runtime.Runtime) http.Handler {
			cfg.Host, cfg.Logger = counting{rt, memory}, c.Logger
			return openai.New(cfg)
		}}
	})
	b.memory = memory
	return b
}

// counting is a host that counts the memory that the protocol reserves.
type counting struct {
	*runtime.Runtime
	memory *atomic.Int64
}

func (h counting) Reserve(bytes int) error {
	err := h.Runtime.Reserve(bytes)
	if err == nil {
		h.memory.Add(int64(bytes))
	}
	return err
}

// code returns the code with which the server closes the connection, after other messages.
func (s *socket) code() websocket.StatusCode {
	s.t.Helper()
	for {
		if _, _, err := s.conn.Read(s.t.Context()); err != nil {
			return websocket.CloseStatus(err)
		}
	}
}

// A connection is rejected as other requests are, and as one that changes something: a page of
// another origin could open it.
func TestSocketsThatAreRejected(t *testing.T) {
	b := serveWith(t, nil, openai.Config{MaxSockets: 1})
	upgrade := []string{"Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "MDEyMzQ1Njc4OWFiY2RlZg=="}
	for name, row := range map[string]struct {
		status  int
		headers []string
	}{
		"no key":      {401, append([]string{"Authorization", ""}, upgrade...)},
		"an origin":   {403, append([]string{"Origin", "https://evil.example"}, upgrade...)},
		"a page":      {403, append([]string{"Sec-Fetch-Site", "cross-site"}, upgrade...)},
		"no upgrade":  {426, nil},
		"other words": {426, []string{"Connection", "Upgrade", "Upgrade", "h2c"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := b.in(t)
			res := b.do("GET", "/responses", "", row.headers...)
			require.Equal(t, row.status, res.status, res.body)
			fits(t, "ErrorResponse", res.json)
		})
	}
	first := b.dial("Origin", strings.TrimSuffix(b.url, "/openai/v1"))
	require.Equal(t, http.StatusServiceUnavailable, b.do("GET", "/responses", "", upgrade...).status, "there is one already")
	r, _ := first.turn(`"model":"helper","input":"a"`)
	require.Equal(t, "completed", r["status"])
	require.NoError(t, first.conn.Close(websocket.StatusNormalClosure, ""))
	require.Eventually(t, func() bool { return strings.Contains(b.log.String(), `"status":101`) }, patience, time.Millisecond)
	require.Equal(t, "completed", turnOf(b.dial(), `"model":"helper","input":"a"`)["status"])
}

const patience = 20 * time.Second

func turnOf(s *socket, body string) map[string]any {
	s.t.Helper()
	r, failure := s.turn(body)
	require.Nil(s.t, failure)
	return r
}

// Errors leave a connection open. The failure of a run is the end of its response.
func TestErrorsOfSockets(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Status(429), modeltest.Stream(modeltest.Text("well")))
	s := serve(t, up, nil).dial()
	for body, param := range map[string]any{
		`{`:                          nil,
		`[]`:                         nil,
		`{"type":"response.create"}`: "model",
		`{"type":"response.cancel","model":"helper","input":"a"}`:                     "type",
		`{"model":"helper","input":"a"}`:                                              "type",
		`{"type":"response.create","model":"helper","input":5}`:                       "input",
		`{"type":"response.create","model":"other","input":"a"}`:                      "model",
		`{"type":"response.create","model":"helper","input":"a","background":true}`:   "background",
		`{"type":"response.create","model":"helper","previous_response_id":"resp_1"}`: "previous_response_id",
	} {
		s.send(body)
		event := s.next()
		require.Equal(t, "error", event["type"], body)
		require.Equal(t, param, event["error"].(map[string]any)["param"], body)
	}
	r, _ := s.turn(`"model":"helper","input":"a"`)
	require.Equal(t, "failed", r["status"])
	require.Equal(t, "rate_limit_exceeded", r["error"].(map[string]any)["code"])
	require.Equal(t, "well", said(turnOf(s, `"model":"helper","input":"a","stream":true`)))
}

// A stored response continues over HTTP and over another connection.
func TestStoredResponsesOfSockets(t *testing.T) {
	b := serve(t, answering(t), nil)
	first := turnOf(b.dial(), `"model":"helper","input":"Remember the code word: cobalt, please."`)
	second := turnOf(b.dial(), `"model":"helper","previous_response_id":"`+first["id"].(string)+`","input":"What is the code word?"`)
	require.Contains(t, said(second), "cobalt")
	_, third := b.respond(`{"model":"helper","store":false,"previous_response_id":"` + first["id"].(string) + `","input":"What is the code word?"}`)
	require.Contains(t, said(third), "cobalt")
}

// The output of a client tool continues a response that is not stored.
func TestClientToolsOfSockets(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.ToolCall("t1", "get_weather", `{}`)), modeltest.Stream(modeltest.Text("It rains.")))
	s := serve(t, up, nil).dial()
	const request = `"model":"helper","store":false,"tools":[{"type":"function","name":"get_weather","parameters":{"type":"object"}}],`
	first := turnOf(s, request+`"input":"a"`)
	second := turnOf(s, request+`"previous_response_id":"`+first["id"].(string)+`","input":[{"type":"function_call_output","call_id":"`+
		last(first)["call_id"].(string)+`","output":"rain"}]`)
	require.Equal(t, "It rains.", said(second))
	require.Contains(t, string(up.Requests()[1].Body), `"tool_use_id":"t1"`)
}

// The end of a connection cancels its response.
func TestSocketsThatEnd(t *testing.T) {
	for name, end := range map[string]func(*socket, *bench){
		"closed": func(s *socket, _ *bench) { _ = s.conn.Close(websocket.StatusNormalClosure, "") },
		"cut":    func(s *socket, _ *bench) { _ = s.conn.CloseNow() },
		"too many": func(s *socket, _ *bench) {
			for range 10 {
				s.send(`{"type":"response.create","model":"helper","input":"a"}`)
			}
			require.Equal(s.t, websocket.StatusPolicyViolation, s.code())
		},
		"too large": func(s *socket, _ *bench) {
			_ = s.conn.Write(s.t.Context(), websocket.MessageText, make([]byte, 50<<20))
			require.Equal(s.t, websocket.StatusMessageTooBig, s.code())
		},
		"the server closes": func(s *socket, b *bench) {
			require.NoError(s.t, b.rt.Close())
			require.Equal(s.t, websocket.StatusGoingAway, s.code())
		},
	} {
		t.Run(name, func(t *testing.T) {
			up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("one "), modeltest.Wait(time.Hour)))
			b := serveWith(t, up, openai.Config{MaxBytes: 1 << 20})
			s := b.dial()
			s.send(`{"type":"response.create","model":"helper","input":"a"}`)
			for s.next()["type"] != "response.output_text.delta" {
			}
			end(s, b)
			require.Eventually(t, func() bool { return strings.Contains(b.log.String(), `"state":"cancelled"`) }, patience, time.Millisecond)
			require.Eventually(t, func() bool { return b.memory.Load() == 0 }, patience, time.Millisecond)
		})
	}
}

// Connections end when they are idle, and accept no request when they are old.
func TestSocketsThatAreOld(t *testing.T) {
	idle := serveWith(t, nil, openai.Config{SocketIdle: 10 * time.Millisecond}).dial()
	require.Equal(t, websocket.StatusNormalClosure, idle.code())

	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("one "), modeltest.Wait(100*time.Millisecond), modeltest.Text("two")))
	old := serveWith(t, up, openai.Config{SocketLife: 50 * time.Millisecond, Heartbeat: time.Millisecond}).dial()
	require.Equal(t, "one two", said(turnOf(old, `"model":"helper","input":"a"`)), "the response in progress ends")
	event := old.next()
	require.Equal(t, "websocket_connection_limit_reached", event["error"].(map[string]any)["code"])
	require.Equal(t, websocket.StatusNormalClosure, old.code())
}
