package soak_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// serve serves until the test ends.
func serve(t *testing.T, h http.Handler) string {
	server := httptest.NewServer(h)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return server.URL
}

// model is an upstream that calls the tool of a message "NAME INPUT", and then returns the
// beginning of the result.
func model(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	last := request.Messages[len(request.Messages)-1]
	var text string
	if err := json.Unmarshal(last.Content, &text); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	delta := object{"content": "result: " + text[:min(len(text), 300)]}
	if name, input, ok := strings.Cut(text, " "); ok && last.Role == "user" {
		delta = object{"tool_calls": []object{{"index": 0, "id": "call", "function": object{"name": name, "arguments": input}}}}
	}
	event, _ := json.Marshal(object{"choices": []object{{"delta": delta, "finish_reason": "stop"}}})
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = fmt.Fprintf(w, "data: %s\n\ndata: [DONE]\n\n", event)
}

func upstream(t *testing.T) string { return serve(t, http.HandlerFunc(model)) }

// toolFile is the file of a custom tool.
func toolFile(name, top, schema, body string) string {
	return fmt.Sprintf("%s\nexport default {name: %q, description: \"x\", inputSchema: %s, async call() { %s }}", top, name, schema, body)
}

const (
	limits    = "limits: {toolTimeout: 5s, mcpConnectTimeout: 10s, mcpStartTimeout: 10s, llmIdleTimeout: 20s}\n"
	anyInput  = `{type: "object"}`
	hostAgent = "  - {id: %s, model: m, contextWindow: 100000000, permissionMode: bypassPermissions, provider: {protocol: openai, baseUrl: %q, apiKey: k}, customTools: [%s], mcpServers: {%s}}\n"
)

// startRuntime starts a runtime with the agent good, which has a tool and an MCP server, and the
// agent bad with those of the attack. Files are pairs of name and content; a name that ends in .ts
// is a tool of bad. More agents are YAML.
func startRuntime(t *testing.T, servers, agents string, files ...string) *server {
	up := upstream(t)
	var tools []string
	for i := 0; i < len(files); i += 2 {
		if strings.HasSuffix(files[i], ".ts") {
			tools = append(tools, "{path: "+files[i]+"}")
		}
	}
	config := limits + "agents:\n" + fmt.Sprintf(hostAgent, "good", up, "{path: good.ts}", fmt.Sprintf(`own: {transport: stdio, command: %q, args: [mcp]}`, self)) +
		fmt.Sprintf(hostAgent, "bad", up, strings.Join(tools, ", "), servers) + agents
	dir := t.TempDir()
	write(t, dir, append(files, "agents.yaml", config, "good.ts", toolFile("good", "", anyInput, `return "fine"`))...)
	return start(t, dir, []string{"AGENT_STATE_DIR=" + t.TempDir()}, filepath.Join(binaries, "runtime"),
		"--addr", "127.0.0.1:0", "--metrics-addr", "127.0.0.1:0", "--cwd", dir)
}

// run sends a message to an agent of a runtime. It returns the text or the error of the run.
func (s *server) run(ctx context.Context, agent, message string) (status int, text string, err error) {
	body, err := json.Marshal(map[string]string{"message": message})
	if err != nil {
		return 0, "", err
	}
	status, text, err = send(ctx, http.MethodPost, s.url+"/v1/agents/"+agent+"/runs", nil, string(body), "Content-Type", kindJSON, "Accept", kindJSON)
	if err != nil {
		return 0, "", err
	}
	var res struct{ State, Text, Error string }
	if err := json.Unmarshal([]byte(text), &res); err != nil || res.State == "" {
		return status, "", fmt.Errorf("status %d with %.300q: %w", status, text, err)
	}
	return status, res.Text + res.Error, nil
}

// expect runs a message whose result contains one of the texts.
func (s *server) expect(ctx context.Context, agent, message string, want ...string) error {
	status, text, err := s.run(ctx, agent, message)
	if err == nil && !slices.ContainsFunc(want, func(w string) bool { return strings.Contains(text, w) }) {
		err = fmt.Errorf("status %d with %.300q instead of %q", status, text, want)
	}
	if err != nil {
		err = fmt.Errorf("%s: %.100s: %w", agent, message, err)
	}
	return err
}

// late is the result of a call that a busy machine did not complete in time.
const late = "result: Error: The call exceeded its time limit"

// goodRun is another caller of a runtime. A call that is late is repeated.
func (s *server) goodRun(ctx context.Context) error {
	for _, call := range []struct{ message, want string }{{"good {}", "result: fine"}, {`mcp__own__attack {"mode":"none"}`, "result: done"}} {
		err := s.expect(ctx, "good", call.message, call.want)
		for err != nil && strings.Contains(err.Error(), late) && ctx.Err() == nil {
			err = s.expect(ctx, "good", call.message, call.want)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
