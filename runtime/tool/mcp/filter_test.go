package mcp_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/tool/mcp"
)

// streamOf is a server over streamable HTTP. Body writes the body of the response to a call of its
// tool a.
func streamOf(contentType string, body func(w io.Writer, id string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		data, err := io.ReadAll(r.Body)
		if err == nil && r.Method == http.MethodPost {
			err = json.Unmarshal(data, &m)
		}
		switch {
		case err != nil || r.Method != http.MethodPost:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case m.ID == nil || m.Method == "":
			w.WriteHeader(http.StatusAccepted)
		case m.Method != "tools/call":
			r.Body = io.NopCloser(strings.NewReader(string(data)))
			rawHandler(lists(entry("a", ""))).ServeHTTP(w, r)
		default:
			w.Header().Set("Content-Type", contentType)
			body(w, string(m.ID))
		}
	})
}

// send writes a message in a body of that content type.
func send(w io.Writer, contentType, message string) {
	if contentType == "text/event-stream" {
		message = "data: " + message + "\n\n"
	}
	io.WriteString(w, message) //nolint:errcheck // the client may have left
}

// What is not a message of the protocol ends the connection, and the next call makes a new one.
func TestMessagesThatEndTheConnection(t *testing.T) {
	const large = 17 << 20
	for name, row := range map[string]struct{ message, want string }{
		"no JSON":               {`hello`, "not JSON-RPC 2.0"},
		"an incomplete message": {`{"jsonrpc":"2.0","id":`, "not JSON-RPC 2.0"},
		"a string":              {`"jsonrpc"`, "not JSON-RPC 2.0"},
		"another version":       {`{"jsonrpc":"1.0","method":"ping"}`, "not JSON-RPC 2.0"},
		"no version":            {`{"method":"ping"}`, "not JSON-RPC 2.0"},
		"another letter case":   {`{"JSONRPC":"2.0","method":"ping"}`, "not JSON-RPC 2.0"},
		"a member twice":        {`{"jsonrpc":"2.0","method":"ping","method":"x"}`, "not JSON-RPC 2.0"},
		"a version of a number": {`{"jsonrpc":2,"method":"ping"}`, "not JSON-RPC 2.0"},
		"a method of a number":  {`{"jsonrpc":"2.0","method":7}`, "not JSON-RPC 2.0"},
		"a batch in a batch":    {`[[{"jsonrpc":"2.0","method":"ping"}]]`, "not JSON-RPC 2.0"},
		"a batch of 1,001":      {`[` + strings.Repeat("{},", 1000) + `{}]`, "not JSON-RPC 2.0"},
		"200 levels":            {`{"jsonrpc":"2.0","method":"m","params":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + "}", "nests too deeply"},
		"8 million levels":      {strings.Repeat("[", 8<<20), "nests too deeply"},
		"a million values":      {`{"jsonrpc":"2.0","method":"m","params":[0` + strings.Repeat(",0", 1<<20) + "]}", "too many values"},
		"more than 16 MiB":      {`{"jsonrpc":"2.0","method":"m","params":"` + strings.Repeat("x", large) + `"}`, "larger than 16 MiB"},
		"a number of 17 MiB":    {strings.Repeat("1", large), "larger than 16 MiB"},
	} {
		kinds := []string{"text/event-stream", "application/json"}
		if len(row.message) > 1<<20 && len(row.message) <= large { // takes long, and both kinds have one decoder
			kinds = kinds[1:]
		}
		for _, kind := range kinds {
			t.Run(name+", "+kind, func(t *testing.T) {
				s := newWorld(t).open(overHTTP(web(t, streamOf(kind, func(w io.Writer, _ string) {
					send(w, kind, row.message)
				})).URL))
				res := call(t, find(t, s, "a"), `{}`)
				require.True(t, res.IsError)
				require.Contains(t, res.Output, row.want)
				require.Len(t, list(t, s), 1)
			})
		}
	}
}

// A body that holds no response would let the call wait for as long as it may.
func TestBodyWithoutResponse(t *testing.T) {
	for name, body := range map[string]string{
		"a notification":      `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`,
		"a request":           `{"jsonrpc":"2.0","id":1,"method":"ping"}`,
		"an unknown response": `{"jsonrpc":"2.0","id":"x","result":{}}`,
		"an empty batch":      `[]`,
		"a batch of another":  `[{"jsonrpc":"2.0","id":99,"result":{}}]`,
	} {
		t.Run(name, func(t *testing.T) {
			s := newWorld(t).open(overHTTP(web(t, streamOf("application/json", func(w io.Writer, _ string) {
				send(w, "application/json", body)
			})).URL))
			require.Contains(t, call(t, find(t, s, "a"), `{}`).Output, "the server sent no response to the request")
		})
	}
}

// The response to a call may be anything: the call fails or has a result, and the next call works.
func TestOddResponsesToACall(t *testing.T) {
	results := []string{`"result":7`, `"result":null`, `"result":[]`, `"result":"x"`, `"error":{}`, `"error":[]`, `"error":null`, ``,
		`"error":{"code":-32003,"message":"m"}`, `"error":{"code":-32004}`, `"error":{"code":-32042,"data":{"elicitations":[null]}}`,
		`"error":{"code":1e400,"message":"m"}`, `"error":{"code":1,"message":"` + strings.Repeat("\xff", 1<<20) + `"}`,
	}
	for _, content := range []string{`7`, `null`, `[7]`, `[null]`, `[{}]`, `[{"type":7}]`, `[{"type":"text"}]`, `[{"type":"text","text":7}]`,
		`[{"type":"image"}]`, `[{"type":"image","data":"?","mimeType":7}]`, `[{"type":"audio","data":{}}]`, `[{"type":"resource"}]`,
		`[{"type":"resource","resource":null}]`, `[{"type":"resource","resource":7}]`, `[{"type":"resource_link"}]`, `[[]]`,
		`[{"type":"tool_use","input":7}]`, `[{"type":"tool_result","content":[{"type":"tool_result","content":[null]}]}]`,
		`[{"type":"text","text":"a","annotations":{"priority":"x"},"_meta":[]}]`, `[{"type":"text","text":"` + "\x00\xff" + `"}]`,
	} {
		results = append(results, `"result":{"content":`+content+`}`, `"result":{"content":`+content+`,"isError":"yes","structuredContent":[1e999],"_meta":7}`)
	}
	const panics = `"result":{"content":[],"inputRequests":{"a":null}}` // makes the SDK panic
	results = append(results, panics)
	for _, extra := range []string{`"inputRequests":7`, `"resultType":"input_required"`, `"task":null`, `"task":{"ttl":-1}`} {
		results = append(results, `"result":{"content":[],`+extra+`}`)
	}
	for _, kind := range []string{"text/event-stream", "application/json"} {
		t.Run(kind, func(t *testing.T) {
			var result string
			w := newWorld(t)
			s := w.open(overHTTP(web(t, streamOf(kind, func(w io.Writer, id string) {
				send(w, kind, strings.TrimSuffix(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s`, id, result), ",")+"}")
			})).URL))
			a := find(t, s, "a")
			for _, result = range results {
				res := call(t, a, `{}`)
				require.LessOrEqual(t, len(res.Output), 4<<10)
				require.Equal(t, result == panics, strings.Contains(res.Output, "could not be processed"), result)
			}
			result = `"result":{"content":[{"type":"text","text":"fine"}]}`
			require.Eventually(t, func() bool { return call(t, a, `{}`).Output == "fine" }, long, time.Millisecond)
			require.Equal(t, 1, strings.Count(w.log.String(), "caused a panic"))
		})
	}
}

// A response to initialize or tools/list may be anything too.
func TestOddResponsesWhileConnecting(t *testing.T) {
	for _, result := range []string{`{}`, `{"protocolVersion":7}`, `{"protocolVersion":"2025-11-25"}`,
		`{"protocolVersion":"2025-11-25","capabilities":null,"serverInfo":null}`, `{"protocolVersion":"2025-11-25","capabilities":{"tools":[]}}`,
		`{"protocolVersion":"1","capabilities":{}}`, `{"protocolVersion":"2026-07-28","supportedVersions":[null]}`,
		`{"protocolVersion":"2026-07-28","supportedVersions":["2026-07-28"],"_meta":{"io.modelcontextprotocol/serverInfo":7}}`,
		`{"tools":7}`, `{"tools":[null,null]}`, `{"tools":[{"name":7}]}`, `{"tools":[{"inputSchema":[],"name":"a"}],"nextCursor":7}`,
		`{"protocolVersion":"2025-11-25","tools":[{"name":"a","inputSchema":{"properties":7}},{"name":"b","annotations":7}]}`,
		`{"protocolVersion":"2025-11-25","tools":[{"name":"a","inputSchema":{"properties":{"x":{"x-mcp-header":{}}}}}],"ttlMs":1e30}`,
	} {
		t.Run(result, func(t *testing.T) {
			w := newWorld(t)
			s := w.open(overHTTP(web(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var m struct{ ID json.RawMessage }
				if json.NewDecoder(r.Body).Decode(&m) != nil || m.ID == nil {
					w.WriteHeader(http.StatusAccepted)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
			})).URL))
			list, err := s.Tools(t.Context())
			if err == nil {
				require.LessOrEqual(t, len(list.Tools), 2)
			}
			require.NotContains(t, w.log.String(), "caused a panic")
		})
	}
}

// Requests and notifications without end do not accumulate: each reply is sent before the next
// message is read.
func TestFloodOfMessages(t *testing.T) {
	const count = 20_000 // more than 1 MiB
	for name, message := range map[string]string{
		"notifications": `{"jsonrpc":"2.0","method":"notifications/message","params":{"n":%d}}`,
		"changes":       `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"n":%d}}`,
		"responses":     `{"jsonrpc":"2.0","id":1%06d,"result":{"content":[{"type":"text","text":"not this"}]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			var flood atomic.Bool // from the second call
			s := newWorld(t, quiet).open(overHTTP(web(t, streamOf("text/event-stream", func(w io.Writer, id string) {
				n := count
				if !flood.Swap(true) {
					n = 100
				}
				for i := range n {
					send(w, "text/event-stream", fmt.Sprintf(message, i))
				}
				send(w, "text/event-stream", `{"jsonrpc":"2.0","id":`+id+`,"result":{"content":[{"type":"text","text":"this"}]}}`)
			})).URL))
			a := find(t, s, "a")
			require.Equal(t, tool.Result{Output: "this"}, call(t, a, `{}`))
			before := heap()
			require.Equal(t, tool.Result{Output: "this"}, call(t, a, `{}`))
			require.Less(t, heap()-before, 1<<20)
		})
	}
}

func quiet(c *mcp.Config) { c.Logger = nil }

func heap() int {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}
