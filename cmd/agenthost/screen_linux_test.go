package main_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// hostileText changes a terminal: its title, its colors, the cursor, and with an 8-bit sequence and
// one that is not UTF-8.
const hostileText = "evil\x1b]0;owned\a\x1b[2J\x1b[31m\b\b\u009b31m\x9b31m\x7f\rover\x00"

// Nothing that a hub sends changes the terminal of a user, whichever command prints it.
func TestAHostileHubDoesNotChangeTheTerminal(t *testing.T) {
	t.Parallel()
	message, err := json.Marshal(hostileText)
	require.NoError(t, err)
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/export"), strings.HasSuffix(r.URL.Path, "/download"), strings.Contains(r.URL.Path, "/files/"):
			for i := range len(hostileText) { // a sequence is in several writes
				_, _ = w.Write([]byte(hostileText[i : i+1]))
				_ = http.NewResponseController(w).Flush()
			}
		case strings.HasSuffix(r.URL.Path, "/mcps"):
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"items":[{"name":` + string(message) + `,"transport":"stdio","command":` + string(message) + `}],"total":1}`))
		default:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusConflict)
			_, _ = w.Write([]byte(`{"code":"conflict","message":` + string(message) + `,"data":{"agents":[` + string(message) + `]}}`))
		}
	}))
	t.Cleanup(hub.Close)
	for _, args := range [][]string{
		{"agents", "list"}, {"agents", "export", "a"}, {"tools", "download", "a"}, {"tools", "delete", "a", "--yes"}, {"files", "cat", "a", "b"},
		{"mcps", "list"}, {"mcps", "list", "-o", "json"}, {"mcps", "list", "-o", "yaml"}, {"mcps", "list", "-q"}, {"whoami"}, {"chat", "a", "-m", "x"}, {"health"},
		{"dev", "--" + strings.ReplaceAll(hostileText, "\x00", "")},
	} {
		term := openTerminal(t)
		cmd := term.command(t.TempDir(), args...)
		cmd.Stdout = term.device
		cmd.Env = append(os.Environ(), "AGENTHOST_URL="+hub.URL, "AGENTHOST_TOKEN=x", "AGENTHOST_CONFIG="+t.TempDir())
		_ = cmd.Run() // most fail
		_, err := term.device.WriteString("the end")
		require.NoError(t, err)
		term.await(&term.shown, "the end$")
		text, _ := term.shown.Now()
		require.Greater(t, len(text), len("the end"), args)
		for _, control := range []string{"\x1b", "\a", "\b", "\u009b", "\x9b31", "\x7f", "\x00", "\rover"} {
			require.NotContains(t, text, control, "%q writes %q", args, text)
		}
	}
}

// A pipe gets the bytes of a file as they are.
func TestAPipeGetsEveryByte(t *testing.T) {
	t.Parallel()
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(hostileText)) }))
	t.Cleanup(hub.Close)
	cmd := openTerminal(t).command(t.TempDir(), "tools", "download", "a")
	cmd.Env = append(os.Environ(), "AGENTHOST_URL="+hub.URL, "AGENTHOST_TOKEN=x")
	out, err := cmd.Output()
	require.NoError(t, err)
	require.Equal(t, hostileText, string(out))
}

// What a command cannot decode hides no other line, and it says so.
func TestWhatCannotBeDecodedHidesNothingElse(t *testing.T) {
	t.Parallel()
	const session = `{"id":"one","agentName":"a","userName":"u","title":"the title","createdAt":"2026-01-02T03:04:05Z","updatedAt":"2026-01-02T03:04:05Z"}`
	const message = `{"id":"one","role":"user","status":"completed","text":"the title","content":[],"createdAt":"2026-01-02T03:04:05Z"}`
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.Method == http.MethodPost:
			w.Header().Set("Content-Type", "text/event-stream")
			for _, event := range []string{
				`assistant {"message":[]}`, `system {no`, `partial_message {"partial":{"type":"text","text":"the title"}}`,
				`hub {"type":"hub.saved","status":"completed"}`, `done {}`,
			} {
				name, data, _ := strings.Cut(event, " ")
				_, _ = w.Write([]byte("event: " + name + "\ndata: " + data + "\n\n"))
			}
		case strings.HasSuffix(r.URL.Path, "/messages"):
			_, _ = w.Write([]byte(`{"items":[{"id":"bad","createdAt":"12026-01-01T00:00:00Z"},` + message + `],"total":2}`))
		default:
			_, _ = w.Write([]byte(`{"items":[{"id":"bad","createdAt":"12026-01-01T00:00:00Z"},` + session + `],"total":2}`))
		}
	}))
	t.Cleanup(hub.Close)
	for _, args := range [][]string{
		{"sessions", "list"}, {"sessions", "list", "-o", "json"}, {"sessions", "show", "one"}, {"sessions", "show", "one", "-o", "json"},
		{"chat", "a", "--session", "one", "-m", "x"}, {"chat", "a", "--session", "one", "-m", "x", "-o", "json"},
	} {
		cmd := openTerminal(t).command(t.TempDir(), args...)
		var notes strings.Builder
		cmd.Stderr = &notes
		cmd.Env = append(os.Environ(), "AGENTHOST_URL="+hub.URL, "AGENTHOST_TOKEN=x", "AGENTHOST_CONFIG="+t.TempDir())
		out, err := cmd.Output()
		require.NoError(t, err, "%q: %s", args, notes.String())
		require.Contains(t, string(out), "the title", args)
		require.NotContains(t, string(out), "bad", args)
		if args[0] == "sessions" {
			require.Contains(t, notes.String(), "warning: read ", args)
			require.Contains(t, notes.String(), "must be a time in the form of RFC 3339", args)
		}
	}
}
