package mcp_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/tool"
)

// protocolMethods are all methods of the protocol's versions, in both directions.
var protocolMethods = []string{
	"initialize", "ping", "server/discover", "subscriptions/listen", "tools/list", "tools/call", "prompts/list", "prompts/get",
	"resources/list", "resources/templates/list", "resources/read", "resources/subscribe", "resources/unsubscribe",
	"completion/complete", "logging/setLevel", "roots/list", "sampling/createMessage", "elicitation/create",
	"tasks/get", "tasks/result", "tasks/list", "tasks/cancel", "tasks/update",
	"notifications/initialized", "notifications/cancelled", "notifications/progress", "notifications/message",
	"notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed",
	"notifications/resources/updated", "notifications/roots/list_changed", "notifications/elicitation/complete",
	"notifications/tasks/status", "notifications/subscriptions/acknowledged", "", "unknown", "rpc.discover", "\x00",
	strings.Repeat("long/", 10_000),
}

var oddParams = []string{
	"", "null", "{}", "[]", `"text"`, "17", "true", `[null]`, `{"requestId":null}`, `{"requestId":1}`, `{"requestId":{}}`,
	`{"progressToken":{},"progress":"x"}`, `{"_meta":7}`, `{"_meta":{"progressToken":[]}}`, `{"elicitationId":null}`,
	`{"level":3,"data":{}}`, `{"uri":{}}`, `{"tools":null}`, strings.Repeat("[", 150) + strings.Repeat("]", 150),
	`{"n":1e999999,"m":-0,"o":123456789012345678901234567890}`,
}

var oddIDs = []string{
	"", "null", "0", "1", "-1", "1.5", "1e300", "123456789012345678901234567890", `""`, `"a"`, `"1"`, "{}", "[]", "true",
	`"` + strings.Repeat("x", 100_000) + `"`,
}

// oddMessages are messages that a server may not send, or that this client does not use. None ends
// the connection.
func oddMessages() (messages []string, requests int) {
	for _, method := range protocolMethods {
		name, _ := json.Marshal(method)
		for i, params := range oddParams {
			for j, id := range oddIDs {
				if i > 3 && j > 3 && i != j { // each with each would take too long
					continue
				}
				message := `{"jsonrpc":"2.0"`
				if id != "" {
					message += `,"id":` + id
				}
				if params != "" {
					message += `,"params":` + params
				}
				messages = append(messages, message+`,"method":`+string(name)+"}")
				if c := (id + " ")[0]; len(id) < 200 && (c == '"' || c == '-' || c >= '0' && c <= '9') {
					requests++
				}
			}
		}
	}
	for _, rest := range []string{
		``, `,"result":{}`, `,"result":null`, `,"result":[]`, `,"result":7`, `,"error":{}`, `,"error":null`, `,"error":7`,
		`,"error":{"code":"x"}`, `,"error":{"code":1e99,"message":"m"}`, `,"error":{"code":-32003,"message":"m"},"result":{}`,
	} {
		for _, id := range append(oddIDs, "99999", "-5", `"999"`) {
			if id != "" {
				id = `,"id":` + id
			}
			messages = append(messages, `{"jsonrpc":"2.0"`+id+rest+`}`)
		}
	}
	messages = append(messages, `[]`, `[{"jsonrpc":"2.0","method":"notifications/elicitation/complete"}]`,
		`[{"jsonrpc":"2.0","id":7,"method":"ping"},{"jsonrpc":"2.0","id":7,"method":"ping"},{"jsonrpc":"2.0","id":8,"method":"roots/list"}]`)
	return messages, requests + 3
}

// hostile is a server that sends odd messages before its response to a call of attack, and reports
// the replies to them as the result of a call of report.
type hostile struct {
	mu      sync.Mutex
	replies map[string]int // by kind: pong, rejection or anything else
}

// receive handles a message to the server and returns the messages that it sends for it.
func (h *hostile) receive(data []byte) []string {
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct{ Name string }
		Result json.RawMessage
		Error  struct{ Code int }
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return []string{err.Error()}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.replies == nil {
		h.replies = map[string]int{}
	}
	var sent []string
	result := `{}`
	switch {
	case m.Method == "" && m.Error.Code == -32601:
		h.replies["rejection"]++
		return nil
	case m.Method == "":
		h.replies[string(m.Result)]++
		return nil
	case m.ID == nil:
		return nil
	case m.Method == "initialize":
		result = `{"protocolVersion":"2025-03-26","serverInfo":{"name":"hostile","version":"1"},"capabilities":{"tools":{"listChanged":true}}}`
	case m.Method == "tools/list":
		result = `{"tools":[` + entry("attack", "") + "," + entry("report", "") + `]}`
	case m.Params.Name == "attack":
		sent, _ = oddMessages()
		result = `{"content":[{"type":"text","text":"done"}]}`
	case m.Params.Name == "report":
		text, _ := json.Marshal(h.replies)
		quoted, _ := json.Marshal(string(text))
		result = `{"content":[{"type":"text","text":` + string(quoted) + `}]}`
	}
	return append(sent, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result))
}

// serveHostile is the server over stdio. It reads while it writes.
func serveHostile() int {
	h, out, sending := hostile{}, make(chan string, 1<<20), sync.WaitGroup{}
	sending.Go(func() {
		w := bufio.NewWriter(os.Stdout)
		for v := range out {
			fmt.Fprintln(w, v)
			if len(out) == 0 {
				_ = w.Flush() // the parent may be gone
			}
		}
	})
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			close(out)
			return 0
		}
		for _, v := range h.receive(line) {
			out <- v
		}
	}
}

// event writes a message as an event.
func event(w io.Writer, message string) { fmt.Fprintf(w, "event: message\ndata: %s\n\n", message) }

// ServeHTTP is the server over streamable HTTP. Each response is a stream.
func (h *hostile) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(r.Body)
	if err != nil || r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	sent := h.receive(data)
	if len(sent) == 0 {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Mcp-Session-Id", "s1")
	for _, v := range sent {
		event(w, v)
	}
}

// overSSE is the server over the older transport: one stream for everything that it sends.
func (h *hostile) overSSE() http.Handler {
	out := make(chan string, 1<<20)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			data, err := io.ReadAll(r.Body)
			if err == nil {
				for _, v := range h.receive(data) {
					out <- v
				}
			}
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "event: endpoint\ndata: /messages\n\n")
		for {
			http.NewResponseController(w).Flush() //nolint:errcheck // the client may have left
			select {
			case v := <-out:
				event(w, v)
			case <-r.Context().Done():
				return
			}
		}
	})
}

var hostiles = map[string]func(t testing.TB) agent.MCPServer{
	"stdio": func(t testing.TB) agent.MCPServer { return stdio(t, "hostile") },
	"http":  func(t testing.TB) agent.MCPServer { return overHTTP(web(t, &hostile{}).URL) },
	"sse": func(t testing.TB) agent.MCPServer {
		return agent.MCPServer{Transport: agentvalue.TransportSSE, URL: web(t, (&hostile{}).overSSE()).URL}
	},
}

// A server that sends every message of the protocol in every odd form still gets its calls, an
// error for each request, and a pong for each ping.
func TestOddMessagesOfAServer(t *testing.T) {
	t.Parallel()
	for name, def := range hostiles {
		t.Run(name, func(t *testing.T) {
			s := newWorld(t).open(def(t))
			attack, report := find(t, s, "attack"), find(t, s, "report")
			require.Equal(t, tool.Result{Output: "done"}, call(t, attack, `{}`))
			require.Equal(t, tool.Connected, s.Status())
			var replies map[string]int
			require.NoError(t, json.Unmarshal([]byte(call(t, report, `{}`).Output), &replies))
			_, requests := oddMessages()
			declined := replies[`{"action":"decline"}`]
			require.Equal(t, requests, replies["{}"]+replies["rejection"]+declined)
			require.Equal(t, requests/len(protocolMethods), replies["{}"]-2)
			require.Equal(t, requests/len(protocolMethods), declined)
			require.Len(t, replies, 3, "pongs, rejections, and elicitation/create")
			require.Equal(t, []string{"mcp__test__attack", "mcp__test__report"}, names(list(t, s)))
		})
	}
}
