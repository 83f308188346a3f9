package main_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/logtest"
)

// On a terminal, the program asks about a call. What was typed before the prompt does not answer
// it, and the answer continues with the inputs of the message.
func TestApprovalsOnATerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startDev(t, dir, nil)
	defer end(t, p)
	c := setUp(t, p, dir)
	issued, err := c.Auth.IssueToken(t.Context(), wire.IssueTokenRequest{Name: "terminal"})
	require.NoError(t, err)
	hub, err := url.Parse(p.URL)
	require.NoError(t, err)
	answers := make(chan string, 10)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(hub)
		if r.In.Method != http.MethodPost {
			return
		}
		body, _ := io.ReadAll(r.In.Body)
		r.Out.Body = io.NopCloser(bytes.NewReader(body))
		if bytes.Contains(body, []byte(`"answers":[`)) {
			answers <- string(body)
		}
	}}
	server := httptest.NewServer(proxy)
	defer server.Close()

	term := openTerminal(t)
	var stdout logtest.Buffer
	start := term.programs(dir, &stdout, server.URL, issued.Token)
	require.NoError(t, start("agents", "create", "asker", "--provider", "demo", "--model", "demo", "--permissions", "default", "--tool", "Write")())
	require.NoError(t, start("deploy", "asker", "--wait")())
	wait := start("chat", "asker")
	term.await(&term.shown, "> $")
	const asks = `Approve it\? \[y/n/e\] $`
	term.enter("/tool Write {\"file_path\": \"one.txt\", \"content\": \"1\"}\ny\ny\n")
	term.await(&term.shown, asks)
	term.enter("what\n")
	term.await(&term.shown, "what\\s+"+asks)
	term.enter("n\n")
	term.await(&term.shown, "Reason, for the model: $")
	term.enter("Not now.\n")
	term.await(&stdout, "Write failed: The user rejected")
	require.NotContains(t, <-answers, `"inputs"`)
	term.await(&term.shown, "(?s)Not now.*> $")

	term.enter("/tool Write {\"file_path\": \"two.txt\", \"content\": \"2\"}\n")
	term.await(&term.shown, "(?s)two.txt.*"+asks)
	term.enter("e\n")
	term.await(&term.shown, `Input, which was .*: $`)
	term.enter("[]\n")
	term.await(&term.shown, `\[\]\s+Input, which was .*: $`)
	term.enter("{\"file_path\": \"three.txt\", \"content\": \"3\"}\n")
	term.await(&stdout, "(?s)rejected.*Write returned")
	term.await(&term.shown, "(?s)three.txt.*> $")
	term.enter("\x04")
	require.NoError(t, wait())
	require.NoError(t, start("files", "cat", "asker:three.txt")())
	term.await(&stdout, "3$")
	require.Error(t, start("files", "cat", "asker:one.txt")())
}
