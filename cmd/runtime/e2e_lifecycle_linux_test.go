package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/tool/js"
	"github.com/seed93082962/agenthost/runtime/wire"
)

const lifecycleYAML = `
agents:
  - id: a
    model: m
    provider: {protocol: anthropic, baseUrl: "{upstream}"}
    permissionMode: bypassPermissions
    mcpServers: {local: %s}
    customTools: [{path: quick.ts}, {path: spin.ts}, {path: look.ts}]
`

// look is a script that searches for secrets.
const look = `export default {name: "look", description: "Looks around.", call() {
	return Object.getOwnPropertyNames(globalThis).filter(name => /process|require|Deno|Bun|std|env/i.test(name)).join()
}}`

func newLife(t *testing.T, parts cast) *stage {
	s := newStage(t, parts, fmt.Sprintf(lifecycleYAML, fmt.Sprintf(stdioServer, "tools")))
	s.write(filepath.Join(s.home, "quick.ts"), scripts["quick.ts"])
	s.write(filepath.Join(s.home, "spin.ts"), scripts["spin.ts"])
	s.write(filepath.Join(s.home, "look.ts"), look)
	return s
}

// threeRuns has three runs: in a command, in a call of a server and in a custom tool.
func (s *stage) threeRuns(parts cast) (runs []*following) {
	s.t.Helper()
	started := fmt.Sprintf(`{"text":%q}`, filepath.Join(s.cwd, "started"))
	parts["bash"] = tool("Bash", `{"command":"touch started; exec sleep 1000"}`)
	parts["mcp"] = tool("mcp__local__wait", started)
	parts["script"] = tool("spin", `{}`)
	for name, reached := range map[string]func(*stage, *following){"bash": inFile, "mcp": inFile, "script": inScript} {
		f, _ := s.begin("a", wire.RunRequest{Message: name})
		reached(s, f)
		runs = append(runs, f)
	}
	return runs
}

func TestDrainCancelsRemainingRuns(t *testing.T) {
	t.Parallel()
	parts := cast{}
	s := newLife(t, parts)
	s.args = append(s.args, "--drain-timeout", "50ms")
	s.start()
	runs := s.threeRuns(parts)
	s.Signal(t, syscall.SIGTERM)
	for _, f := range runs {
		require.Equal(t, wire.ReasonShutdown, f.until("cancelled").(*wire.Cancelled).Reason)
		f.until("done")
		require.NoError(t, f.end())
	}
	s.Wait(t)
	require.Zero(t, s.Cmd.ProcessState.ExitCode(), "%s", s.Log)
	require.Contains(t, s.Log.String(), `"message":"stopped"`)
	require.Empty(t, s.processes())
}

func TestChildrenDieWithTheRuntime(t *testing.T) {
	t.Parallel()
	parts := cast{}
	s := newLife(t, parts)
	s.start()
	runs := s.threeRuns(parts)
	children := s.processes()
	for _, line := range []string{"sleep 1000 ", "-test.run=^TestMCPServer$ ", js.WorkerArg + " "} {
		require.True(t, slices.ContainsFunc(children, func(p proc) bool { return strings.HasSuffix(p.line, line) }), line)
	}
	s.Signal(t, syscall.SIGKILL)
	s.Wait(t)
	for _, p := range children {
		s.until("the end of "+p.line, func() bool { return !alive(p.pid) })
	}
	for _, f := range runs {
		require.Error(t, f.end())
	}
}

// Keys of the command are neither in the environment of child processes nor in readable files.
func TestKeysStayInTheCommand(t *testing.T) {
	t.Parallel()
	parts := cast{"look": {
		modeltest.Stream(use("bash", "Bash", `{"command":"env; echo; cat .agents/x 2>&1; pwd"}`),
			use("mcp", "mcp__local__environ", `{"text":""}`), use("script", "look", `{}`)),
		says("Seen."),
	}}
	s := newLife(t, parts)
	planted := []string{
		"ANTHROPIC_API_KEY", "planted-1", "OPENAI_API_KEY", "planted-2", "AGENT_HTTP_API_KEY", "", "OPENAI_BASE_URL",
		"http://planted-3",
		"TEAM_KEY", "planted-4", "AWS_SECRET_ACCESS_KEY", "planted-5", "DATABASE_URL", "planted-6", "LD_LIBRARY_PATH_X", "planted-7",
	}
	s.env = append(s.env, append(planted, "LANG", "C.UTF-8", "USER", "somebody")...)
	s.start()
	all := s.run("a", wire.RunRequest{Message: "look"})
	require.Equal(t, "Seen.", *final(t, all).Result)
	outcome := results(all)
	require.Equal(t, "planted-1", s.up.Await(t, 1).Header.Get("X-Api-Key"), "the provider gets it")
	for id, r := range outcome {
		require.False(t, r.IsError, r.Output)
		require.NotContains(t, r.Output, "planted", id)
	}
	for _, id := range []string{"bash", "mcp"} {
		require.Contains(t, outcome[id].Output, "\nUSER=somebody", id)
		require.Contains(t, outcome[id].Output, "\nHOME="+filepath.Join(s.state, "private"), id)
	}
	require.Empty(t, outcome["script"].Output, "no name of a host that is not one")
	workers := 0
	for _, p := range s.processes() {
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.pid))
		if err == nil {
			require.NotContains(t, string(env), "planted", p.line)
		}
		if strings.HasSuffix(p.line, js.WorkerArg+" ") {
			workers++
		}
	}
	require.NotZero(t, workers)
	detail, err := s.api().Agent(t.Context(), "a")
	require.NoError(t, err)
	text, err := json.Marshal(detail)
	require.NoError(t, err)
	require.NotContains(t, string(text), "planted")
	require.NotContains(t, s.Log.String(), "planted")
}

func TestSessionDirectory(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		env, warning string
		kept         bool
	}{
		"named, in the working directory": {"state", "the state directory is in the working directory", true},
		"default, in the working directory": {"",
			"the state directory would be in the working directory", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newLife(t, cast{"hello": {says("Hi.")}, "again": {says("Hi again.")}})
			s.args = []string{"--addr", "127.0.0.1:0", "--metrics-addr", "127.0.0.1:0"}
			s.cwd, s.env = s.home, []string{"AGENT_STATE_DIR", row.env}
			s.start()
			require.Contains(t, s.Log.String(), row.warning)
			all := s.run("a", wire.RunRequest{Message: "hello"})
			session := all[0].(*wire.System).SessionID
			files, err := filepath.Glob(filepath.Join(s.home, "state", "sessions", "*", "a", "*", session+".jsonl"))
			require.NoError(t, err)
			require.Equal(t, row.kept, len(files) == 1)
			all = s.run("a", wire.RunRequest{Message: "again", SessionID: new(session)})
			require.True(t, all[0].(*wire.System).Resumed, "in memory too, while the process lives")
			s.Signal(t, syscall.SIGKILL)
			s.Wait(t)
			s.start()
			all = s.run("a", wire.RunRequest{Message: "hello", SessionID: new(session)})
			require.Equal(t, row.kept, all[0].(*wire.System).Resumed)
		})
	}
}

func TestCheckReportsCustomTools(t *testing.T) {
	t.Parallel()
	dir := write(t, `
agents:
  - {id: good, model: m, provider: {protocol: demo}, customTools: [{path: good.ts}]}
  - {id: syntax, model: m, provider: {protocol: demo}, customTools: [{path: syntax.ts}]}
  - {id: thrower, model: m, provider: {protocol: demo}, customTools: [{path: thrower.ts}]}
  - {id: missing, model: m, provider: {protocol: demo}, customTools: [{path: missing.ts}]}
  - {id: misnamed, model: m, provider: {protocol: demo}, customTools: [{path: good.ts, name: other}]}
  - {id: empty, model: m, provider: {protocol: demo}, customTools: [{path: empty.ts}]}
`)
	for name, text := range map[string]string{
		"good.ts": scripts["quick.ts"], "syntax.ts": "export default {name: ", "thrower.ts": `throw new Error("not today")`,
		"empty.ts": "",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	p := spawn(t, dir, nil, "--check")
	p.Wait(t)
	require.Equal(t, 1, p.Cmd.ProcessState.ExitCode(), "%s", p.Log)
	lines := strings.Split(strings.TrimSpace(p.Stdout.String()), "\n")
	require.Len(t, lines, 6)
	require.Equal(t, "good: ready", lines[0])
	for i, want := range []string{"syntax.ts", "not today", "missing.ts", "other", "empty"} {
		require.Regexp(t, `^\w+: unavailable: load customTools\[0\]: .*`+want, lines[i+1])
	}
}
