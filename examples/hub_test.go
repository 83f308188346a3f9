package examples_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// deployItself starts a program that embeds a hub and is the runtime of its agents, and chats with
// one.
func deployItself(t *testing.T, program string) {
	data := t.TempDir()
	start := func() (*exec.Cmd, func(prefix string) string) {
		embedder := exec.CommandContext(t.Context(), program, "-data", data)
		embedder.Stderr = t.Output()
		stdout, err := embedder.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, embedder.Start())
		lines := bufio.NewScanner(stdout)
		return embedder, func(prefix string) string {
			require.True(t, lines.Scan())
			return strings.TrimPrefix(lines.Text(), prefix)
		}
	}
	embedder, line := start()
	url, token, access := line("listening on "), line("setup token "), ""
	call := func(method, path, body string) string {
		req, err := http.NewRequestWithContext(t.Context(), method, url+path, strings.NewReader(body))
		require.NoError(t, err)
		req.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + access}}
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		text, err := io.ReadAll(res.Body)
		require.NoError(t, errors.Join(err, res.Body.Close()))
		require.Less(t, res.StatusCode, 300, "%s %s: %s", method, path, text)
		return string(text)
	}
	field := func(text, name string) string {
		var object map[string]any
		require.NoError(t, json.Unmarshal([]byte(text), &object))
		value, _ := object[name].(string)
		return value
	}
	access = field(call("POST", "/auth/setup", `{"password":"correct horse","setup_token":"`+token+`"}`), "access_token")
	const agents, deployment = "/api/v1/admin/agents", "/api/v1/admin/agents/guide/deploy"
	call("POST", agents, `{"name":"guide","providerId":"demo","model":"demo"}`)
	call("POST", deployment, "")
	reach := func(state string) {
		require.Eventually(t, func() bool { return field(call("GET", deployment, ""), "state") == state }, time.Minute, 20*time.Millisecond)
	}
	reach("running")
	chat := "/api/v1/agents/guide/chat/sessions"
	chat += "/" + field(call("POST", chat, ""), "id") + "/messages"
	require.Contains(t, call("POST", chat, `{"message":"Hello!"}`), "You wrote: Hello!")
	call("DELETE", deployment, "")
	reach("not_deployed")
	end := func() {
		require.NoError(t, embedder.Process.Signal(os.Interrupt))
		require.NoError(t, embedder.Wait())
	}
	end()
	embedder, line = start() // it opens its secrets again
	require.NotEmpty(t, line("listening on "))
	end()
}
