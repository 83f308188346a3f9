package mcp_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/seed93082962/agenthost/runtime/agent"
)

// raw is a server of an older protocol with arbitrary responses: result returns the JSON of the
// result of a method.
func raw(t testing.TB, result func(method string, params json.RawMessage) string) agent.MCPServer {
	return overHTTP(web(t, rawHandler(result)).URL)
}

func rawHandler(result func(method string, params json.RawMessage) string) http.Handler {
	return rawHandlerWith(`{"tools":{}}`, result)
}

func rawHandlerWith(capabilities string, result func(method string, params json.RawMessage) string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		var message struct {
			ID     json.RawMessage
			Method string
			Params json.RawMessage
		}
		if err := json.NewDecoder(r.Body).Decode(&message); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if message.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if message.Method == "server/discover" {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, message.ID)
			return
		}
		answer := `{"protocolVersion":"2025-11-25","serverInfo":{"name":"raw","version":"1"},"capabilities":` + capabilities + `}`
		if message.Method != "initialize" {
			answer = result(message.Method, message.Params)
		}
		w.Header().Set("Mcp-Session-Id", "s1")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":`, message.ID)
		io.WriteString(w, answer) //nolint:errcheck // the client may have left
		io.WriteString(w, "}")    //nolint:errcheck // as above
	})
}
