package mcp_test

import (
	"bufio"
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/internal/logquota"
	"github.com/seed93082962/agenthost/internal/logtest"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/tool/mcp"
)

func TestEnvironmentIsExactlyWhatWasGiven(t *testing.T) {
	w := newWorld(t, func(c *mcp.Config) { c.Env = []string{"PATH=/usr/bin:/bin", "LANG=C", "BOTH=base"} })
	def := stdio(t, "tools")
	def.Env = map[string]agent.Secret{"TOKEN": "s3cret", "BOTH": "own", "EMPTY": ""}
	s := w.open(def)
	require.Equal(t, "BOTH=own\nEMPTY=\nLANG=C\nPATH=/usr/bin:/bin\nTOKEN=s3cret", call(t, find(t, s, "environ"), `{}`).Output)
	dir, err := filepath.EvalSymlinks(w.dir)
	require.NoError(t, err)
	require.Equal(t, dir, call(t, find(t, s, "cwd"), `{}`).Output)

	none := newWorld(t, func(c *mcp.Config) { c.Env = nil }).open(stdio(t, "tools"))
	require.Empty(t, call(t, find(t, none, "environ"), `{}`).Output)
}

func TestCommandIsFound(t *testing.T) {
	def := stdio(t, "tools")
	dir, name := filepath.Split(def.Command)
	for row, w := range map[string]*world{
		"in the PATH of the base environment": newWorld(t, func(c *mcp.Config) { c.Env = []string{"PATH=" + dir} }),
		"in the PATH of its own environment":  newWorld(t, func(c *mcp.Config) { c.Env = []string{"PATH=/nowhere"} }),
		"relative to the working directory":   newWorld(t),
	} {
		t.Run(row, func(t *testing.T) {
			own := agent.MCPServer{Transport: agentvalue.TransportStdio, Command: name, Args: def.Args}
			switch row {
			case "in the PATH of its own environment":
				own.Env = map[string]agent.Secret{"PATH": agent.Secret(dir)}
			case "relative to the working directory":
				require.NoError(t, os.Symlink(def.Command, filepath.Join(w.dir, "linked")))
				own.Command, own.CWD = "./linked", "."
			}
			require.NotEmpty(t, list(t, w.open(own)))
		})
	}
}

func TestCrashDuringACall(t *testing.T) {
	w := newWorld(t)
	s := w.open(stdio(t, "tools"))
	echo, crash := find(t, s, "echo"), find(t, s, "crash")
	tools := list(t, s)
	res := call(t, crash, `{}`)
	require.True(t, res.IsError)
	require.Contains(t, res.Output, "mcp server test: the connection was lost during the call, which may or may not have been executed")
	requireStatus(t, s, tool.Pending)
	require.Len(t, w.pids("tools"), 1, "the call was not sent again")

	require.Equal(t, tool.Result{Output: "again"}, call(t, echo, `{"text":"again"}`))
	require.Equal(t, tool.Connected, s.Status())
	require.Len(t, w.pids("tools"), 2)
	require.Same(t, &tools[0], &list(t, s)[0], "it came back with the same tools")
}

func TestCrashBetweenCalls(t *testing.T) {
	w := newWorld(t)
	s := w.open(stdio(t, "tools"))
	echo := find(t, s, "echo")
	for i := range 3 {
		pids := w.pids("tools")
		require.Len(t, pids, i+1)
		for _, pid := range pids {
			if alive(pid) {
				require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
			}
		}
		requireStatus(t, s, tool.Pending)
		require.Equal(t, tool.Result{Output: "back"}, call(t, echo, `{"text":"back"}`))
	}
}

func TestServersThatFailToConnect(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		def  agent.MCPServer
		want string
	}{
		"never answers":    {stdio(t, "silent"), "mcp server test: the server did not respond in time"},
		"sends garbage":    {stdio(t, "garbage"), "not messages, the first one: [This is not a protocol.]"},
		"never ends":       {stdio(t, "endless"), "the response is larger than 16 MiB"},
		"ends immediately": {stdio(t, "exit"), "mcp server test: the command ended before it responded: exit status 3"},
		"is not there":     {agent.MCPServer{Transport: "stdio", Command: "no-such-command"}, `find executable "no-such-command"`},
		"is not a program": {agent.MCPServer{Transport: "stdio", Command: "/"}, "mcp server test: start /"},
	} {
		t.Run(name, func(t *testing.T) {
			limit := long
			switch name {
			case "never answers", "sends garbage":
				limit = 5 * time.Second // the child begins and writes a line or its pid
			}
			w := newWorld(t).within(limit)
			s := w.open(row.def)
			_, err := s.Tools(t.Context())
			require.ErrorContains(t, err, row.want)
			require.Equal(t, tool.Failed, s.Status())
			_, again := s.Tools(t.Context())
			require.Equal(t, err, again, "it is not tried again immediately")
			if name == "never answers" {
				for _, pid := range append(w.pids("silent"), w.pids("sleeper")...) {
					w.requireDead(pid) // without a Close
				}
				require.Len(t, w.pids("silent"), 1)
			}
		})
	}
}

// The error and the log contain the last lines of stderr, redacted and shortened.
func TestAFailedStartQuotesStderr(t *testing.T) {
	w := newWorld(t)
	def := stdio(t, "exit")
	def.Env = map[string]agent.Secret{"DATABASE": "postgres://user:s3cret@db"}
	_, err := w.open(def).Tools(t.Context())
	want := "the command ended before it responded: exit status 3; its stderr ends with: an earlier line | no *** | " + strings.Repeat("x", 397) + "... | bye"
	require.EqualError(t, err, "mcp server test: "+want)
	require.Contains(t, w.log.String(), "level=WARN msg=\"connecting an MCP server failed\" mcp_server=test err=\""+want)
}

// The error is the same whether a write, a read or the end of the process is noticed first.
func TestEarlyEndHasItsExitStatus(t *testing.T) {
	w := newWorld(t)
	def := agent.MCPServer{Transport: agentvalue.TransportStdio, Command: "sh", Args: []string{"-c", "echo sorry >&2; exit 3"}}
	for range 40 {
		_, err := w.open(def).Tools(t.Context())
		require.EqualError(t, err, "mcp server test: the command ended before it responded: exit status 3; its stderr ends with: sorry")
	}
}

// A package runner installs the server at its first start, which must not be interrupted.
func TestFirstStartMayTakeLonger(t *testing.T) {
	w := newWorld(t).within(20 * time.Millisecond)
	w.limits.MCPStartTimeout = long
	require.NoError(t, syscall.Mkfifo(filepath.Join(w.dir, "gate"), 0o600))
	s := w.open(stdio(t, "late"))
	_, err := s.Tools(t.Context())
	require.ErrorIs(t, err, tool.ErrStarting)
	require.EqualError(t, err, "mcp server test: the server is still starting, for at most 2m0s")
	require.Equal(t, tool.Pending, s.Status())
	require.NoError(t, s.Fault())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 10 { // callers neither wait nor end the attempt
		_, err = s.Tools(ctx)
		require.Error(t, err)
	}
	gate, err := os.OpenFile(filepath.Join(w.dir, "gate"), os.O_WRONLY, 0)
	require.NoError(t, err)
	require.NoError(t, gate.Close())
	requireStatus(t, s, tool.Connected)
	require.Equal(t, "on", call(t, find(t, s, "echo"), `{"text":"on"}`).Output)
	require.Len(t, w.pids("late"), 1)

	// Later starts have the ordinary limit.
	require.NoError(t, syscall.Kill(w.pids("late")[0], syscall.SIGKILL))
	requireStatus(t, s, tool.Pending)
	require.Eventually(t, func() bool {
		_, err = s.Tools(t.Context())
		return s.Status() == tool.Failed
	}, long, time.Millisecond)
	require.ErrorContains(t, err, "the server did not respond in time")
	require.ErrorContains(t, s.Fault(), "the server did not respond in time")
}

func TestServerThatIsStuckInACallIsStartedAgain(t *testing.T) {
	for name, row := range expiring {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := w.open(stdio(t, "single"))
			stick, say := find(t, s, "stick"), find(t, s, "say")
			_, err := stick.Call(row.within(t.Context(), 100*time.Millisecond), tool.Call{Input: []byte(`{}`)})
			require.ErrorIs(t, err, row.cause)
			ctx, cancel := context.WithTimeout(t.Context(), long)
			defer cancel()
			res, err := say.Call(ctx, tool.Call{Input: []byte(`{}`)})
			require.NoError(t, err)
			require.Equal(t, tool.Result{Output: "said"}, res)
			require.Len(t, w.pids("single"), 2)
			require.Contains(t, w.log.String(), `cause="the server no longer responds"`)
		})
	}
}

// A server that responds to the ping after a call without time stays connected.
func TestServerThatIsNotStuckStaysConnected(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.open(stdio(t, "tools"))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := find(t, s, "deaf").Call(ctx, tool.Call{Input: []byte(`{}`)})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, tool.Result{Output: "on"}, call(t, find(t, s, "echo"), `{"text":"on"}`))
	require.Len(t, w.pids("tools"), 1)
}

func TestCloseEndsTheWholeGroup(t *testing.T) {
	w := newWorld(t)
	s := w.open(stdio(t, "tools"))
	call(t, find(t, s, "family"), `{}`)
	server, grandchild := w.pids("tools")[0], w.pids("sleeper")[0]
	require.True(t, alive(grandchild))
	began := time.Now()
	require.NoError(t, s.Close())
	require.Less(t, time.Since(began), 30*time.Second)
	require.False(t, alive(server))
	w.requireDead(grandchild)
}

// A program that is killed cannot close anything: the kernel ends the server.
func TestServerDiesWithItsParent(t *testing.T) {
	w := newWorld(t)
	def := stdio(t, "middle")
	cmd := exec.CommandContext(t.Context(), def.Command, def.Args...)
	cmd.Dir, cmd.Stderr = w.dir, w.log
	cmd.Env = append(os.Environ(), "SERVER_CWD=.")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err, "%s", w.log)
	require.Equal(t, "ready\n", line)
	server := w.pids("tools")[0]
	require.True(t, alive(server))
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	w.requireDead(server)
}

func TestStderrIsLogged(t *testing.T) {
	w := newWorld(t)
	def := stdio(t, "tools")
	def.Env = map[string]agent.Secret{"SHOWN": "a line of"}
	w.open(def)
	s := w.open(def)
	list(t, s)
	require.Eventually(t, func() bool { return strings.Contains(w.log.String(), "stderr of an MCP server") }, long, time.Millisecond)
	require.NoError(t, s.Close())
	require.Contains(t, w.log.String(), `mcp_server=test line="*** stderr long long `)
	for line := range strings.Lines(w.log.String()) {
		require.Less(t, len(line), 5<<10)
	}
}

// Lines that are not messages are skipped in any form, with one warning for a server.
func TestLinesOfStdoutThatAreNotMessages(t *testing.T) {
	for name, row := range map[string]struct{ greeting, logged string }{
		"a banner":              {"Welcome to this server!\n\n  2026-11-23 listening on stdio", "Welcome *** server!"},
		"a notice of npm":       {"npm notice New major version of npm available! 10.8.2 -> 11.0.0", "npm notice New"},
		"a level in brackets":   {"[INFO] to this server\n[2026-11-28T10:00:00Z] ready", "[INFO] *** server"},
		"a line of a JSON log":  {`{"level":30,"msg":"ready"}`, "ready"},
		"an object of a shell":  {"{ port: 8080 }\n{", "port: 8080"},
		"an object on 3 lines":  {"{\n  \"port\": 8080\n}", "{"},
		"other JSON":            {"[1, 2]\n[\"a\"]\ntrue\n7\n\"text\"\nnull\n{}", "[1, 2]"},
		"another protocol":      {`{"jsonrpc":"1.0","id":1,"result":{}}` + "\n" + `{"id":1,"result":{}}`, "1.0"},
		"half a message":        {`{"jsonrpc":"2.0","id":1,"result":{`, "result"},
		"control characters":    {"\x1b[31mred\x1b[0m \u202Etxt\u0085\x07", `\x1b[31mred`},
		"not UTF-8":             {"\xff\xfe caf\xe9", "\uFFFD caf\uFFFD"},
		"a long line":           {strings.Repeat("x", 90_000), strings.Repeat("x", 190) + "xxxxxxx..."},
		"a method that is none": {`{"jsonrpc":"2.0","id":5,"method":{}}`, "method"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			def := stdio(t, "greeting")
			def.Env = map[string]agent.Secret{"SHOWN": "to this"}
			require.NoError(t, os.WriteFile(filepath.Join(w.dir, "words"), []byte(row.greeting), 0o600))
			s := w.open(def)
			chat := find(t, s, "chat")
			require.Equal(t, "done", call(t, chat, `{"text":"90"}`).Output)
			require.NoError(t, syscall.Kill(w.pids("greeting")[0], syscall.SIGKILL))
			requireStatus(t, s, tool.Pending)
			require.Equal(t, "done", call(t, chat, `{"text":"1"}`).Output)
			require.Equal(t, 1, strings.Count(w.log.String(), "are not messages"))
			for line := range strings.Lines(w.log.String()) {
				if strings.Contains(line, "are not messages") {
					require.Contains(t, strings.ReplaceAll(line, `\\`, `\`), row.logged)
					require.NotContains(t, line, "to this server")
					require.NotContains(t, line, "\u202E")
					require.Less(t, len(line), 600)
				}
			}
		})
	}
}

// All lines of a connection that are not messages are bounded.
func TestFloodOfLinesThatAreNotMessages(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, os.WriteFile(filepath.Join(w.dir, "words"), []byte("\uFEFFhello"), 0o600))
	chat := find(t, w.open(stdio(t, "greeting")), "chat")
	res := call(t, chat, `{"text":"17000"}`)
	require.True(t, res.IsError)
	require.Contains(t, res.Output, "more than 16 MiB to stdout that are not messages; the first line: hello")
}

// What a server writes during a call has the id of the run, at the level that is logged by default.
// A server that writes without end does not fill the log.
func TestStderrOfACallIsLoggedWithItsRun(t *testing.T) {
	w := newWorld(t)
	var log logtest.Buffer
	var err error
	w.Connector, err = mcp.New(mcp.Config{CWD: w.dir, Env: []string{"PATH=/usr/bin:/bin"}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	mutter := find(t, w.open(stdio(t, "mutter")), "mutter")
	_, err = mutter.Call(t.Context(), tool.Call{ID: "t1", RunID: "run-1", Input: []byte(`{"text":"1"}`)})
	require.NoError(t, err)
	line := `mcp_server=test run_id=run-1 line=` + strings.Repeat("m", 999)
	require.Eventually(t, func() bool { return strings.Contains(log.String(), line) }, long, time.Millisecond)
	_, err = mutter.Call(t.Context(), tool.Call{ID: "t2", RunID: "run-2", Input: []byte(`{"text":"2000"}`)})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "the rest of this minute is left out") }, long, time.Millisecond)
	require.Equal(t, 65, strings.Count(log.String(), strings.Repeat("m", 999)))

	// The calls of a run share its quota.
	quota := logquota.New(5000)
	for range 3 {
		_, err = mutter.Call(t.Context(), tool.Call{ID: "t3", RunID: "run-3", Input: []byte(`{"text":"4"}`), Log: quota})
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "the rest of this run is left out") }, long, time.Millisecond)
	require.Equal(t, 5, strings.Count(log.String(), "run_id=run-3 line="))
	require.Equal(t, 1, strings.Count(log.String(), "the rest of this run is left out"))
}

func TestInputThatIsNotRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.open(stdio(t, "tools"))
	echo := find(t, s, "echo")
	pid := w.pids("tools")[0]
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := echo.Call(ctx, tool.Call{Input: []byte(`{"text":"` + strings.Repeat("x", 1<<20) + `"}`)}) // more than a pipe holds
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, time.Since(began), 30*time.Second)
	require.NoError(t, s.Close()) // a stopped process does not hear SIGTERM
	w.requireDead(pid)
}
