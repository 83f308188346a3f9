package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The rows are packages of a module that is created here, because the gate reads the real output of
// the go command.
var packages = []struct {
	name  string
	test  string // body of the package's test file after the package clause
	error string // in the result, "" if it passes
	want  []string
	never []string
}{
	{
		name:  "passes",
		test:  `func TestOne(t *testing.T) { t.Run("sub", func(t *testing.T) { t.Log("chatter") }) }`,
		want:  []string{"ok  \tgated/passes\t", "2 passed, 0 failed, 0 skipped"},
		never: []string{"chatter", "=== RUN", "PASS\n"},
	},
	{
		name: "fails",
		test: `func TestGood(t *testing.T) { t.Log("chatter") }
			func TestBad(t *testing.T) { t.Log("of interest"); t.Fail() }`,
		error: "failed packages: 1",
		want:  []string{"of interest", "--- FAIL: TestBad", "FAIL\tgated/fails\t", "1 passed, 1 failed, 0 skipped"},
		never: []string{"chatter", "ok  \t"},
	},
	{
		name:  "skips",
		test:  `func TestSkip(t *testing.T) { t.Skip("no server") }`,
		error: "gated/skips TestSkip",
		want:  []string{"no server", "0 passed, 0 failed, 1 skipped"},
	},
	{
		name:  "panics",
		test:  `func TestPanic(t *testing.T) { panic("out of hand") }`,
		error: "failed packages: 1",
		want:  []string{"out of hand", "FAIL\tgated/panics"},
	},
	{
		name:  "exits",
		test:  "func TestExit(t *testing.T) { os.Exit(3) }\nvar _ = os.Args",
		error: "failed packages: 1",
		want:  []string{"FAIL\tgated/exits"},
	},
	{
		name:  "unbuilt",
		test:  `func TestNone(t *testing.T) { undefinedName() }`,
		error: "failed packages: 1",
		want:  []string{"undefined: undefinedName", "FAIL\tgated/unbuilt [build failed]"},
	},
	{
		name:  "empty",
		test:  `func helper(*testing.T) {}`,
		error: "no test ran",
		want:  []string{"[no tests to run]"},
	},
}

func TestGate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "go.mod"), "module gated\n\ngo 1.26.0\n")
	for _, p := range packages {
		imports := "import \"testing\"\n"
		if strings.Contains(p.test, "os.") {
			imports += "import \"os\"\n"
		}
		write(t, filepath.Join(dir, p.name, "x_test.go"), "package "+p.name+"\n"+imports+p.test+"\n")
	}
	for _, p := range packages {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			out, err := gateOver(t, dir, "./"+p.name)
			if p.error == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, p.error)
			}
			for _, want := range p.want {
				require.Contains(t, out, want)
			}
			for _, never := range p.never {
				require.NotContains(t, out, never)
			}
		})
	}
}

// The go command may be killed between a package's first and last event, for example for lack of
// memory.
func TestGateFailsOnTruncatedEvents(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	err := run(strings.NewReader(`{"Action":"start","Package":"p"}
{"Action":"output","Package":"p","Test":"TestA","Output":"last words\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
`), &out)
	require.ErrorContains(t, err, "failed packages: 1")
	require.Contains(t, out.String(), "last words")
	require.Contains(t, out.String(), "did not come to its end")
}

func TestGateForwardsOtherLines(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.ErrorContains(t, run(strings.NewReader("signal: killed"), &out), "no test ran")
	require.Contains(t, out.String(), "signal: killed")
}

func gateOver(t *testing.T, dir, pkg string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "test", "-json", "-vet=off", pkg)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	events, _ := cmd.Output() // the gate reports the failure
	var out strings.Builder
	err := run(strings.NewReader(string(events)), &out)
	return out.String(), err
}

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}
