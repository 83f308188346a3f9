package main_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	main "github.com/seed93082962/agenthost/cmd/agenthost"
	"github.com/seed93082962/agenthost/cmd/internal/daemontest"
	"github.com/seed93082962/agenthost/hub/client"
	"github.com/seed93082962/agenthost/hub/wire"
)

// scratch is the directory of the built command. It is removed after the tests.
var scratch string

// cleaned removes scratch after the tests.
type cleaned struct{ *testing.M }

func (m cleaned) Run() int {
	var err error
	if scratch, err = os.MkdirTemp("", "agenthost-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}

	defer func() { _ = os.RemoveAll(scratch) }()
	return m.M.Run()
}

// TestMain also runs for each command of a script.
func TestMain(m *testing.M) { testscript.Main(cleaned{m}, map[string]func(){"agenthost": main.Main}) }

const password = "correct horse battery"

// setUp creates the admin ada of a hub that agenthost dev serves in a directory, and returns her
// client.
func setUp(t *testing.T, p *daemontest.Process, dir string) *client.Client {
	t.Helper()
	p.Await(t, p.Stdout, running)
	token := p.Await(t, p.Stdout, regexp.MustCompile(`#setup=(\w+)\n`))[1]
	c := clientOf(t, p, dir)
	_, err := c.Auth.Setup(t.Context(), wire.SetupRequest{Username: "ada", Password: password, SetupToken: token})
	require.NoError(t, err)
	return c
}

// The scripts run the commands with a hub that agenthost dev serves. $HUB is its address, and
// AGENTHOST_TOKEN a token of its admin ada.
func TestScripts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startDev(t, dir, nil)
	defer end(t, p)
	c := setUp(t, p, dir)
	token, err := c.Auth.IssueToken(t.Context(), wire.IssueTokenRequest{Name: "scripts"})
	require.NoError(t, err)
	t.Run("all", func(t *testing.T) { // it waits for the scripts
		runScripts(t, p.URL, token.Token)
	})
}

func runScripts(t *testing.T, url, token string) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			env.Setenv("HUB", url)
			env.Setenv("PASSWORD", password)
			env.Setenv("AGENTHOST_CONFIG", filepath.Join(env.WorkDir, "config"))
			env.Setenv("AGENTHOST_URL", url)
			env.Setenv("AGENTHOST_TOKEN", token)
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"exits": exits, "replace": replaceText},
	})
}

// exits runs a command that must end with that exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	want, err := strconv.Atoi(args[0])
	if neg || err != nil {
		ts.Fatalf("usage: exits CODE COMMAND")
	}
	code := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		code = exit.ExitCode()
	}
	if code != want {
		ts.Fatalf("exit code %d, and not %d", code, want)
	}
}

// replaceText replaces the matches of a pattern in a file.
func replaceText(ts *testscript.TestScript, _ bool, args []string) {
	pattern, text, file := regexp.MustCompile(args[0]), args[1], ts.MkAbs(args[2])
	data := ts.ReadFile(file)
	if !pattern.MatchString(data) {
		ts.Fatalf("%s does not match in %s", pattern, data)
	}
	ts.Check(os.WriteFile(file, []byte(pattern.ReplaceAllString(data, text)), 0o600))
}

// Every command has a description and an example, and its example names the command.
func TestEveryCommandHasAnExample(t *testing.T) {
	t.Parallel()
	root := main.Root()
	n := 0
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, child := range cmd.Commands() {
			if slices.Contains([]string{"hub", "runtime", "exit-codes", "completion", "help"}, child.Name()) && cmd == root {
				continue // their help has examples of its own, or is text
			}
			n++
			require.NotEmpty(t, child.Short, child.CommandPath())
			require.Contains(t, child.Example, child.CommandPath(), "the example of %s", child.CommandPath())
			walk(child)
		}
	}
	walk(root)
	require.Greater(t, n, 50)
}

// contents returns the files of a pattern, without those of tests.
func contents(t *testing.T, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	require.NoError(t, err)
	var all strings.Builder
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		all.Write(text)
	}
	return all.String()
}

// Every command has a test in a script.
func TestEveryCommandIsTested(t *testing.T) {
	t.Parallel()
	scripts := contents(t, "testdata/*.txtar")
	root := main.Root()
	untested := map[string]bool{}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, child := range cmd.Commands() {
			if child.Name() != "dev" && !strings.Contains(scripts, child.CommandPath()) {
				untested[child.CommandPath()] = true
			}
			if child.Name() != "hub" || cmd != root {
				walk(child)
			}
		}
	}
	walk(root)
	require.Empty(t, slices.Sorted(maps.Keys(untested)))
}

// outside are methods of the client without a command, with the reason.
var outside = map[string]string{
	"Auth.Refresh":           "the client does it",
	"Auth.Authorize":         "a page of the console calls it, for login --browser",
	"Auth.CheckInvite":       "the console checks an invitation before it asks for a name",
	"Auth.CheckOrganization": "the console checks a name that a user enters",
	"Agents.Detail":          "agents get and status show the agent",
	"Agents.Mount":           "agents set, edit and apply change it", "Agents.Mounted": "agents get shows it",
	"Agents.MountKnowledge": "agents edit and apply change it", "Agents.Knowledge": "agents get shows it",
	"Providers.Get":           "providers get finds a provider by name",
	"Providers.RuntimeConfig": "runtimes call it",
	"Providers.ProbeConfig":   "the console tests a form before it is stored",
	"Skills.Link":             "skills download follows it",
	"Users.Get":               "users get finds a user by name",
	"Chats.Delete":            "sessions delete",
	"Chats.Transcript":        "sessions transcript",
	"Chats.File":              "sessions file",
	"History.CancelAnswer":    "runs cancel names the run of an answer", "Chats.SendInBackground": "chat reads the answer",
	"History.Events": "sessions show has the stored answers",
}

// Every method of the client has a command.
func TestEveryMethodHasACommand(t *testing.T) {
	t.Parallel()
	source := contents(t, "*.go")
	n := 0
	for part := range reflect.TypeFor[client.Client]().Fields() {
		catalog := strings.Contains(source, "return c."+part.Name+"\n") || strings.Contains(source, "return c."+part.Name+".Catalog\n")
		if !part.IsExported() || catalog {
			continue // componentCommand has a command for each method
		}
		for method := range part.Type.Methods() {
			name := part.Name + "." + method.Name
			called := strings.Contains(source, "."+name+"(")
			require.True(t, called != (outside[name] != ""), "%s has a command: %v, and a reason to have none: %q", name, called, outside[name])
			n++
		}
	}
	require.Greater(t, n, 80)
}

// A person reads an entry as time, level, message and the other values. A line of another form is
// unchanged, and requests that only observe the runtime are no lines.
func TestLogLines(t *testing.T) {
	t.Parallel()
	const when = `"time":"2026-11-28T22:53:06.5Z"`
	for line, want := range map[string]string{
		`{"level":"info",` + when + `,"message":"serving","addr":"127.0.0.1:1"}`:                                    "INFO  serving addr=127.0.0.1:1",
		`{"level":"warn","b":"two words","a":[1,{"x":"y"}],"n":null,"message":"agent is unavailable",` + when + `}`: `WARN  agent is unavailable b="two words" a=[1,{"x":"y"}] n=null`,
		`{"run_id":"2ec01d62-852b-4b9d-b88e-7144f5e79be5",` + when + `,"message":"run"}`:                            "      run run_id=f5e79be5",
		`{"message":"request","method":"GET","path":"/v1/agents/a","status":200,` + when + `}`:                      "",
		`{"message":"request","method":"GET","path":"/v1/agents","status":200,` + when + `}`:                        "",
		`{"message":"request","method":"GET","path":"/health/ready","status":200,` + when + `}`:                     "",
		`{"message":"request","method":"GET","path":"/v1/agents/a","status":500,` + when + `}`:                      "      request method=GET path=/v1/agents/a status=500",
		`{"message":"request","method":"GET","path":"/v1/agents/a/files","status":200,` + when + `}`:                "      request method=GET path=/v1/agents/a/files status=200",
		`{"message":"request","method":"POST","path":"/v1/agents/a","status":200,` + when + `}`:                     "      request method=POST path=/v1/agents/a status=200",
	} {
		got := main.LogLine(line)
		if want != "" {
			_, got, _ = strings.Cut(got[len("2026-11-28 "):], " ")
		}
		require.Equal(t, want, got, line)
	}
	for _, line := range []string{
		"", "goroutine 1 [running]:", "{", `{"message":"x"`, `{"message":"x"}`, `{"message":"x",` + when + `} and more`, `{"message":"x",` + when + `}{}`, `["a"]`, `{"message":"",` + when + `}`,
	} {
		require.Equal(t, line, main.LogLine(line))
	}
}

func TestLinesAfterThePrintedOnes(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ lines, printed, want string }{
		{"a b c", "", "a b c"},
		{"a b c", "a b", "c"},
		{"b c d", "a b c", "d"},
		{"a a a", "a a", "a"},
		{"x y", "a b", "x y"},
		{"a b", "a b", ""},
		{"b a b", "a b", "a b"},
		{"c", "a b c", ""},
	} {
		require.Equal(t, strings.Fields(row.want), append([]string{}, main.After(strings.Fields(row.lines), strings.Fields(row.printed))...), row)
	}
}
