package mcp_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/tool/mcp"
)

// inProcess calls a handler without a network.
type inProcess struct{ http.Handler }

func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	if r = r.Clone(r.Context()); r.Body == nil {
		r.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w.Result(), r.Context().Err()
}

// FuzzServer lets a server send any body, once as a stream of events and once as one message. $ is
// the id of the call. The process survives, and a later call works.
func FuzzServer(f *testing.F) {
	for _, rest := range []string{
		`"method":"notifications/elicitation/complete"`, `"id":$,"result":{}`, `"id":$,"error":{"code":-32003,"message":"m"}`,
		`"id":$,"result":{"content":[{"type":"text","text":"a"},{"type":"image","data":"AAAA","mimeType":"image/png"}]}`,
		`"id":$,"result":{"content":[],"inputRequests":{"a":null}}`, `"id":"x","method":"ping","params":[]`,
		`"method":"notifications/tools/list_changed","params":null`, `"id":1,"method":"roots/list","params":{"_meta":{}}`,
		`"id":$,"result":{"content":[{"type":"resource","resource":{"uri":"u","blob":"?"}}],"structuredContent":{"a":1e999}}`,
	} {
		message := `{"jsonrpc":"2.0",` + rest + `}`
		f.Add(message)
		f.Add("data: " + message + "\n\n")
		f.Add("id: 7\nretry: 1\nevent: message\ndata: [" + message + "," + message + "]\n\ndata: {\n\n")
	}
	var sent atomic.Pointer[string]
	handlers := http.NewServeMux()
	w := newWorld(f, quiet, func(c *mcp.Config) { c.HTTPClient = &http.Client{Transport: inProcess{handlers}} })
	connections := map[string]tool.Tool{}
	for path, kind := range map[string]string{"/stream": "text/event-stream", "/message": "application/json"} {
		handlers.Handle(path, streamOf(kind, func(w io.Writer, id string) {
			io.WriteString(w, strings.ReplaceAll(*sent.Load(), "$", id)) //nolint:errcheck // the client may have left
		}))
		connections[kind] = find(f, w.open(overHTTP("http://server.example"+path)), "a")
	}
	fine := `{"jsonrpc":"2.0","id":$,"result":{"content":[{"type":"text","text":"fine"}]}}`
	f.Fuzz(func(t *testing.T, data string) {
		for kind, a := range connections {
			sent.Store(&data)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond) // a stream may never have the response
			a.Call(ctx, tool.Call{Input: []byte(`{}`)})                          //nolint:errcheck // it may fail
			cancel()
			valid := fine
			if kind == "text/event-stream" {
				valid = "data: " + fine + "\n\n"
			}
			sent.Store(&valid)
			require.Eventually(t, func() bool { return call(t, a, `{}`).Output == "fine" }, long, time.Millisecond)
		}
	})
}
