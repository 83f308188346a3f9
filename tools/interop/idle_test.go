package interop_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// silence exceeds the default timeouts of nginx, HAProxy and Varnish, which are a minute.
const silence = 65 * time.Second

// TestSilence: no proxy ends a run whose model sends nothing for longer than a minute. A blocking
// run sends no byte before it ends, and a stream only comments. All runs are concurrent.
func TestSilence(t *testing.T) {
	type result struct {
		status int
		text   string
	}
	h := openHub(t)
	runs := map[string]chan result{}
	for file, command := range proxies {
		slow := modeltest.Stream(modeltest.Text("first "), modeltest.Wait(silence), modeltest.Text("second"))
		up := modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(slow))
		runtime := behind(t, file, command, serve(t, agent.Agent{Model: "m", Provider: agent.Provider{
			Protocol: agent.ProtocolAnthropic, BaseURL: agent.Secret(up.URL), APIKey: "k",
		}}))
		chat := h.deploy(t, strings.ToLower(file[:5]), up.URL)
		for form, req := range map[string]*http.Request{
			"a blocking run": runRequest(t, runtime, "application/json"),
			"a stream":       runRequest(t, runtime, "text/event-stream"),
			"a chat":         h.request(t, "POST", behind(t, file, command, h.url)+chat, `{"message":"hello"}`),
		} {
			ended := make(chan result, 1)
			runs[file+"/"+form] = ended
			go func() {
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					ended <- result{text: err.Error()}
					return
				}
				defer resp.Body.Close()
				text, err := io.ReadAll(resp.Body)
				if err != nil {
					text = append(text, err.Error()...)
				}
				ended <- result{resp.StatusCode, string(text)}
			}()
		}
	}
	for name, ended := range runs {
		t.Run(name, func(t *testing.T) {
			got := <-ended
			require.Equal(t, http.StatusOK, got.status, got.text)
			require.Contains(t, got.text, `"first second"`)
		})
	}
}
