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
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/agent"
)

// page has the chat component deep-chat, which speaks the protocol of OpenAI.
const page = `<!doctype html><meta charset="utf-8"><script type="module" src="/deepChat.bundle.js"></script>
<deep-chat id="chat" directConnection='{"openAI": {"key": "` + key + `", "completions": true}}'
	connect='{"url": "/openai/v1/chat/completions", "stream": true, "additionalBodyProps": {"model": "bot"}}'></deep-chat>
<script>
const chat = document.getElementById("chat")
const all = () => chat.shadowRoot?.textContent || ""
</script>`

// TestOpenAIPage types and sends messages in a page of the front end deep-chat, and reads the
// streamed answers. It carries the conversation.
func TestOpenAIPage(t *testing.T) {
	target, err := url.Parse(serve(t, agent.Agent{}))
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, page)
	})
	mux.HandleFunc("GET /deepChat.bundle.js", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, "node_modules/deep-chat/dist/deepChat.bundle.js")
	})
	sent := make(chan string, 10)
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	mux.HandleFunc("/openai/", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent <- string(body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	})
	front := httptest.NewServer(mux)
	t.Cleanup(front.Close)

	b := browser(t)
	b.open(front.URL)
	const input = `chat.shadowRoot.getElementById("text-input")`
	for i, message := range []string{"Hello, café 😀", "And now?"} {
		b.wait(`Boolean(` + input + `)`)
		b.do(chromedp.Evaluate[chromedp.Void](input + `.focus()`))
		b.do(chromedp.Evaluate[chromedp.Void](`document.execCommand("insertText", false, "` + message + `")`))
		// It sends nothing during an answer, and may omit the last increments of one that is faster than
		// its display.
		b.wait(fmt.Sprintf(`(%s.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true, composed: true })),
			all().split("This is the demo model").length === %d)`, input, i+2))
		var request struct{ Messages []any }
		require.NoError(t, json.Unmarshal([]byte(<-sent), &request))
		require.Len(t, request.Messages, 2*i+1)
	}
}
