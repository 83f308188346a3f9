package permission_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/internal/permission"
)

// The files of the working directory belong to the model. Without PATH, or with a number in it,
// bash would find its programs there.
func TestFilesCannotReplacePrograms(t *testing.T) {
	bash, err := exec.LookPath("bash")
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "0"), 0o700))
	for _, name := range []string{"ls", "0/ls"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho replaced\n"), 0o700))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "%n"), nil, 0o600))
	p := policy(t, permission.ModeDefault, []string{"Bash(*)"}, nil)
	for _, command := range []string{
		"wait -p PATH; ls", "wait -np PATH; ls", "wait -fnp PATH; ls", "wait -n -fpPATH; ls",
		"printf %n PATH; ls", "printf %? PATH; ls", "printf -- %? PATH; ls", "printf %[m-o] PATH; ls",
	} {
		run := func(text string) string {
			cmd := exec.CommandContext(t.Context(), bash, "-c", text)
			cmd.Dir = dir
			output, _ := cmd.CombinedOutput() // some programs end with an error
			return string(output)
		}
		require.Contains(t, run(command), "replaced", command)
		executed, err := canonical(t, p, command)
		require.True(t, err != nil || !strings.Contains(run(executed), "replaced"), command)
	}
}

// A glob may expand to the name of a file that is an option: test -v expands the index of its
// operand.
func TestFilesCannotBecomeOptions(t *testing.T) {
	s := newShell(t, "bad")
	s.files = []string{"-v"}
	require.True(t, s.link(t, "test") && s.link(t, "["))
	p := policy(t, permission.ModeDefault, []string{"Bash(test *)", "Bash([ *)"}, nil)
	for _, option := range []string{"-v", "*", "-?", "?v", "-[v]", "[-]v", "[!a]v", "-[]v]", "-[u-w]", "-[\"]v\"]", "-[[:lower:]]", "-['v]']"} {
		for _, command := range []string{"test %s 'a[$(bad)]'", "[ %s 'a[$(bad)]' ]", "[ ! %s 'a[$(bad)]' ]"} {
			command = strings.Replace(command, "%s", option, 1)
			calls, _ := s.run(t, command)
			require.Equal(t, [][]string{{"bad"}}, calls, command)
			executed, err := canonical(t, p, command)
			calls, _ = s.run(t, executed)
			require.True(t, err != nil || len(calls) == 0, command)
		}
	}
	for _, command := range []string{"test -f a[b]c", "test -[f", "[ -f src/*.go ]", "[ a = [b]x ]"} {
		require.NoError(t, checkBash(p, command), command)
	}
}
