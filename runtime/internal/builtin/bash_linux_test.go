package builtin_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/internal/builtin"
)

// connect is a function of bash that sends a request to the proxy.
const connect = `connect() { exec 3<>/dev/tcp/127.0.0.1/${http_proxy##*:}; printf "CONNECT $1 HTTP/1.0\\r\\n\\r\\n" >&3; cat <&3 >/dev/null; }; `

// Denied connections are in the result, once, also if the command ignores them. The result of a
// failed command ends with the settings that permit more, if an access may have been denied.
func TestBashReportsDenials(t *testing.T) {
	b := setup(t, withEnv, inSandbox(t))
	const settings = "An operator permits more with sandbox.read, sandbox.write, sandbox.network and sandbox.domains of the agent."
	for _, row := range []struct {
		command string
		want    []string // of each line
	}{
		{connect + "connect a.example:22; echo done", []string{"done", "the sandbox denied a connection to a.example:22: add a.example:22 to sandbox.domains"}},
		{connect + "connect a.example:22; exit 4", []string{"the sandbox denied a connection to a.example:22", "Exit code 4"}},
		{connect + "connect a.example:22; cat /none; exit 4", []string{"No such file", "the sandbox denied a connection to a.example:22", settings, "Exit code 4"}},
		{"export NO_PROXY= no_proxy=; curl -s http://a.example:22/; true", []string{"the sandbox denied a connection to a.example:22"}},
		{"export NO_PROXY= no_proxy=; curl -s http://a.example:22/; exit 4", []string{"the sandbox denied a connection to a.example:22", "Exit code 4"}},
		{"cat /none", []string{"No such file", settings, "Exit code 1"}},
		{"cat /none; echo go on", []string{"No such file", "go on"}},
		{"echo EACCES: permission; exit 1", []string{"EACCES", settings, "Exit code 1"}},
		{"false", []string{"Exit code 1"}},
		{"grep x /etc/hostname.not; kill -TERM $$", []string{"No such file", settings, "Killed by signal SIGTERM"}},
	} {
		res, err := b.run(t.Context(), t, row.command)
		require.NoError(t, err)
		require.Equal(t, strings.Contains(row.want[len(row.want)-1], "Exit") || strings.Contains(row.want[len(row.want)-1], "Killed"), res.IsError)
		lines := strings.Split(strings.TrimSuffix(res.Output, "\n"), "\n")
		require.Len(t, lines, len(row.want), res.Output)
		for i, want := range row.want {
			require.Contains(t, lines[i], want)
		}
	}
	require.True(t, strings.HasSuffix(b.tools["Bash"].Spec().Description, settings))
	require.NotContains(t, setup(t).tools["Bash"].Spec().Description, "sandbox")
}

func TestReportOfDenialsIsBounded(t *testing.T) {
	for _, limit := range []int{1000, 2000, 20_000} {
		b := setup(t, withEnv, inSandbox(t), func(c *builtin.Config) { c.MaxOutput = limit })
		script := connect + "seq 300000; for i in {1..30}; do connect " + strings.Repeat("a", 200) + "$i.example:22; done; "
		for _, end := range []string{"true", "exit 9"} {
			res, err := b.run(t.Context(), t, script+end)
			require.NoError(t, err)
			require.LessOrEqual(t, len(res.Output), limit)
			require.Contains(t, res.Output, "\n300000\nthe sandbox denied a connection to aaa", fmt.Sprint(limit))
			require.Equal(t, end != "true", strings.HasSuffix(res.Output, "\nExit code 9"))
		}
	}
}
