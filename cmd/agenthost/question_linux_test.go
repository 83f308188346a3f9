package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/logtest"
)

// desk is an MCP server whose tool asks for a seat.
func desk(t *testing.T) string {
	t.Helper()
	const form = `{"type":"object","properties":{"window":{"type":"boolean"},"row":{"type":"integer","title":"Row","maximum":30}},"required":["row"]}`
	server := sdk.NewServer(&sdk.Implementation{Name: "desk", Version: "1"}, nil)
	server.AddTool(&sdk.Tool{Name: "book", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			if req.Params.InputResponses == nil {
				asked := &sdk.ElicitParams{Message: "Which seat?", RequestedSchema: json.RawMessage(form)}
				return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"seat": asked}}, nil
			}
			answer := req.Params.InputResponses["seat"].(*sdk.ElicitResult)
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprint("desk: ", answer.Action, answer.Content)}}}, nil
		})
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: true})
	web := httptest.NewServer(handler)
	t.Cleanup(web.Close)
	return web.URL
}

// The program shows the values that a question of a server asks for, in the order of its form, and
// asks for them on a terminal, again if they are not valid, and also when the conversation is
// resumed. What is longer than the terminal keeps a margin.
func TestQuestionsOnATerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startDev(t, dir, nil)
	defer end(t, p)
	c := setUp(t, p, dir)
	issued, err := c.Auth.IssueToken(t.Context(), wire.IssueTokenRequest{Name: "terminal"})
	require.NoError(t, err)
	file := filepath.Join(dir, "desk.json")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `{"name":"desk","transport":"http","url":%q}`, desk(t)), 0o600))

	term := openTerminal(t)
	require.NoError(t, unix.IoctlSetWinsize(int(term.keys.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 30}))
	var stdout logtest.Buffer
	start := term.programs(dir, &stdout, p.URL, issued.Token)
	require.NoError(t, start("mcps", "apply", "-f", file)())
	require.NoError(t, start("agents", "create", "clerk", "--provider", "demo", "--model", "demo", "--permissions", "bypassPermissions", "--mcp", "desk")())
	require.NoError(t, start("deploy", "clerk", "--wait")())
	const book, asks = "/tool mcp__desk__book {}\n", `Answer it\? \[y/n\] $`

	wait := start("chat", "clerk")
	term.await(&term.shown, "> $")
	term.enter(book)
	term.await(&term.shown, `(?s)for the tool server desk.*\| Which seat\?.*\| window \(boolean\)\s+\| row, Row \(integer, require\s+: d\)\s+`+asks)
	term.enter("y\n")
	term.await(&term.shown, `window \[y/n\]: $`)
	term.enter("y\n")
	term.await(&term.shown, `row, Row: $`)
	term.enter("first\n")
	term.await(&term.shown, `first\s+row, Row: $`)
	term.enter("99\n")
	term.await(&term.shown, `(?s)99.*row.*30.*`+asks)
	term.enter("y\n")
	term.await(&term.shown, `(?s)99.*window \[y/n\]: $`)
	term.enter("y\n")
	term.await(&term.shown, `(?s)99.*row, Row: $`)
	term.enter("3\n")
	term.await(&stdout, `desk: acceptmap\[row:3 window:true\]`)
	term.await(&term.shown, "(?s)window.*> $")
	term.enter(book)
	term.await(&term.shown, "(?s)> .*> .*"+asks)
	term.enter("\x04")
	require.NoError(t, wait())

	var waiting wire.Approval
	for waiting, err = range c.Approvals.List(t.Context()) {
		require.NoError(t, err)
	}
	require.NoError(t, start("approvals", "show", waiting.ID)())
	term.await(&stdout, `(?s)Content, a JSON object:\s+\| window \(boolean\)\s+\| row, Row \(integer, required\)`)
	require.Error(t, start("approvals", "approve", waiting.ID, "--yes", "--content", `{"row":"first"}`)(), "the values are checked")
	wait = start("chat", "clerk", "--resume")
	term.await(&term.shown, asks)
	term.enter("n\n")
	term.await(&stdout, `desk: declinemap\[\]`)
	term.enter("\x04")
	require.NoError(t, wait())
}
