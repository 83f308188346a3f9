package soak_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// paths are calls of tools with paths of 80 kB and of many names, and patterns of them. Each is
// rejected without work.
func paths(t *testing.T) attack {
	s := startRuntime(t, "", fmt.Sprintf("  - {id: walker, model: m, contextWindow: 100000000, permissionMode: acceptEdits, provider: {protocol: openai, baseUrl: %q, apiKey: k}}\n", upstream(t)))
	long := []string{
		strings.Repeat("a/", 40_000), strings.Repeat("a/../", 16_000), strings.Repeat("./", 40_000) + "x", strings.Repeat("x", 80_000),
		strings.Repeat("d/", 300) + "f", "/" + strings.Repeat("/", 80_000), strings.Repeat("../", 26_000), strings.Repeat("**/", 20_000) + "x",
	}
	calls := []func(path string) (name string, input object){
		func(path string) (string, object) { return "Write", object{"file_path": path, "content": "x"} },
		func(path string) (string, object) {
			return "Edit", object{"file_path": path, "old_string": "a", "new_string": "b"}
		},
		func(path string) (string, object) { return "Read", object{"file_path": path} },
		func(path string) (string, object) { return "Glob", object{"pattern": path} },
		func(path string) (string, object) { return "Grep", object{"pattern": "x", "path": path} },
	}
	return attack{server: s, pause: 50 * time.Millisecond, parallel: 4, cost: 500 * time.Millisecond, peak: 256 * mib, other: s.goodRun,
		step: func(ctx context.Context, n int) error {
			name, input := calls[n%len(calls)](long[n/len(calls)%len(long)])
			text, _ := json.Marshal(input)
			return s.expect(ctx, "walker", name+" "+string(text), "result: Error", "result: Permission", "result: No files")
		}}
}

// requests are runs of a runtime whose bodies are large: metadata, histories, and messages. Those
// that the budget of memory does not have are rejected.
func requests(t *testing.T) attack {
	s := startRuntime(t, "", "")
	many := object{}
	for i := range 40_000 {
		many[fmt.Sprint("k", i)] = "v"
	}
	bodies := []object{
		{"message": "hello", "metadata": object{"x": strings.Repeat("m", 900<<10)}},
		{"message": "hello", "metadata": many},
		{"message": strings.Repeat("<", 900<<10)},
		{"message": "hello", "history": []object{{"role": "user", "content": strings.Repeat("h", 400<<10)}, {"role": "assistant", "content": strings.Repeat("\u0001", 80<<10)}}},
	}
	var texts []string
	for _, body := range bodies {
		text, _ := json.Marshal(body)
		texts = append(texts, string(text))
	}
	return attack{server: s, pause: time.Second, parallel: 16, peak: 1024 * mib, other: s.goodRun,
		step: func(ctx context.Context, n int) error {
			status, text, err := send(ctx, http.MethodPost, s.url+"/v1/agents/good/runs", nil, texts[rand.IntN(len(texts))], "Content-Type", kindJSON, "Accept", kindJSON)
			if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
				return nil // a body that is too large was rejected while it was sent
			}
			switch status {
			case http.StatusOK, http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusBadGateway:
				return err
			}
			return fmt.Errorf("status %d with %.300q: %w", status, text, err)
		}}
}
