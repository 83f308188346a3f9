package interop_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/sse"
)

// typesOfOpenAI declares what a response may be by the types of the official client. It has further
// members at the top, which only Open Responses has, where usage and the description of a format
// may be null and logprobs absent. The client itself adds output_text.
const typesOfOpenAI = `import OpenAI from "openai"
type Open<T> = T & Record<string, unknown>
type Response = Open<Omit<OpenAI.Responses.Response, "output_text" | "usage" | "text"> & { usage: OpenAI.Responses.ResponseUsage | null }>
type Raw<E> = E extends { response: unknown } ? Omit<E, "response"> & { response: Response }
	: E extends { logprobs: unknown } ? Omit<E, "logprobs"> & Partial<Pick<E, "logprobs">> : E
type Event = Raw<OpenAI.Responses.ResponseStreamEvent>
`

// TestTypesOfOpenAI compiles what a runtime sends to the official client, from the recorded bytes,
// with the types of that client.
func TestTypesOfOpenAI(t *testing.T) {
	target, err := url.Parse(serve(t, agent.Agent{}))
	require.NoError(t, err)
	var mu sync.Mutex
	source := bytes.NewBufferString(typesOfOpenAI)
	n := map[string]int{}
	declare := func(kind string, value []byte) {
		n[kind]++
		fmt.Fprintf(source, "export const %s%d: %s = %s\n", strings.ToLower(kind[strings.LastIndex(kind, ".")+1:]), n[kind], kind, value)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.FlushInterval = -1
	proxy.ModifyResponse = func(res *http.Response) error {
		data, err := io.ReadAll(res.Body)
		res.Body = io.NopCloser(bytes.NewReader(data))
		mu.Lock()
		defer mu.Unlock()
		chat := strings.HasSuffix(res.Request.URL.Path, "/chat/completions")
		switch {
		case err != nil, res.StatusCode != http.StatusOK, res.Request.Method == http.MethodDelete:
		case strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream"):
			for event, err := range sse.NewDecoder(bytes.NewReader(data)).Events() {
				switch {
				case err != nil, string(event.Data) == "[DONE]":
				case chat:
					declare("OpenAI.ChatCompletionChunk", event.Data)
				default:
					declare("Event", event.Data)
				}
			}
		case chat:
			declare("OpenAI.ChatCompletion", data)
		case strings.HasSuffix(res.Request.URL.Path, "/models"):
			var list struct{ Data []json.RawMessage }
			if err := json.Unmarshal(data, &list); err != nil {
				return err
			}
			for _, one := range list.Data {
				declare("OpenAI.Model", one)
			}
		default:
			declare("Response", data)
		}
		return err
	}
	front := httptest.NewServer(proxy)
	t.Cleanup(front.Close)
	useOpenAI(t, front.URL+"/openai/v1", key)
	for _, kind := range []string{"OpenAI.ChatCompletion", "OpenAI.ChatCompletionChunk", "OpenAI.Model", "Response", "Event"} {
		require.Positive(t, n[kind], kind)
	}

	dir := t.TempDir()
	packages, err := filepath.Abs("node_modules")
	require.NoError(t, err)
	require.NoError(t, os.Symlink(packages, filepath.Join(dir, "node_modules")))
	compile := func(source string) ([]byte, error) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "recorded.mts"), []byte(source), 0o600))
		cmd := exec.CommandContext(t.Context(), bin(t, "tsc"), "--strict", "--noEmit", "--skipLibCheck", "--target", "es2022", "--module", "nodenext", "--types", "node", "recorded.mts")
		cmd.Dir = dir
		return cmd.CombinedOutput()
	}
	out, err := compile(source.String())
	require.NoError(t, err, "%s", out)
	for _, broken := range [][2]string{
		{`"object":"chat.completion"`, `"object":"completion"`}, {`"finish_reason":"stop"`, `"finish_reason":"end"`},
		{`"object":"response"`, `"object":"responses"`}, {`"type":"response.output_text.delta"`, `"type":"response.text.delta"`},
	} {
		require.Contains(t, source.String(), broken[0])
		_, err := compile(strings.Replace(source.String(), broken[0], broken[1], 1))
		require.Error(t, err, broken[1])
	}
}
