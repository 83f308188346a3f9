package permission_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/permission"
)

// git runs git in a directory, without the user's configuration.
func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1"}
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, string(output))
}

// The modes approve no write to what decides which programs git, an agent or the runtime executes.
func TestWritesThatExecuteAreNotApproved(t *testing.T) {
	dir, resolve := realDir(t)
	put := func(name, content string) {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	for _, sub := range []string{"separate", "deep/er/module", "bare.git", "detached", "absolute"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, sub), 0o700))
	}
	git(t, filepath.Join(dir, "separate"), "init", "-q", "--separate-git-dir=../store")
	git(t, filepath.Join(dir, "deep", "er", "module"), "init", "-q", "--separate-git-dir="+dir+"/deep/meta")
	git(t, filepath.Join(dir, "bare.git"), "init", "-q", "--bare")
	put("detached/.git", "gitdir: ../detached-meta\n") // not a git directory yet
	put("absolute/.git", "gitdir: "+dir+"/absolute/meta\n")
	put("agents.yaml", "")
	put("conf/real.yaml", "")
	put("prompts/coder.md", "")
	put("tools/count.ts", "")
	put("dotfiles/gitconfig", "")
	put("dotfiles/git/config", "")
	for link, to := range map[string]string{
		"linked.yaml": "conf/real.yaml", ".gitconfig": "dotfiles/gitconfig", "into": "store", "chain.yaml": "linked.yaml",
	} {
		require.NoError(t, os.Symlink(to, filepath.Join(dir, link)))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, ".config"), 0o700))
	require.NoError(t, os.Symlink("../dotfiles/git", filepath.Join(dir, ".config", "git")))
	protected := []string{"agents.yaml", dir + "/chain.yaml", dir + "/prompts/coder.md", "./tools/count.ts", dir + "/skills", "/etc/agents.yaml",
		"not-yet.yaml"}
	for path, approved := range map[string]bool{
		"store/config": false, "store/hooks/pre-commit": false, "store/new/deep/file": false, "into/config": false, "STORE/config": true,
		"deep/meta/config": false, "deep/meta/info/attributes": false, "deep/er/module/.git": false,
		"bare.git/config": false, "bare.git/hooks/update": false, "detached/meta": true, "absolute/meta/config": false,
		"detached/x": true, "separate/main.go": true, "deep/er/module/main.go": true, "deep/x": true,
		".gitconfig": false, ".GitConfig": false, "sub/.gitconfig": false, "dotfiles/gitconfig": false,
		".config/git/config": false, ".config/Git/config": false, "x/.config/git/attributes": false, "dotfiles/git/config": false,
		".config/other": true, "config/git": true, "git/config": true, "dotfiles/other": true,
		"agents.yaml": false, "AGENTS.yaml": false, "linked.yaml": false, "conf/real.yaml": false, "conf/other.yaml": true,
		"chain.yaml": false, dir + "/agents.yaml": false, "src/up/agents.yaml": false, "prompts/coder.md": false, "prompts/other.md": true,
		"tools/count.ts": false, "tools/other.ts": true, "skills/new/SKILL.md": false, "not-yet.yaml": false, "main.go": true,
	} {
		for _, mode := range []permission.Mode{permission.ModeAcceptEdits, permission.ModeAuto} {
			p, err := permission.New(permission.Config{Mode: mode, Resolve: resolve, CWD: dir, AgentHome: ".agents", Protected: protected})
			require.NoError(t, err)
			for _, tool := range []string{"Write", "Edit"} {
				if err := check(p, tool, false, input("file_path", path)); approved {
					require.NoError(t, err, path)
				} else {
					require.Equal(t, permission.ErrMode, err, path)
				}
				listed, err := permission.New(permission.Config{Mode: mode, Allowed: []string{tool}, Resolve: resolve, CWD: dir, Protected: protected})
				require.NoError(t, err)
				require.NoError(t, check(listed, tool, false, input("file_path", path)), "a rule may allow it")
			}
		}
	}
}

// A working directory may itself be a git directory.
func TestNoWriteToABareRepositoryIsApproved(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	git(t, dir, "init", "-q", "--bare")
	p, err := permission.New(permission.Config{Mode: permission.ModeAcceptEdits, CWD: dir,
		Resolve: func(p string) (string, error) { return p, nil }})
	require.NoError(t, err)
	require.Equal(t, permission.ErrMode, check(p, "Write", false, input("file_path", "config")))
}

func TestDeniesRead(t *testing.T) {
	dir, resolve := realDir(t)
	outside := filepath.Join(filepath.Dir(dir), "outside")
	require.NoError(t, os.WriteFile(filepath.Join(outside, "a.key"), nil, 0o600))
	for link, to := range map[string]string{"to-key": "a.key", "to-secret": dir + "/secrets/key", "to-source": dir + "/src/a.go"} {
		require.NoError(t, os.Symlink(to, filepath.Join(outside, link)))
	}
	for rule, paths := range map[string]map[string]bool{
		"Read(secrets/**)": {"secrets/key": true, "innocent": true, "dir/key": true, dir + "/innocent": true, "src/a.go": false,
			outside + "/to-secret": true, outside + "/to-source": false, outside + "/a.key": false, outside + "/missing": false},
		"Read(*.key)":  {outside + "/a.key": true, outside + "/to-key": true, outside + "/to-source": false, "x.key": true},
		"Read(/*.key)": {outside + "/a.key": false, "x.key": true, "src/x.key": false},
		"Read":         {"src/a.go": false}, // denies the tool, not a path
		"Edit(src/**)": {"src/a.go": false},
	} {
		p, err := permission.New(permission.Config{Disallowed: []string{rule}, Resolve: resolve, CWD: dir})
		require.NoError(t, err)
		for path, denied := range paths {
			require.Equal(t, denied, p.DeniesRead(path), "%s %s", rule, path)
		}
	}
}
