package main_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/cmd/internal/daemontest"
	"github.com/seed93082962/agenthost/runtime/client"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// The lowest level is a flag or a variable. Other levels are rejected before anything starts.
func TestLevelOfTheLog(t *testing.T) {
	t.Parallel()
	path := binary(t)
	for level, shown := range map[string]bool{"": true, "debug": true, "info": true, "warn": false, "error": false} {
		p := spawn(t, path, []string{"HUB_DATA_DIR", t.TempDir(), "HUB_LOG_LEVEL", level})
		p.Signal(t, syscall.SIGINT)
		require.Zero(t, p.Exit(t))
		require.Equal(t, shown, strings.Contains(p.Log.String(), `"level":"info"`), "%q: %s", level, p.Log)
	}
	for _, level := range []string{"trace", "INFO+1", "loud"} {
		_, err := once(t, nil, "--log-level", level)
		require.ErrorContains(t, err, "use debug, info, warn or error")
		_, err = once(t, []string{"HUB_LOG_LEVEL", level})
		require.ErrorContains(t, err, "use debug, info, warn or error")
	}
	p := daemontest.Spawn(t, path, t.TempDir(), []string{"HUB_DATA_DIR", t.TempDir(), "HUB_LOG_LEVEL", "debug"}, "--addr", "127.0.0.1:0", "--log-level", "warn")
	p.Started(t)
	p.Signal(t, syscall.SIGINT)
	require.Zero(t, p.Exit(t))
	require.NotContains(t, p.Log.String(), `"level":"info"`, "the flag overrides the variable")
}

// talk is a custom tool that writes to the console, and talker an MCP server that writes to stderr.
const (
	talk = `export default {name: 'talk', description: 'd', inputSchema: {type: 'object'}, call(input) {
		for (let i = 0; i < input.lines; i++) console.log('console ' + i + ' ' + 'c'.repeat(input.length));
		return 'said';
	}}`
	talker = `while read -r line; do
		id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
		case "$line" in
		*'"initialize"'*) result='{"protocolVersion":"2025-11-25","serverInfo":{"name":"talker","version":"1"},"capabilities":{"tools":{}}}';;
		*'"tools/list"'*) result='{"tools":[{"name":"mutter","inputSchema":{"type":"object"}}]}';;
		*'"tools/call"'*)
			for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
				echo "stderr $i $(head -c 9000 /dev/zero | tr '\0' m)" >&2
			done
			result='{"content":[{"type":"text","text":"muttered"}]}';;
		*) continue;;
		esac
		printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
	done`
)

// The output of custom tools and the stderr of MCP servers are in the log of the deployment, with
// the run and the tool or server. The level of the runtime's log is that of AGENT_LOG_LEVEL.
func TestOutputOfToolsIsInTheLogOfADeployment(t *testing.T) {
	t.Parallel()
	p := openProduct(t, "AGENT_LOG_LEVEL", "info")
	p.send(201, "POST", "/api/v1/admin/tools", upload("talk.ts", talk))
	command, err := json.Marshal(talker)
	require.NoError(t, err)
	p.send(201, "POST", "/api/v1/admin/mcps", `{"name":"talker","transport":"stdio","command":"/bin/sh","args":["-c",`+string(command)+`]}`)
	p.send(201, "POST", adminAgents,
		`{"name":"chatty","providerId":"demo","model":"demo","permissionMode":"bypassPermissions","tools":["talk"],"mcps":["talker"]}`)
	p.deploy("chatty")
	s := p.until("chatty", func(s map[string]any) bool { return s["state"] == "running" })
	c, err := client.New(client.Config{BaseURL: s["runtimeUrl"].(string), APIKey: s["apiKey"].(string), HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}})
	require.NoError(t, err)
	run := func(message string) string {
		answer, err := c.Complete(t.Context(), "chatty", wire.RunRequest{Message: message})
		require.NoError(t, err)
		return answer.RunID
	}
	logged := func(key, name, id string) (lines []string) {
		body := p.send(200, "GET", adminAgents+"/chatty/deploy/logs?tail=5000", "").body
		for _, text := range body["lines"].([]any) {
			var line map[string]any
			if json.Unmarshal([]byte(text.(string)), &line) != nil || line[key] != name || line["run_id"] != id {
				continue
			}
			require.Equal(t, "info", line["level"])
			if said, ok := line["line"].(string); ok {
				require.LessOrEqual(t, len(said), 4<<10)
				lines = append(lines, said)
			}
		}
		return lines
	}
	total := func(lines []string) (bytes int) {
		for _, line := range lines {
			bytes += len(line)
		}
		return bytes
	}

	first := run(`/tool talk {"lines":2,"length":9}`)
	require.Equal(t, []string{"console 0 ccccccccc", "console 1 ccccccccc"}, logged("tool", "talk", first))
	flood := logged("tool", "talk", run(`/tool talk {"lines":50,"length":9000}`))
	require.Equal(t, 16, len(flood), "64 KiB")
	require.Equal(t, 4<<10, len(flood[15]))
	require.True(t, strings.HasPrefix(flood[15], "console 15 ccc"))

	id := run(`/tool mcp__talker__mutter {}`)
	var muttered []string
	require.Eventually(t, func() bool { // the response may be read before stderr
		muttered = logged("mcp_server", "talker", id)
		return len(muttered) >= 15
	}, daemontest.Patience, 10*time.Millisecond)
	require.True(t, strings.HasPrefix(muttered[0], "stderr 1 mmm"))
	require.Equal(t, 4<<10, len(muttered[0]))
	require.LessOrEqual(t, total(muttered), 64<<10)
	p.remove("chatty")
}
