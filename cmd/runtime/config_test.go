package main_test

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const demo = `
agents:
  - {id: from-file, model: demo, provider: {protocol: demo}}
`

func TestHelp(t *testing.T) {
	out, log, err := once(t, nil, "--help")
	require.NoError(t, err)
	require.Empty(t, log)
	for _, want := range []string{
		"Usage:\n  runtime [flags]\n", "  --addr, AGENT_HTTP_ADDR\n      address to listen on (default 127.0.0.1:3000)\n", "--config, ", "--check ",
		"--cwd, AGENT_CWD, cwd\n", "  --drain-timeout\n", "are cancelled (default 20s)\n", "AGENT_HTTP_API_KEY", "AGENT_CONFIG", "AGENT_HTTP_ADDR", "AGENT_CWD", "ANTHROPIC_BASE_URL",
		"OPENAI_API_KEY",
	} {
		require.Contains(t, out, want)
	}
	for line := range strings.Lines(out) {
		require.LessOrEqual(t, len(line), 130, line)
	}
}

func TestHelpShowsNoSecret(t *testing.T) {
	out, _, err := once(t, []string{"AGENT_HTTP_API_KEY", "planted", "ANTHROPIC_API_KEY", "planted", "OPENAI_BASE_URL",
		"planted"}, "--help")
	require.NoError(t, err)
	require.NotContains(t, out, "planted")
}

func TestVersion(t *testing.T) {
	out, log, err := once(t, nil, "--version")
	require.NoError(t, err)
	require.Regexp(t, `^agenthost runtime \S+\n$`, out)
	require.Empty(t, log)
}

func TestWrongCommandLines(t *testing.T) {
	for name, row := range map[string]struct {
		args []string
		want string
	}{
		"unknown flag":  {[]string{"--port", "80"}, "unknown flag: --port; runtime --help lists the flags"},
		"argument":      {[]string{"serve"}, `unknown argument "serve"; runtime --help lists the flags`},
		"value missing": {[]string{"--addr"}, "flag needs an argument: --addr; runtime --help lists the flags"},
		"not a duration": {[]string{"--drain-timeout", "soon"},
			`--drain-timeout: "soon" is not a duration such as 90s or 30m`},
	} {
		t.Run(name, func(t *testing.T) {
			out, log, err := once(t, nil, row.args...)
			require.EqualError(t, err, row.want)
			require.Empty(t, out+log)
		})
	}
}

func TestMissingFile(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, row := range map[string]struct{ env, args []string }{
		"flag":              {nil, []string{"--config", "nowhere.yaml"}},
		"flag, the default": {nil, []string{"--config", "agents.yaml"}},
		"environment":       {[]string{"AGENT_CONFIG", "nowhere.yaml"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			out, log, err := once(t, row.env, row.args...)
			require.ErrorIs(t, err, os.ErrNotExist)
			require.ErrorContains(t, err, "read configuration: open ")
			require.Empty(t, out+log)
		})
	}
}

const faulty = `
auth: {apiKey: "${NOT_THERE}"}
agents:
  - id: Coder
    modle: x
    provider: {protocol: demo}
  - {id: fine, model: demo, provider: {protocol: demo, apiKey: "${PLANTED}"}, temperature: 9}
`

// faults are the errors of an invalid file, each with its position.
var faults = regexp.MustCompile(`^read configuration:
agents\.yaml:1: auth\.apiKey: environment variable NOT_THERE is not set
agents\.yaml:3: agents\[0\]\.id: "Coder" .*
agents\.yaml:4: agents\[0\]\.modle: .*; did you mean model\?
agents\.yaml:6: agents\[1\]\.temperature: .*$`)

func TestInvalidFile(t *testing.T) {
	t.Chdir(write(t, faulty))
	for _, args := range [][]string{nil, {"--check"}} {
		out, log, err := once(t, []string{"PLANTED", "secret"}, args...)
		require.Error(t, err)
		require.Regexp(t, faults, err.Error())
		require.Empty(t, out+log, "the error is all there is")
	}
}

func TestInvalidFileExits(t *testing.T) {
	p := spawn(t, write(t, faulty), []string{"PLANTED", "secret"})
	p.Wait(t)
	require.Equal(t, 1, p.Cmd.ProcessState.ExitCode())
	message, ok := strings.CutPrefix(p.Log.String(), "runtime: ")
	require.True(t, ok)
	require.Regexp(t, faults, strings.TrimSuffix(message, "\n"))
	require.Empty(t, p.Stdout.String())
}

func TestNoAgents(t *testing.T) {
	t.Chdir(write(t, "agents: []"))
	out, _, err := once(t, nil, "--check")
	require.NoError(t, err)
	require.Equal(t, "no agents are configured\n", out)
}

func TestMissingWorkingDirectory(t *testing.T) {
	t.Chdir(write(t, "cwd: nowhere"+demo))
	require.NoError(t, os.WriteFile("file", nil, 0o600))
	for name, row := range map[string]struct {
		env, args []string
		setting   string
		want      string
	}{
		"file":            {nil, nil, "--cwd, AGENT_CWD, cwd", "no such file or directory"},
		"flag":            {nil, []string{"--cwd", "nowhere"}, "--cwd", "no such file or directory"},
		"environment":     {[]string{"AGENT_CWD", "nowhere"}, nil, "AGENT_CWD", "no such file or directory"},
		"not a directory": {nil, []string{"--cwd", "file"}, "--cwd", "file is not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, how := range [][]string{{"--check"}, {"--addr", "127.0.0.1:0"}} {
				_, _, err := once(t, row.env, append(how, row.args...)...)
				require.ErrorContains(t, err, row.setting+": open the working directory: ")
				require.ErrorContains(t, err, row.want)
			}
		})
	}
}

func TestKeysInTheEnvironment(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, row := range map[string]struct{ value, want string }{
		"nothing":          {"", ""},
		"one":              {"one", ""},
		"list":             {"one, two", ""},
		"only commas":      {" , ,", "a key must not be empty"},
		"only white space": {"  ", "a key must not be empty"},
		"comma at the end": {"planted,", "a key must not be empty"},
		"space within":     {"planted secret", "a key must be visible ASCII characters without commas"},
		"not ASCII":        {"plantéd", "a key must be visible ASCII characters without commas"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := once(t, []string{"AGENT_HTTP_API_KEY", row.value}, "--check")
			if row.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, "AGENT_HTTP_API_KEY: "+row.want)
		})
	}
}

const mixed = `
agents:
  - {id: ready, model: demo, provider: {protocol: demo}}
  - {id: no-key, model: m, provider: {protocol: anthropic}}
  - {id: no-prompt, model: demo, provider: {protocol: demo}, systemPromptFile: nowhere.md}
  - {id: two-faults, model: m, provider: {protocol: antropic, authStyle: baerer}}
  - {id: own, model: m, provider: {protocol: openai, baseUrl: "http://127.0.0.1:1/v1"}}
`

func TestCheck(t *testing.T) {
	dir := write(t, mixed)
	config := filepath.Join(dir, "agents.yaml")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()

	out, log, err := once(t, nil, "--check", "--config", config, "--addr", taken.Addr().String())
	require.EqualError(t, err, "the configuration has problems", "an agent that is unavailable, not a port in use")
	require.Empty(t, log)
	lines := strings.Split(out, "\n")
	require.Len(t, lines, 6, out)
	require.Equal(t, "ready: ready", lines[0])
	require.Equal(t, "no-key: unavailable: the provider has no API key: set its apiKey", lines[1])
	require.Equal(t, "no-prompt: unavailable: read system prompt: open "+filepath.Join(dir,
		"nowhere.md")+": no such file or directory", lines[2])
	require.Contains(t, lines[3], "two-faults: unavailable: provider.protocol: ")
	require.Contains(t, lines[3], "; provider.authStyle: ")
	require.Equal(t, "own: ready", lines[4])
	require.Empty(t, lines[5])
}

func TestCheckReportsSkills(t *testing.T) {
	dir := write(t, `
agents:
  - {id: a, model: demo, provider: {protocol: demo}, extraUserSkillDirs: [more]}
  - {id: b, model: demo, provider: {protocol: demo}, extraUserSkillDirs: [more/mute, more]}
`)
	for name, text := range map[string]string{
		"good": "---\ndescription: Fine.\n---\n", "mute": "---\nname: mute\n---\n", "broken": "No frontmatter.\n",
	} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "more", name), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "more", name, "SKILL.md"), []byte(text), 0o600))
	}
	out, log, err := once(t, nil, "--check", "--config", filepath.Join(dir, "agents.yaml"), "--cwd", t.TempDir())
	require.NoError(t, err)
	require.Empty(t, log)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, 4, out)
	require.Equal(t, []string{"a: ready", "b: ready"}, lines[:2])
	more := filepath.Join(dir, "more")
	require.Contains(t, out, filepath.Join(more, "mute", "SKILL.md")+": skill has problems: the description is missing: describe in description")
	require.Contains(t, out, filepath.Join(more, "broken", "SKILL.md")+": skill has problems: the file does not begin with frontmatter: begin")
}

func TestCheckFindsWhatIsMissing(t *testing.T) {
	config := func(tools, server string) string {
		return "agents:\n  - {id: a, model: demo, provider: {protocol: demo}, allowedTools: " + tools + ", mcpServers: {files: " + server + "}}\n"
	}
	for name, row := range map[string]struct{ tools, server, want string }{
		"nothing":            {`[Read, "Bash(git *)", mcp__files, mcp__files__x, "mcp__files__*"]`, `{transport: stdio, command: sh}`, ""},
		"a tool":             {`[Read, "Basch(git *)"]`, `{transport: stdio, command: sh}`, `a: there is no tool "Basch"`},
		"a tool by its case": {`[read]`, `{transport: stdio, command: sh}`, `a: there is no tool "read"`},
		"a server":           {`[mcp__file__x]`, `{transport: stdio, command: sh}`, `a: there is no tool "mcp__file__x"`},
		"a command":          {`[Read]`, `{transport: stdio, command: no-such-command}`, `mcp server files: find executable "no-such-command"`},
		"an absolute one":    {`[Read]`, `{transport: stdio, command: /no/such/command}`, `mcp server files: find executable "/no/such/command"`},
	} {
		t.Run(name, func(t *testing.T) {
			out, _, err := once(t, []string{"PATH", "/usr/bin:/bin"}, "--check", "--config", filepath.Join(write(t, config(row.tools, row.server)), "agents.yaml"))
			if row.want == "" {
				require.NoError(t, err, out)
				return
			}
			require.EqualError(t, err, "the configuration has problems")
			require.Contains(t, out, row.want)
		})
	}
}

func TestCheckWithTheDemoAgent(t *testing.T) {
	t.Chdir(t.TempDir())
	out, _, err := once(t, nil, "--check")
	require.NoError(t, err)
	require.Equal(t, "demo: ready\n", out)
}

// A start and --check name all errors of the file and of the environment.
func TestAllErrorsOfTheConfiguration(t *testing.T) {
	t.Chdir(write(t, `
colour: blue
agents:
  - {id: a, model: m, provider: {protocol: unknown}, allowedTools: ["Read("]}
  - {id: b, provider: {protocol: demo}}
`))
	for _, args := range [][]string{{"--check"}, {"--addr", "127.0.0.1:0"}} {
		_, _, err := once(t, []string{"AGENT_BUS_URL", "http://host", "AGENT_CWD", "/none"}, args...)
		require.Error(t, err)
		for _, want := range []string{
			"colour", "agents[0].provider.protocol: \"unknown\" is not one of", "agents[0].allowedTools[0]: ", "agents[1].model",
			"AGENT_BUS_URL", "AGENT_CWD",
		} {
			require.Contains(t, err.Error(), want)
		}
	}
}
