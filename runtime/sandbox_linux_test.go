package runtime_test

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/tool/confine"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// confined is a runtime with a sandbox, and the files around its working directory.
type confined struct {
	*bench
	cwd, home, private string
	calls              []modeltest.Step // of the next run
}

// serveConfined starts a runtime whose agents may call every tool.
func serveConfined(t *testing.T, change func(c *confined, cfg *runtime.Config)) *confined {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	c := &confined{cwd: filepath.Join(top, "work"), home: filepath.Join(top, "home"), private: filepath.Join(top, "state", "private")}
	for path, content := range map[string]string{
		"work/own": "own", "other/work/file": "planted", "agents.yaml": "planted", "keys": "planted",
		"home/.ssh/id_rsa": "planted", "state/sessions/x.jsonl": "planted", "data/file": "data",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(top, path)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(top, path), []byte(content), 0o600))
	}
	called := false
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Choose(func(*modeltest.Request) modeltest.Reply {
		if called = !called; called {
			return modeltest.Stream(c.calls...)
		}
		return modeltest.Stream(modeltest.Text("Seen."))
	})))
	c.bench = serve(t, up, func(cfg *runtime.Config) {
		cfg.CWD, cfg.HomeDir = c.cwd, c.home
		cfg.ChildEnv = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + c.home, "LANG=C.UTF-8"}
		boxes, err := confine.New(confine.Config{CWD: c.cwd, Dir: c.private, Home: c.home})
		require.NoError(t, err)
		cfg.OpenSandbox = boxes.Open
		cfg.Agents[0].PermissionMode = "bypassPermissions"
		if change != nil {
			change(c, cfg)
		}
	})
	return c
}

// outcome is the result of a tool call.
type outcome struct {
	Output  string
	IsError bool `json:"is_error"`
}

// run executes the calls in one run, which must complete, and returns their results by id.
func (c *confined) run(t *testing.T, calls ...modeltest.Step) map[string]outcome {
	t.Helper()
	c.calls = calls
	results := map[string]outcome{}
	for _, ev := range c.open(t.Context(), t, hello).rest() {
		switch ev.name {
		case "tool_result":
			result := ev.data["result"].(map[string]any)
			o := outcome{Output: result["output"].(string)}
			o.IsError, _ = result["is_error"].(bool)
			results[result["tool_use_id"].(string)] = o
		case "result":
			require.Equal(t, "Seen.", ev.data["result"])
		case "error":
			require.Fail(t, "the run failed", "%v", ev.data)
		}
	}
	require.Len(t, results, len(calls))
	return results
}

// bash calls Bash.
func (c *confined) bash(t *testing.T, script string) outcome {
	t.Helper()
	return c.run(t, toolCall("t1", "Bash", map[string]string{"command": script}))["t1"]
}

func toolCall(id, name string, input map[string]string) modeltest.Step {
	data, _ := json.Marshal(input)
	return modeltest.ToolCall(id, name, string(data))
}

func (c *confined) detail(t *testing.T, id string) wire.AgentDetail {
	t.Helper()
	var detail wire.AgentDetail
	require.NoError(t, json.Unmarshal([]byte(c.do(t, "GET", "/v1/agents/"+id, "").body), &detail))
	return detail
}

// connects is a script that succeeds if it can connect to an address.
func connects(address string) string {
	host, port, _ := net.SplitHostPort(address)
	return "exec 3<>/dev/tcp/" + host + "/" + port
}

// viaProxy is a script that prints the response of the proxy to a request.
func viaProxy(request string) string {
	return "exec 3<>/dev/tcp/127.0.0.1/${http_proxy##*:} && printf '" + request + ` HTTP/1.0\r\n\r\n' >&3 && cat <&3; exit 1`
}

// Whatever the permissions of an agent are, its commands are confined. The run continues, and the
// model receives the reason.
func TestCommandsAreConfined(t *testing.T) {
	for kernel, restrict := range kernels {
		t.Run(kernel, func(t *testing.T) {
			if !restrict(t) {
				return
			}
			c := serveConfined(t, nil)
			pid := strconv.Itoa(os.Getpid())
			own := strings.TrimPrefix(c.url, "http://")
			local, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			defer local.Close()
			scripts := map[string]string{
				"the configuration":              "cat ../agents.yaml",
				"the keys":                       "cat ../keys",
				"the sessions":                   "cat ../state/sessions/x.jsonl",
				"the key of the user":            "cat " + c.home + "/.ssh/id_rsa",
				"the directory of another agent": "cat ../other/work/file",
				"through a link":                 "ln -s ../other/work link; cat link/file",
				"the environment of the runtime": "cat /proc/" + pid + "/environ",
				"its memory":                     "cat /proc/" + pid + "/maps",
				"its files":                      "ls /proc/" + pid + "/fd/",
				"passwords":                      "cat /etc/shadow",
				"writing outside":                "echo x >../new",
				"writing another agent's file":   "echo x >>../other/work/file",
				"writing to the system":          "echo x >/usr/bin/agenthost-test",
				"the runtime":                    connects(own),
				"a loopback port":                connects(local.Addr().String()),
				"metadata":                       connects("169.254.169.254:80"),
				"a signal to the runtime":        "kill -0 " + pid,
			}
			var calls []modeltest.Step
			for name, script := range scripts {
				calls = append(calls, toolCall(id(name), "Bash", map[string]string{"command": script + " && echo SUCCEEDED"}))
			}
			results := c.run(t, calls...)
			for name := range scripts {
				got := results[id(name)]
				require.True(t, got.IsError, "%s: %s", name, got.Output)
				require.NotContains(t, got.Output, "SUCCEEDED", name)
				require.NotContains(t, got.Output, "planted", name)
				if name != "a signal to the runtime" {
					require.Contains(t, got.Output, "An operator permits more with sandbox.read, sandbox.write, sandbox.network and sandbox.domains of the agent.\nExit code", name)
				}
			}
			require.NoFileExists(t, filepath.Join(filepath.Dir(c.cwd), "new"))
			for request, reason := range map[string]string{
				"GET http://" + own + "/health": own,
				"GET http://169.254.169.254/":   "its address is private or reserved",
				"CONNECT example.com:22":        "add example.com:22 to sandbox.domains",
			} {
				got := c.bash(t, viaProxy(request))
				require.Contains(t, got.Output, " 403 Forbidden", request)
				require.Regexp(t, `\nthe sandbox denied a connection to .*`+reason+`.*\nExit code 1$`, got.Output)
				require.Equal(t, 1, strings.Count(got.Output, "the sandbox denied"), got.Output)
				got = c.bash(t, strings.Replace(viaProxy(request), "cat <&3; exit 1", "cat <&3 >/dev/null", 1))
				require.False(t, got.IsError, got.Output)
				require.Regexp(t, `^the sandbox denied a connection to .*`+reason+`.*$`, got.Output)
				got = c.bash(t, strings.Replace(viaProxy(request), "; exit 1", "; exit 0", 1))
				require.False(t, got.IsError, got.Output)
				require.Equal(t, 1, strings.Count(got.Output, "the sandbox denied"), got.Output)
			}
			require.Equal(t, outcome{Output: "own\n2\n"}, c.bash(t, "cat own; echo; echo 1 >new; echo 2 >$TMPDIR/f; cat $TMPDIR/f; touch ~/x"), "what is permitted works")
			require.Equal(t, outcome{"Killed by signal SIGKILL", true}, c.bash(t, "kill -9 $$"))
			require.Equal(t, outcome{"Exit code 137", true}, c.bash(t, "exit 137"))
			require.Equal(t, outcome{"a\nExit code 3", true}, c.bash(t, "echo a; exit 3"))
			sandbox := c.detail(t, "helper").Sandbox
			mode := map[string]string{"namespaces": "auto", "landlock": "partial"}[kernel]
			require.Equal(t, []any{mode, true, true}, []any{sandbox.Mode, sandbox.Files, sandbox.Network})

			require.NoError(t, c.Close())
			left, err := os.ReadDir(c.private)
			require.NoError(t, err)
			require.Empty(t, left, "private directories are deleted")
		})
	}
}

func id(name string) string { return strings.NewReplacer(" ", "_", "'", "").Replace(name) }

func TestPolicyOfAnAgent(t *testing.T) {
	for name, row := range map[string]struct {
		sandbox agent.Sandbox
		script  string
		want    string
	}{
		"read":                {agent.Sandbox{Read: []string{"../data"}}, "cat ../data/file; echo x >>../data/file", "data.*(Read-only file system|Permission denied)"},
		"read, absolute":      {agent.Sandbox{Read: []string{"TOP/keys"}}, "cat ../keys; cat ../data/file", "planted(.|\n)*(No such file|Permission denied)"},
		"read, missing":       {agent.Sandbox{Read: []string{"../missing"}}, "cat ../missing; cat own", "own"},
		"write":               {agent.Sandbox{Write: []string{"../data"}}, "echo more >>../data/file && cat ../data/file", "datamore"},
		"no network":          {agent.Sandbox{Network: agentvalue.NetworkNone}, "echo p$http_proxy; exec 3<>/dev/tcp/127.0.0.1/3128", "p\n.*(refused|denied|not permitted|unreachable|not supported)(.|\n)*has no network"},
		"all":                 {agent.Sandbox{Network: agentvalue.NetworkAll}, connects("127.0.0.1:PORT") + " && echo yes", "yes"},
		"domains":             {agent.Sandbox{Domains: []string{"*.example.com"}}, viaProxy("GET http://example.org/"), "403(.|\n)*add example.org to sandbox.domains"},
		"off":                 {agent.Sandbox{Mode: agentvalue.SandboxOff}, "cat ../keys; echo; echo $HOME; " + connects("127.0.0.1:PORT") + " && echo yes", "planted\n.*/home\nyes"},
		"required":            {agent.Sandbox{Mode: agentvalue.SandboxRequired}, "cat ../keys || cat own", "own"},
		"without permissions": {agent.Sandbox{}, "cat ../keys || cat own", "own"},
	} {
		t.Run(name, func(t *testing.T) {
			local, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			defer local.Close()
			c := serveConfined(t, func(c *confined, cfg *runtime.Config) {
				for i, path := range row.sandbox.Read {
					row.sandbox.Read[i] = strings.ReplaceAll(path, "TOP", filepath.Dir(c.cwd))
				}
				cfg.Agents[0].Sandbox = row.sandbox
			})
			require.Empty(t, c.Unavailable())
			_, port, _ := net.SplitHostPort(local.Addr().String())
			script := strings.ReplaceAll(row.script, "PORT", port)
			require.Regexp(t, row.want, strings.ReplaceAll(c.bash(t, script).Output, "file: ", ""))
			sandbox := c.detail(t, "helper").Sandbox
			require.Equal(t, row.sandbox.In("").Mode, sandbox.Mode)
			require.Equal(t, row.sandbox.Mode != agentvalue.SandboxOff, sandbox.Files)
			require.Equal(t, row.sandbox.Mode != agentvalue.SandboxOff && row.sandbox.Network != agentvalue.NetworkAll, sandbox.Network)
			if row.sandbox.Network == agentvalue.NetworkAll {
				require.NotEmpty(t, sandbox.Reason)
			}
		})
	}
}

// Scripts of skills are executed with Bash. The rest of the agent home of the user is not visible.
func TestSkillsAreReadable(t *testing.T) {
	c := serveConfined(t, func(c *confined, _ *runtime.Config) {
		dir := filepath.Join(c.home, ".agents", "skills", "greet")
		require.NoError(t, os.MkdirAll(dir, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "SKILL.md"), []byte("---\nname: greet\ndescription: Greets\n---\nRun greet.sh."), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "greet.sh"), []byte("#!/bin/sh\necho hello\n"), 0o700)) // it is executed
		require.NoError(t, os.WriteFile(filepath.Join(c.home, ".agents", "notes"), []byte("planted"), 0o600))
	})
	skill := filepath.Dir(c.detail(t, "helper").AvailableSkills[0].Location)
	require.Equal(t, outcome{Output: "hello\n"}, c.bash(t, skill+"/greet.sh"))
	require.True(t, c.bash(t, "echo x >"+skill+"/SKILL.md").IsError)
	require.NotContains(t, c.bash(t, "cat "+c.home+"/.agents/notes").Output, "planted")
}

// A kernel without namespaces and Landlock confines nothing. The detail says so, and an agent that
// requires the sandbox is unavailable.
func TestSandboxThatCannotBeEnforced(t *testing.T) {
	if !restrictKernel(t, true) {
		return
	}
	c := serveConfined(t, func(_ *confined, cfg *runtime.Config) {
		required := cfg.Agents[0]
		required.ID, required.Sandbox = "required", agent.Sandbox{Mode: agentvalue.SandboxRequired}
		off := cfg.Agents[0]
		off.ID, off.Sandbox = "off", agent.Sandbox{Mode: agentvalue.SandboxOff}
		cfg.Agents = append(cfg.Agents, required, off)
	})
	require.Len(t, c.Unavailable(), 1)
	require.ErrorContains(t, c.Unavailable()["required"], "sandbox.mode is required, and this system cannot enforce the sandbox: namespaces cannot be created: ")
	for id, want := range map[string]string{"helper": "ready", "required": "unavailable", "off": "ready"} {
		detail := c.detail(t, id)
		require.Equal(t, want, detail.Status, id)
		require.False(t, detail.Sandbox.Files, id)
		require.False(t, detail.Sandbox.Network, id)
		if id == "off" {
			require.Equal(t, wire.SandboxStatus{Mode: "off"}, detail.Sandbox)
			continue
		}
		require.Contains(t, detail.Sandbox.Reason, "the kernel has no Landlock", id)
	}
	require.Equal(t, outcome{Output: "planted"}, c.bash(t, "cat ../keys"))
	require.Equal(t, 1, strings.Count(c.log.String(), "the commands of an agent are not confined"))
}

// An agent is not confined without a word, whatever the reason is.
func TestSandboxThatCannotBeOpened(t *testing.T) {
	for name, row := range map[string]struct {
		private    string // directory, below that of the configuration
		fault, why string // of the agent, and in its detail
	}{
		"private directory is a file":    {"keys", "open sandbox: create a private directory: ", "the sandbox cannot be opened: see the log"},
		"private directory is below cwd": {"work/state", "", "the working directory contains the directory of temporary files"},
	} {
		t.Run(name, func(t *testing.T) {
			c := serveConfined(t, func(c *confined, cfg *runtime.Config) {
				boxes, err := confine.New(confine.Config{CWD: c.cwd, Dir: filepath.Join(filepath.Dir(c.cwd), row.private)})
				require.NoError(t, err)
				cfg.OpenSandbox = boxes.Open
			})
			require.Equal(t, wire.SandboxStatus{Mode: "auto", Reason: row.why}, c.detail(t, "helper").Sandbox)
			if row.fault == "" {
				require.Empty(t, c.Unavailable())
				require.Contains(t, c.log.String(), row.why)
				return
			}
			require.ErrorContains(t, c.Unavailable()["helper"], row.fault)
		})
	}
}
