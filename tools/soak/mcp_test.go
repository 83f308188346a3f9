package soak_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const mib = 1 << 20

// peer is a hostile MCP server. Its tool attack sends the messages of a mode before its result. The
// other tools have the hostile schemas, which change with each listing.
type peer struct {
	schemas  bool
	mu       sync.Mutex // guards listings
	listings int
}

// modes are the inputs of the tool attack.
var modes = strings.Fields("none notifications requests flood changes responses batch keys deep values long large garbage number input text blocks nested nothing end")

// script returns the messages that the server sends before the result of a call, and the result.
// Without one it sends no response.
func script(mode string) (before []string, result string) {
	message := func(params string) []string {
		return []string{`{"jsonrpc":"2.0","method":"x","params":` + params + `}`}
	}
	result = `{"content":[{"type":"text","text":"done"}]}`
	switch mode {
	case "notifications":
		for _, method := range strings.Fields("elicitation/complete cancelled progress message resources/updated tasks/status roots/list_changed x") {
			for _, params := range []string{"", `,"params":null`, `,"params":[]`, `,"params":7`, `,"params":{"requestId":{},"progressToken":[],"_meta":7}`} {
				before = append(before, `{"jsonrpc":"2.0","method":"notifications/`+method+`"`+params+`}`)
			}
		}
	case "requests":
		for i, method := range slices.Repeat(strings.Fields("sampling/createMessage elicitation/create roots/list ping x"), 200) {
			before = append(before, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q}`, i, method))
		}
	case "flood":
		before = slices.Repeat(message(`{"level":"info","data":"`+strings.Repeat("x", 100)+`"}`), 20_000)
	case "changes":
		before = slices.Repeat([]string{`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`}, 2000)
	case "responses":
		before = slices.Repeat([]string{`{"jsonrpc":"2.0","id":1000000,"result":{"content":[]}}`, `{"jsonrpc":"2.0","id":"x","result":7}`}, 1000)
	case "batch":
		before = []string{`[` + strings.Repeat(`{"jsonrpc":"2.0","method":"x"},`, 900) + `{"jsonrpc":"2.0","id":1,"method":"ping"}]`}
	case "keys":
		before = []string{`{"jsonrpc":"2.0","jsonrpc":"2.0","method":"x","method":"ping","id":1,"ID":2,"params":{"n":1e400,"n":1}}`}
	case "deep":
		before = message(strings.Repeat("[", mib) + strings.Repeat("]", mib))
	case "values":
		before = message("[0" + strings.Repeat(",0", mib) + "]")
	case "long", "large": // one of them is too large
		before = message(`"` + strings.Repeat("x", map[string]int{"long": 15, "large": 100}[mode]*mib) + `"`)
	case "garbage":
		before = []string{"\x00\xff\r\n<html>"}
	case "number":
		result = "7"
	case "input":
		result = `{"content":[],"inputRequests":{"a":null}}`
	case "text":
		result = `{"content":[{"type":"text","text":"` + strings.Repeat("x", 12*mib) + `"}]}`
	case "blocks":
		result = `{"content":[{"type":"text","text":"done"}` + strings.Repeat(`,{"type":"image","data":"AAAA","mimeType":"image/png"}`, 50_000) + `]}`
	case "nested":
		result = `{"content":[{"type":"text","text":"done"}],"structuredContent":` + strings.Repeat("[", 190) + strings.Repeat("]", 190) + `}`
	case "nothing", "end":
		result = ""
	}
	return before, result
}

// handle sends the messages for one message of the client. It reports whether the server continues.
func (p *peer) handle(message []byte, send func(string)) bool {
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct{ Arguments struct{ Mode string } }
	}
	if json.Unmarshal(message, &m) != nil || m.ID == nil || m.Method == "" {
		return true
	}
	var result string
	switch m.Method {
	case "server/discover":
		send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"method not found"}}`, m.ID))
	case "initialize":
		result = `{"protocolVersion":"2025-06-18","serverInfo":{"name":"p","version":"1"},"capabilities":{"tools":{"listChanged":true}}}`
	case "tools/list":
		result = p.list()
	case "tools/call":
		var before []string
		if before, result = script(m.Params.Arguments.Mode); p.schemas {
			before = append(before, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		}
		for _, v := range before {
			send(v)
		}
	}
	if result != "" {
		send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result))
	}
	return m.Params.Arguments.Mode != "end"
}

func (p *peer) list() string {
	tools := []string{`{"name":"attack","inputSchema":{"type":"object"}}`}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listings++
	if p.schemas {
		for i, name := range schemaNames {
			if (i+p.listings)%3 > 0 {
				tools = append(tools, fmt.Sprintf(`{"name":%q,"inputSchema":%s}`, name, hostileSchemas[name]))
			}
		}
	}
	return `{"tools":[` + strings.Join(tools, ",") + `]}`
}

// serveStdio is the peer as a command.
func serveStdio() {
	p := &peer{schemas: slices.Contains(os.Args, "schemas")}
	if len(os.Args) > 3 { // empty FILE
		if found, err := os.ReadDir("."); err != nil || len(found) > 0 {
			_ = os.WriteFile(os.Args[3], fmt.Append(nil, found, err), 0o600)
		}
		_ = os.WriteFile("own", nil, 0o600)
	}
	out := make(chan string, 1<<16)
	go func() {
		w := bufio.NewWriter(os.Stdout)
		for v := range out {
			fmt.Fprintln(w, v)
			if len(out) == 0 {
				w.Flush()
			}
		}
	}()
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil || !p.handle(line, func(v string) { out <- v }) {
			return
		}
	}
}

// ServeHTTP is the peer over streamable HTTP.
func (p *peer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(r.Body)
	switch {
	case err != nil || r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	case !strings.Contains(string(data), `"id":`) || !strings.Contains(string(data), `"method":`):
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if !p.handle(data, func(v string) { fmt.Fprintf(w, "data: %s\n\n", v) }) {
		panic(http.ErrAbortHandler)
	}
}

func mcpServers(t *testing.T) attack {
	s := startRuntime(t, fmt.Sprintf("stdio: {transport: stdio, command: %q, args: [mcp]}, http: {transport: http, url: %q}", self, serve(t, &peer{})), "")
	return attack{server: s, pause: 250 * time.Millisecond, other: s.goodRun, step: func(ctx context.Context, n int) error {
		call := []string{"mcp__stdio__attack", "mcp__http__attack"}[n%2] + ` {"mode":"%s"}`
		if err := s.expect(ctx, "bad", fmt.Sprintf(call, modes[n/2%len(modes)]), "result: "); err != nil {
			return err
		}
		return s.expect(ctx, "bad", fmt.Sprintf(call, "none"), "result: done", late)
	}}
}
