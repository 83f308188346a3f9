package permission_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/filesafe"
	"github.com/seed93082962/agenthost/runtime/permission"
)

// The modes approve no write to a file that the configuration of git includes or names as a
// program.
func TestFilesThatTheGitConfigurationNamesAreNotApproved(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	put := func(name, content string) {
		path := filepath.Join(top, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	for _, name := range []string{
		"common.cfg", "deep/more.cfg", "deep/again.cfg", "tools/watch", "tools/text conv.sh", "tools/plain.sh", "tools/two words", "tools/alias", "dot/git/config",
		"own.cfg", "a/b/c", "dot/other", "conf/global", "tree.cfg", "two/lines", "noted.cfg", "conf/system", "tools/system",
	} {
		put("repo/"+name, "")
	}
	put("repo/deep/more.cfg", "[Include]\n\tPATH = again.cfg ; note\n[include] path = more.cfg\n[include]\npath = ../noted.cfg#note\n")
	put("repo/conf/system", "[core]\n\tpager = tools/system\n")
	put("repo/dot/gitconfig", "[include]\npath = ~/../repo/own.cfg\npath = ../repo/not-yet.cfg\n[alias]\nx = !tools/alias --all\n")
	require.NoError(t, os.MkdirAll(filepath.Join(top, "home/.config"), 0o700))
	require.NoError(t, os.Symlink("../repo/dot/gitconfig", filepath.Join(top, "home/.gitconfig")))
	require.NoError(t, os.Symlink("../../repo/dot/git", filepath.Join(top, "home/.config/git")))
	repo := filepath.Join(top, "repo")
	git(t, repo, "init", "-q")
	for key, value := range map[string]string{
		"include.path": "../common.cfg", "includeIf.gitdir:x.path": "../deep/more.cfg", "core.hooksPath": ".husky/_", "core.fsmonitor": "./tools/watch 2",
		"diff.x.textconv": "\"tools/text conv.sh\"", "diff.y.command": repo + "/tools/plain.sh", "diff.z.command": "tools/two words", "core.worktree": repo, "remote.o.url": "./a", "user.name": "İ",
	} {
		git(t, repo, "config", key, value)
	}
	put("more", "[filter \"x\"]\n\tclean = two\\\n/lines\n\tsmudge\n=\n\thooksPath =\n")
	config, err := os.ReadFile(filepath.Join(repo, ".git/config"))
	require.NoError(t, err)
	more, err := os.ReadFile(filepath.Join(top, "more"))
	require.NoError(t, err)
	put("repo/.git/config", string(config)+string(more))
	put("repo/.git/config.worktree", "[include]\npath = ../tree.cfg\n")
	linked := filepath.Join(top, "linked")
	put("repo/.git/worktrees/linked/commondir", "../..\n")
	put("linked/.git", "gitdir: ../repo/.git/worktrees/linked\n")
	put("linked/tools/watch", "")

	home := filepath.Join(top, "home")
	for name, row := range map[string]struct {
		cwd      string
		env      []string
		approved map[string]bool
	}{
		"repository": {repo, []string{"HOME=" + home}, map[string]bool{
			"common.cfg": false, "deep/more.cfg": false, "deep/again.cfg": false, ".husky/_/pre-commit": false, ".husky/pre-commit": false,
			"tools/watch": false, "tools/text conv.sh": false, "tools/plain.sh": false, "tools/two words": false, "tools/alias": false, "dot/gitconfig": false,
			"dot/git/config": false, "dot/git/new": false, "own.cfg": false, "not-yet.cfg": false, "noted.cfg": false, "tools/system": true, "tree.cfg": false, "two/lines": false,
			"a/b/c": true, "dot/other": true, "tools/other": true, "conf/global": true, "new": true,
		}},
		"below a repository": {repo + "/tools", []string{"HOME=" + home}, map[string]bool{"watch": false, "alias": false, "other": true}},
		"another home":       {repo, []string{"HOME=" + home, "HOME=" + top}, map[string]bool{"dot/gitconfig": true, "own.cfg": true, "common.cfg": false}},
		"variables": {repo, []string{"HOME=" + home, "XDG_CONFIG_HOME=" + repo + "/a", "GIT_CONFIG_GLOBAL=" + repo + "/conf/global"},
			map[string]bool{"a/git/config": false, "conf/global": false, "a/other": true}},
		"only XDG":        {repo, []string{"XDG_CONFIG_HOME=" + repo + "/a"}, map[string]bool{"a/git/config": false, "a/other": true}},
		"system":          {repo, []string{"GIT_CONFIG_SYSTEM=" + repo + "/conf/system"}, map[string]bool{"conf/system": false, "tools/system": false, "own.cfg": true}},
		"above two":       {top, nil, map[string]bool{"repo/.husky/_/x": false, "repo/a/b/new": true, "linked/.husky/_/x": false, "linked/tools/watch": false, ".husky/_/x": false}},
		"linked worktree": {linked, nil, map[string]bool{"tools/watch": false, ".husky/_/x": false, "common.cfg": true}},
		"no environment":  {filepath.Join(repo, "a"), nil, map[string]bool{"b/c": true}},
	} {
		t.Run(name, func(t *testing.T) {
			p := gitPolicy(t, row.cwd, row.env)
			for path, approved := range row.approved {
				if err := check(p, "Write", false, input("file_path", path)); approved {
					require.NoError(t, err, path)
				} else {
					require.Equal(t, permission.ErrProtected, err, path)
				}
			}
		})
	}
}

// The configuration of git is that of the time of the call.
func TestTheGitConfigurationChangesWhileTheRuntimeServes(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	p := gitPolicy(t, top, nil)
	hook := input("file_path", "sub/my-hooks/pre-commit")
	require.NoError(t, check(p, "Write", false, hook))
	git(t, top, "init", "-q", "sub")
	require.NoError(t, check(p, "Write", false, hook))
	git(t, filepath.Join(top, "sub"), "config", "core.hooksPath", "my-hooks")
	require.Equal(t, permission.ErrProtected, check(p, "Write", false, hook))
	git(t, filepath.Join(top, "sub"), "config", "--unset", "core.hooksPath")
	require.NoError(t, check(p, "Write", false, hook))
	git(t, top, "init", "-q")
	git(t, top, "config", "core.hooksPath", "sub/my-hooks")
	require.Equal(t, permission.ErrProtected, check(p, "Write", false, hook), "the outer repository names it")
	inner := gitPolicy(t, filepath.Join(top, "sub"), nil)
	require.NoError(t, check(inner, "Write", false, input("file_path", "my-hooks/pre-commit")), "git does not read the outer repository")
	require.NoError(t, os.RemoveAll(filepath.Join(top, "sub/.git")))
	require.Equal(t, permission.ErrProtected, check(inner, "Write", false, input("file_path", "my-hooks/pre-commit")), "it does now")
}

// Without Resolve or CWD, only the names of a path protect it.
func TestWithoutADirectoryNoFileIsExamined(t *testing.T) {
	dir, resolve := realDir(t)
	t.Chdir(dir)
	git(t, dir, "init", "-q")
	git(t, dir, "config", "core.hooksPath", "my-hooks")
	git(t, dir, "init", "-q", "--bare", "store")
	for _, cfg := range []permission.Config{{CWD: dir}, {Resolve: resolve}, {CWD: dir, Resolve: resolve}} {
		cfg.Mode = permission.ModeAcceptEdits
		p, err := permission.New(cfg)
		require.NoError(t, err)
		for _, path := range []string{"my-hooks/pre-commit", "store/config"} {
			examined := check(p, "Write", false, input("file_path", path)) != nil
			require.Equal(t, cfg.CWD != "" && cfg.Resolve != nil, examined, path)
		}
		require.Equal(t, permission.ErrProtected, check(p, "Write", false, input("file_path", ".git/config")))
	}
}

// gitPolicy returns a policy in the mode auto for a directory and an environment of git.
func gitPolicy(t *testing.T, cwd string, env []string) *permission.Policy {
	t.Helper()
	dir, err := filesafe.Open(cwd)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, dir.Close()) })
	p, err := permission.New(permission.Config{
		Mode: permission.ModeAuto, CWD: cwd, GitEnv: env,
		Resolve: func(path string) (string, error) {
			path, err := dir.Resolve(path)
			if path != "" {
				err = nil
			}
			return path, err
		},
	})
	require.NoError(t, err)
	return p
}
