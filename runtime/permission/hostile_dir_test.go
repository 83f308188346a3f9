package permission_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/permission"
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
	p := policy(t, permission.ModeDefault, []string{"Bash(ls *)", "Bash(wait *)", "Bash(printf *)"}, nil)

	for _, command := range []string{
		"wait -p PATH; ls", "wait -np PATH; ls", "wait -fnp PATH; ls", "wait -n -fpPATH; ls",
		"printf %n PATH; ls", "printf %? PATH; ls", "printf -- %? PATH; ls", "printf %[m-o] PATH; ls",
	} {
		cmd := exec.CommandContext(t.Context(), bash, "-c", command)
		cmd.Dir = dir
		output, _ := cmd.CombinedOutput() // some programs end with an error
		require.Contains(t, string(output), "replaced", command)
		require.ErrorIs(t, checkBash(p, command), permission.ErrPattern, command)
	}
	for _, command := range []string{"wait; ls", "wait -n; ls", "wait -fn 5; ls", "printf %s src/*; ls", "printf -- 'a\\n'; ls"} {
		require.NoError(t, checkBash(p, command), command)
	}
}

// A glob may expand to the name of a file that is an option: test -v expands the index of its
// operand.
func TestFilesCannotBecomeOptions(t *testing.T) {
	s := newShell(t, "bad")
	s.files = []string{"-v"}
	p := policy(t, permission.ModeDefault, []string{"Bash(test *)", "Bash([ *)"}, nil)
	for _, option := range []string{"-v", "*", "-?", "?v", "-[v]", "[-]v", "[!a]v", "-[]v]", "-[u-w]", "-[\"]v\"]", "-[[:lower:]]", "-['v]']"} {
		for _, command := range []string{"test %s 'a[$(bad)]'", "[ %s 'a[$(bad)]' ]", "[ ! %s 'a[$(bad)]' ]"} {
			command = strings.Replace(command, "%s", option, 1)
			calls, _ := s.run(t, command)
			require.Equal(t, [][]string{{"bad"}}, calls, command)
			require.ErrorIs(t, checkBash(p, command), permission.ErrPattern, command)
		}
	}
	for _, command := range []string{"test -f a[b]c", "test -[f", "[ -f src/*.go ]", "[ a = [b]x ]"} {
		require.NoError(t, checkBash(p, command), command)
	}
}

// On one line, the text of these here-documents would follow the substitution. Bash before 5.2
// executes it there.
func TestDocumentInSubstitutionStaysInPlace(t *testing.T) {
	p := policy(t, permission.ModeDefault, []string{"Bash(git *)"}, nil)
	for _, command := range []string{
		"git commit -m \"$(cat <<'E'\na title\nE\n)\"", "git commit -m `cat <<E\na\nE\n`", "git apply <(cat <<E\na\nE\n)",
	} {
		executed, err := canonical(t, p, command)
		require.ErrorIs(t, err, permission.ErrPattern, command)
		require.Equal(t, command, executed, "a caller that approves the command executes it as it is")
	}
	executed, err := canonical(t, p, "git apply <<E # as usual\n$(git diff)\nE\n")
	require.ErrorIs(t, err, permission.ErrPattern)
	require.Equal(t, "git apply <<E\n$(git diff)\nE\n", executed)
}
