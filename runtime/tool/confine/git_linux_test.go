package confine_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/tool/confine"
)

// setUpRepositories runs a script in an empty directory, whose path without links it returns.
func setUpRepositories(t *testing.T, script string) string {
	top, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	cmd := exec.Command("/bin/bash", "-ec", `git() { command git -c user.email=a@b -c user.name=a -c protocol.file.allow=always "$@"; }
		git init -q repo; echo secret > repo/file; git -C repo add file; git -C repo commit -qm first; `+script)
	cmd.Dir = top
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
	return top
}

// inBox runs a script in the sandbox of a directory, and returns its output.
func inBox(t *testing.T, dir, script string) string {
	boxes, err := confine.New(confine.Config{CWD: dir, Dir: t.TempDir()})
	require.NoError(t, err)
	env := []string{"PATH=/usr/local/bin:/usr/bin:/bin"}
	box, _, err := boxes.Open(agent.Sandbox{}.In(dir), nil, env)
	require.NoError(t, err)
	defer box.Close()
	cmd := &exec.Cmd{Path: "/bin/bash", Args: []string{"bash", "-c", script}, Env: env}
	var output []byte
	_, err = box.Start(cmd, func() (err error) {
		output, err = cmd.CombinedOutput()
		return err
	})
	return string(output) + box.Summary() + strings.Repeat("\nfailed", len(errorList(err)))
}

func errorList(err error) []error {
	if err == nil {
		return nil
	}
	return []error{err}
}

// Commands read the repository of a worktree and of a submodule, and the sandbox says how to permit
// that they change it.
func TestRepositoryOfTheWorkingDirectory(t *testing.T) {
	top := setUpRepositories(t, `git -C repo worktree add -q ../tree; git init -q super; git -C super submodule --quiet add "$PWD/repo" sub; git -C super commit -qm sub`)
	for dir, repository := range map[string]string{"tree": "repo/.git", "super/sub": "super/.git/modules/sub"} {
		output := inBox(t, filepath.Join(top, dir), "git log --format=%s && git status --short && cat file")
		require.Contains(t, output, "first\nsecret\n", dir)
		require.Contains(t, output, "The repository of the working directory is "+filepath.Join(top, repository)+", which can be read: to change it, an operator adds it to sandbox.write.")
		require.NotContains(t, output, "failed")
		output = inBox(t, filepath.Join(top, dir), "git -c user.email=a@b -c user.name=a commit --allow-empty -qm second")
		require.Contains(t, output, "failed", dir)
	}
}

// A working directory cannot name a repository that does not name it.
func TestRepositoryThatAnotherOneNames(t *testing.T) {
	for name, script := range map[string]string{
		"a file":              `mkdir work; echo "gitdir: $PWD/repo/.git" > work/.git`,
		"a common directory":  `git init -q work; mv work/.git work/fake; echo "gitdir: fake" > work/.git; echo "$PWD/repo/.git" > work/fake/commondir`,
		"of another worktree": `git -C repo worktree add -q ../tree; mkdir work; cp tree/.git work/.git`,
		"a link":              `git init -q work; mv work/.git work/fake; echo "gitdir: fake" > work/.git; ln -s "$PWD/repo/.git" work/link; echo ../link > work/fake/commondir`,
		"not a repository":    `mkdir work; echo "gitdir: $PWD/repo" > work/.git`,
		"a worktree setting":  `git init -q work; mv work/.git work/fake; echo "gitdir: fake" > work/.git; git --git-dir work/fake config core.worktree "$PWD/work"; echo "$PWD/repo/.git" > work/fake/commondir`,
		"an endless file":     `mkdir work; head -c 3000000 /dev/zero | tr '\0' / > work/.git`,
	} {
		t.Run(name, func(t *testing.T) {
			top := setUpRepositories(t, script)
			output := inBox(t, filepath.Join(top, "work"), "cat "+top+"/repo/.git/config "+top+"/repo/file")
			require.NotContains(t, output, "secret\n")
			require.NotContains(t, output, "[core]")
			require.NotContains(t, output, "The repository of")
			require.Contains(t, output, "failed")
			_, err := os.Stat(filepath.Join(top, "repo/file"))
			require.NoError(t, err)
		})
	}
}
