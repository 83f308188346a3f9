package permission_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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
	put("invalid/.git", "meta\n")
	put("empty/.git", "gitdir: \n")
	put("agents.yaml", "")
	put("conf/real.yaml", "")
	put("prompts/coder.md", "")
	put("tools/count.ts", "")
	put("dotfiles/gitconfig", "")
	put("dotfiles/git/config", "")
	put("editor/settings.json", "")
	put("deep/editor/settings.json", "")
	put("dotfiles/ci/test.yml", "")
	for link, to := range map[string]string{
		"linked.yaml": "conf/real.yaml", ".gitconfig": "dotfiles/gitconfig", "into": "store", "chain.yaml": "linked.yaml", ".vscode": "editor", "deep/.vscode": "editor",
	} {
		require.NoError(t, os.Symlink(to, filepath.Join(dir, link)))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, ".config"), 0o700))
	require.NoError(t, os.Symlink("../dotfiles/git", filepath.Join(dir, ".config", "git")))
	require.NoError(t, os.Mkdir(filepath.Join(dir, ".github"), 0o700))
	require.NoError(t, os.Symlink("../dotfiles/ci", filepath.Join(dir, ".github", "workflows")))
	protected := []string{"agents.yaml", dir + "/chain.yaml", dir + "/prompts/coder.md", "./tools/count.ts", dir + "/skills", "/etc/agents.yaml",
		"not-yet.yaml"}
	for path, approved := range map[string]bool{
		"store/config": false, "store/hooks/pre-commit": false, "store/new/deep/file": false, "into/config": false, "STORE/config": true,
		"deep/meta/config": false, "deep/meta/info/attributes": false, "deep/er/module/.git": false,
		"bare.git/config": false, "bare.git/hooks/update": false, "detached/meta": true, "absolute/meta/config": false, "absolute/meta/info/attributes": false, "absolute/meta": false,
		"invalid/meta/config": true, "empty/x": true,
		"detached/x": true, "separate/main.go": true, "deep/er/module/main.go": true, "deep/x": true,
		".gitconfig": false, ".GitConfig": false, "sub/.gitconfig": false, "dotfiles/gitconfig": false,
		".config/git/config": false, ".config/Git/config": false, "x/.config/git/attributes": false, "dotfiles/git/config": false,
		".vscode/settings.json": false, ".vscode/new.json": false, "editor/settings.json": false, "editor/new.json": false,
		"deep/.vscode/settings.json": false,
		"dotfiles/ci/new.yml":        false,
		".config/other":              true, "config/git": true, "git/config": true, "dotfiles/other": true,
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
					require.Equal(t, permission.ErrProtected, err, path)
				}
				listed, err := permission.New(permission.Config{Mode: mode, Allowed: []string{tool}, Resolve: resolve, CWD: dir, AgentHome: ".agents", Protected: protected})
				require.NoError(t, err)
				require.Equal(t, approved, check(listed, tool, false, input("file_path", path)) == nil, "a list does not approve more: %s", path)
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
	require.Equal(t, permission.ErrProtected, check(p, "Write", false, input("file_path", "config")))
}

// Only a pattern that names a protected path approves a change, or bypassPermissions.
func TestPatternsThatNameAProtectedPath(t *testing.T) {
	for path, named := range map[string][]string{
		".git/hooks/pre-commit": {".git/**", ".git", "/.git/hooks/*", "**/.git/**", ".git/", "./.git/hooks/pre-commit"},
		".git/config":           {".git/config", ".git/*"},
		"sub/.git/config":       {"sub/.git/**", "**/.git/**", ".git", "*/.git/config"},
		".GIT/config":           {".GIT/**", ".GIT/config"},
		".gitconfig":            {".gitconfig", "**/.gitconfig"}, "x/.config/git/ignore": {"**/.config/git/**", "x/.config/git/ignore"},
		".husky/pre-commit": {".husky/**", ".husky"}, ".Husky/_/h": {".Husky/**"}, "sub/.husky/pre-push": {"**/.husky/*"},
		"lefthook.yml": {"lefthook.yml"}, "a/lefthook.yml": {"lefthook.yml"}, ".pre-commit-config.yaml": {".pre-commit-config.yaml"},
		".bashrc": {".bashrc"}, ".bash_profile": {".bash_profile"}, ".bash_aliases": {".bash_aliases"}, ".profile": {"/.profile"}, ".zshrc": {".zshrc"}, ".zprofile": {".zprofile"},
		".ssh/config": {".ssh/**", ".ssh/config"}, ".envrc": {".envrc"}, "a/.envrc": {"a/.envrc"}, ".npmrc": {".npmrc"}, ".vimrc": {".vimrc"}, ".exrc": {".exrc"},
		".vscode/tasks.json": {".vscode/**"}, ".idea/x/y.xml": {".idea/"}, ".mcp.json": {".mcp.json"}, ".MCP.json": {".MCP.json"},
		".github/workflows/ci.yml": {".github/workflows/**", ".github/workflows/*.yml", "**/.github/workflows/**"}, ".gitlab-ci.yml": {".gitlab-ci.yml"},
		".agents/skills/x/SKILL.md": {".agents/**", ".agents"}, "conf/agents.yaml": {"conf/agents.yaml", "agents.yaml", "*/agents.yaml"},
		"CONF/AGENTS.yaml": {"CONF/AGENTS.yaml", "AGENTS.yaml"}, "HEAD": {"HEAD"},
		".git /config": nil, "git~1/config": nil, ".g\u200cit/config": nil, ".hus\u212ay/x": nil, ".ba\u017fhrc": nil, ".git::$INDEX_ALLOCATION/config": nil,
	} {
		mode := func(mode permission.Mode, allowed ...string) *permission.Policy {
			p, err := permission.New(permission.Config{Mode: mode, Allowed: allowed, CWD: "/work", AgentHome: ".agents", Protected: []string{"conf/agents.yaml"}})
			require.NoError(t, err)
			return p
		}
		in := input("file_path", path)
		for _, m := range []permission.Mode{permission.ModeDefault, permission.ModeAcceptEdits, permission.ModeAuto, permission.ModeDontAsk} {
			for _, pattern := range named {
				require.NoError(t, check(mode(m, "Edit("+pattern+")"), "Write", false, in), "%s %s", pattern, path)
				require.NoError(t, check(mode(m, "Edit", "Write", "Write("+pattern+")"), "Write", false, in), "%s %s", pattern, path)
				require.Equal(t, permission.ErrNotListed, check(mode(m, "Write("+pattern+")"), "Edit", false, in))
			}
			for _, allowed := range [][]string{{"Edit", "Write"}, {"Edit(**)"}, {"Edit(*)"}, {"Edit(**/*)", "Edit"}, {"Edit(.*/**)", "Edit(.*)", "Edit"}, {"Edit(**/pre-commit)", "Edit"},
				{"Edit(**/hooks/**)", "Edit"}, {"Edit({.git,.husky,.agents,.ssh}/**)", "Edit"}, {"Edit(.gi[t]/**)", "Edit"}, {"Edit(*.yaml)", "Edit"}, {"Edit(conf/**)", "Edit"},
				{"Edit(.github/**)", "Edit"}, {"Edit(**/workflows/**)", "Edit(**/git/**)", "Edit"}, {"Edit(*/workflows/*)", "Edit(x/*/git/*)", "Edit"}, {"Edit", "Read(.git/**)", "Bash(.git)"}, {"Edit", "Edit(src/.git/**)"}, {"Write", "Edit(?git/**)"}} {
				err := check(mode(m, allowed...), "Write", false, in)
				require.ErrorIs(t, err, permission.ErrProtected, "%s %s", allowed, path)
			}
		}
		require.NoError(t, check(mode(permission.ModeBypass, "Edit"), "Write", false, in), path)
		parent := mode(permission.ModeAcceptEdits, "Edit")
		child, err := parent.Narrow([]string{"Edit(" + path + ")"}, nil)
		require.NoError(t, err)
		require.Error(t, check(child, "Write", false, in), "the list of a subagent approves nothing: %s", path)
	}
}

// The outermost protected directory is the one that a pattern has to name.
func TestProtectedPathsInAProtectedDirectory(t *testing.T) {
	for _, protected := range [][]string{{"conf", "conf/agents.yaml"}, {"conf/agents.yaml", "conf"}, {"odd/*", "conf"}} {
		for pattern, path := range map[string]string{"agents.yaml": "conf/agents.yaml", "*/agents.yaml": "conf/agents.yaml", "odd/*": "odd/*"} {
			p, err := permission.New(permission.Config{Allowed: []string{"Edit", "Edit(" + pattern + ")"}, CWD: "/work", Protected: append(protected, "odd/*")})
			require.NoError(t, err)
			require.Equal(t, permission.ErrProtected, check(p, "Write", false, input("file_path", path)), pattern)
		}
		p, err := permission.New(permission.Config{Allowed: []string{"Edit", "Edit(conf/**)"}, CWD: "/work", Protected: protected})
		require.NoError(t, err)
		require.NoError(t, check(p, "Write", false, input("file_path", "conf/agents.yaml")))
		require.NoError(t, check(p, "Write", false, input("file_path", "agents.yaml")))
	}
	dir, resolve := realDir(t)
	p, err := permission.New(permission.Config{Allowed: []string{"Write"}, CWD: dir, Resolve: resolve})
	require.NoError(t, err)
	for _, path := range []string{"../outside/key", "../outside/missing", "out/key"} {
		require.NoError(t, check(p, "Write", false, input("file_path", path)), "the tool rejects it")
	}
	p, err = permission.New(permission.Config{Mode: permission.ModeAcceptEdits, CWD: "/work", Protected: []string{"."}})
	require.NoError(t, err)
	require.Equal(t, permission.ErrProtected, check(p, "Write", false, input("file_path", "main.go")), "the whole working directory")
}

// The files of managers of hooks, and those that hooks name, decide what git executes.
func TestFilesThatHooksExecuteAreProtected(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	put := func(name, content string) {
		path := filepath.Join(top, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o700))
	}
	git(t, top, "init", "-q")
	git(t, top, "config", "core.hooksPath", "team/git/_")
	put("team/git/_/pre-commit", "#!/bin/sh\n. \"$(dirname \"$0\")/h\"\n")
	put("team/git/pre-commit", "node scripts/lint.js && ./scripts/missing.sh\nexec \"${ROOT}/tools/last\" || tools/plain -x;tools/dir\n")
	for _, dir := range []string{"team/git/_/", "team/git/"} { // the name is relative to each
		put(dir+"pre-push", ". \"${0%/*}\"/../common/run.sh\n")
	}
	put("team/common/run.sh", "")
	put(".git/hooks/pre-push", "sh ci/push.sh\n")
	put(".git/hooks/update.sample", "sh ci/sample.sh\n")
	put(".git/hooks/commit-msg.sample", "sh ci/sample.sh\n")
	for _, name := range []string{"scripts/lint.js", "tools/last", "tools/plain", "tools/dir/x", "ci/push.sh", "ci/sample.sh"} {
		put(name, "")
	}
	p := gitPolicy(t, top, nil)
	for path, approved := range map[string]bool{
		"team/git/_/pre-commit": false, "team/git/_/new": false, "team/git/pre-commit": false, "team/git/new": false, "team/other": true, "team/common/run.sh": false, "team/common/other.sh": true,
		"scripts/lint.js": false, "scripts/missing.sh": false, "scripts/other.js": true, "tools/last": false, "tools/plain": false, "tools/dir/x": true,
		"ci/push.sh": false, "ci/sample.sh": true, "main.go": true,
	} {
		require.Equal(t, approved, check(p, "Write", false, input("file_path", path)) == nil, path)
	}
	git(t, top, "config", "core.hooksPath", "hooks") // the parent is the worktree
	require.NoError(t, check(p, "Write", false, input("file_path", "main.go")))
	require.Equal(t, permission.ErrProtected, check(p, "Write", false, input("file_path", "hooks/pre-commit")))
	put("hooks/pre-commit", strings.Repeat("a/b/c ", 5)+"\x00 x/y") // a binary
	require.NoError(t, check(p, "Write", false, input("file_path", "a/b/c")))
	var many strings.Builder
	for i := range 30_000 {
		fmt.Fprintf(&many, "x%d\n", i)
	}
	put("hooks/pre-commit", many.String())
	require.Equal(t, permission.ErrProtected, check(p, "Write", false, input("file_path", "main.go")), "too many to examine")
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
