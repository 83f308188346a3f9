package permission_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/filesafe"
	"github.com/seed93082962/agenthost/runtime/internal/permission"
)

// hostileRepository returns a repository whose configuration names a program, which creates the
// file ran, for everything that starts one.
func hostileRepository(t *testing.T, filters bool) (dir, ran string) {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	dir, ran = filepath.Join(top, "repo"), filepath.Join(top, "ran")
	evil := filepath.Join(top, "evil")
	require.NoError(t, os.WriteFile(evil, []byte("#!/bin/sh\necho \"$0 $*\" >>"+ran+"\nexit 1\n"), 0o700))
	put := func(name, content string) {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o700))
	}
	commit := func(dir, message string) {
		git(t, dir, "add", "-A")
		git(t, dir, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", message)
	}
	put("sub/inner.txt", "one\n")
	git(t, filepath.Join(dir, "sub"), "init", "-q")
	commit(filepath.Join(dir, "sub"), "one")
	git(t, dir, "init", "-q")
	put(".gitattributes", "*.txt diff=evil filter=evil merge=evil\n*.bin diff=evil\n")
	put("a.txt", "one\n")
	put("lost.txt", "one\n")
	put(".gitmodules", "[submodule \"sub\"]\n\tpath = sub\n\turl = ./sub\n\tignore = none\n")
	commit(dir, "one")
	git(t, dir, "checkout", "-qb", "side")
	put("a.txt", "side\n")
	commit(dir, "side")
	git(t, dir, "checkout", "-q", "HEAD~1")
	git(t, dir, "checkout", "-qB", "main")
	git(t, dir, "checkout", "-qb", "lost")
	put("lost.txt", "lost\n")
	commit(dir, "lost")
	git(t, dir, "checkout", "-q", "-")
	put("a.txt", "two\n")
	put("sub/inner.txt", "two\n")
	commit(filepath.Join(dir, "sub"), "two")
	commit(dir, "two")
	merge := exec.Command("git", "-c", "user.name=a", "-c", "user.email=a@b", "merge", "-q", "-X", "ours", "side", "-m", "merge")
	merge.Dir = dir
	output, err := merge.CombinedOutput()
	require.NoError(t, err, string(output))
	// A commit with a signature, for which git runs a program.
	object := exec.Command("sh", "-c", `git cat-file commit HEAD | sed '/^committer/a\
gpgsig -----BEGIN PGP SIGNATURE-----\
\ \
\ x\
\ -----END PGP SIGNATURE-----' | git hash-object -t commit -w --stdin | xargs git update-ref HEAD`)
	object.Dir = dir
	output, err = object.CombinedOutput()
	require.NoError(t, err, string(output))
	put("sub/inner.txt", "three\n")
	put("a.txt", "three\n")
	require.NoError(t, os.Chtimes(filepath.Join(dir, "lost.txt"), time.Unix(1, 0), time.Unix(1, 0)))

	config := "[core]\n fsmonitor = " + evil + "\n pager = " + evil + "\n hooksPath = " + filepath.Join(dir, "hooks") + "\n sshCommand = " + evil + "\n editor = " + evil +
		"\n[diff]\n external = " + evil + "\n submodule = diff\n[diff \"evil\"]\n textconv = " + evil + "\n command = " + evil + "\n[merge \"evil\"]\n driver = " + evil +
		"\n[gpg]\n program = " + evil + "\n[gpg \"ssh\"]\n program = " + evil + "\n[gpg \"x509\"]\n program = " + evil + "\n[log]\n showSignature = true\n diffMerges = remerge\n" +
		"[format]\n pretty = %G?\n[pretty]\n evil = %G?\n[pager]\n log = " + evil + "\n status = " + evil + "\n branch = " + evil + "\n[alias]\n status = !" + evil + "\n" +
		"[status]\n submoduleSummary = true\n[protocol]\n allow = always\n[protocol \"ext\"]\n allow = always\n[remote \"origin\"]\n url = ext::" + evil + "\n promisor = true\n" +
		"[extensions]\n partialClone = origin\n[credential]\n helper = !" + evil + "\n[submodule \"sub\"]\n ignore = none\n url = ./sub\n"
	if filters {
		config += "[FILTER \"evil\"]\n clean = " + evil + "\n smudge = " + evil + "\n"
	}
	for _, repository := range []string{".git", "sub/.git"} {
		name := filepath.Join(dir, repository, "config")
		before, err := os.ReadFile(name)
		require.NoError(t, err)
		text := string(before)
		if repository == ".git" {
			text = strings.Replace(text, "repositoryformatversion = 0", "repositoryformatversion = 1", 1)
		}
		require.NoError(t, os.WriteFile(name, []byte(text+config), 0o600))
	}
	for _, hook := range []string{"post-index-change", "reference-transaction", "fsmonitor-watchman"} {
		put("hooks/"+hook, "#!/bin/sh\n"+evil+" "+hook+"\n")
	}
	// An object that a partial clone would fetch.
	blob := exec.Command("git", "rev-parse", "lost:lost.txt")
	blob.Dir = dir
	id, err := blob.Output()
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(dir, ".git/objects", string(id[:2]), strings.TrimSpace(string(id[2:])))))
	_ = os.Remove(ran)
	return dir, ran
}

// In the mode auto, git starts no program that the configuration of a repository names.
func TestGitInAutoStartsNoProgram(t *testing.T) {
	dir, ran := hostileRepository(t, false)
	p := gitPolicy(t, dir)
	started := 0
	for _, command := range []string{
		"git status", "git status -s", "git status --porcelain=v2", "git diff", "git diff HEAD", "git diff --cached", "git diff --stat", "git diff HEAD~1", "git diff HEAD~1 side", "git diff -w",
		"git log", "git log -p", "git log -p -m", "git log --stat", "git log --oneline", "git log --graph side", "git log -n 3 --format=evil", "git log --pretty=evil", "git log -Stwo", "git log -Gtwo -p", "git log --follow a.txt",
		"git show", "git show HEAD", "git show -m HEAD", "git show HEAD:a.txt", "git show side", "git show side:a.txt", "git show HEAD~1", "git branch", "git branch -vv", "git branch -a", "git --no-pager log -p", "git diff a.txt", "git diff side", "git diff lost", "git show lost", "git show lost:lost.txt", "git log -p lost",
	} {
		run := func(text string) bool {
			cmd := exec.CommandContext(t.Context(), "bash", "-c", text)
			cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(dir), "GIT_CONFIG_NOSYSTEM=1", "TERM=xterm"}
			output, _ := cmd.CombinedOutput() // git fails without an object
			_, err := os.Stat(ran)
			_ = os.Remove(ran)
			require.NotContains(t, string(output), "usage:", text)
			return err == nil
		}
		executed, err := canonical(t, p, command)
		require.NoError(t, err, command)
		require.False(t, run(executed), executed)
		if run(command) {
			started++
		}
	}
	require.Greater(t, started, 15, "as they are written, most of the commands start a program")
	executed, err := canonical(t, policy(t, permission.ModeAuto, []string{"Bash(git *)"}, nil), "git status")
	require.NoError(t, err)
	require.Equal(t, "'exec' -- 'git' 'status'", executed, "a pattern approves git with its configuration")
}

// The options are complete, also with --no-pager and in a list.
func TestTheOptionsOfGitInAuto(t *testing.T) {
	const prefix = "'env' 'GIT_ALLOW_PROTOCOL=none' 'GIT_NO_LAZY_FETCH=1' 'GIT_OPTIONAL_LOCKS=0' 'git' '--no-pager' '--no-optional-locks'" +
		" '-c' 'core.fsmonitor=false' '-c' 'core.hooksPath=/dev/null'" +
		" '-c' 'gpg.program=/dev/null' '-c' 'gpg.openpgp.program=/dev/null' '-c' 'gpg.x509.program=/dev/null' '-c' 'gpg.ssh.program=/dev/null'" +
		" '-c' 'log.showSignature=false' '-c' 'format.pretty=medium' '-c' 'log.diffMerges=separate'" +
		" '-c' 'diff.submodule=short' '-c' 'diff.ignoreSubmodules=all' '-c' 'status.submoduleSummary=false' '-c' 'submodule.recurse=false'"
	const diff = " '--no-ext-diff' '--no-textconv' '--submodule=short' '--ignore-submodules=all'"
	p := policy(t, permission.ModeAuto, nil, nil)
	for command, want := range map[string]string{
		"git status -s":               "'exec' -- 'bash' '-c' * 'git status' " + prefix + " 'status' '--ignore-submodules=all' '-s'",
		"git --no-pager log -p":       "'exec' -- " + prefix + " 'log'" + diff + " '-p'",
		"git diff a.go":               "'exec' -- 'bash' '-c' * 'git diff' " + prefix + " 'diff'" + diff + " 'a.go'",
		"git show | head; git branch": "('exec' -- " + prefix + " 'show'" + diff + ") | ('exec' -- 'head') ; ('exec' -- " + prefix + " 'branch')",
	} {
		executed, err := canonical(t, p, command)
		require.NoError(t, err)
		begin, end, _ := strings.Cut(want, "*")
		require.True(t, strings.HasPrefix(executed, begin) && strings.HasSuffix(executed, end), "%s\n%s", want, executed)
	}
}

// No option disables filters: git status and git diff are not executed where git finds one in the
// configuration of the repository.
func TestGitWithFiltersIsNotExecutedInAuto(t *testing.T) {
	hostile, ran := hostileRepository(t, true)
	evil := filepath.Join(filepath.Dir(hostile), "evil")
	linked := filepath.Join(filepath.Dir(hostile), "linked")
	require.NoError(t, os.MkdirAll(filepath.Join(linked, "deep"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(linked, ".git"), []byte("gitdir: ../repo/.git\n"), 0o600))
	plain := filepath.Join(t.TempDir(), "plain")
	require.NoError(t, os.MkdirAll(plain, 0o700))
	git(t, plain, "init", "-q")
	require.NoError(t, os.WriteFile(filepath.Join(plain, "a.txt"), []byte("one\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(plain, ".gitattributes"), []byte("* filter=x\n"), 0o600))
	git(t, plain, "add", "-A")
	included := filepath.Join(plain, "included")
	require.NoError(t, os.WriteFile(included, []byte("[filter \"x\"]\nprocess = "+evil+"\n"), 0o600))
	initial, err := os.ReadFile(filepath.Join(plain, ".git", "config"))
	require.NoError(t, err)
	home := filepath.Dir(hostile)
	for name, row := range map[string]struct {
		dir, config string
		executed    bool
	}{
		"a filter":             {hostile, "", false},
		"below a filter":       {filepath.Join(hostile, "hooks"), "", false},
		"a .git file":          {linked, "", false},
		"below a .git file":    {filepath.Join(linked, "deep"), "", false},
		"another":              {plain, "", true},
		"the words of one":     {plain, "[user]\nname = [filter worktree\n", true},
		"an include":           {plain, "[inCLUDE]\npath = ../included\n", false},
		"an include of others": {plain, "[include]\npath = ../none\n", true},
		"a conditional":        {plain, "[includeIf \"gitdir:**\"]\npath = " + included + "\n", false},
		"a process":            {plain, "[filter \"x\"]\nprocess = " + evil + "\n", false},
		"an old kind of names": {plain, "[filter.x]\nclean = " + evil + "\n", false},
		"in one line":          {plain, "[filter \"x\"] clean = " + evil + "\n", false},
		"another worktree":     {plain, "[core]\n\tWorkTree = " + home + "\n", false},
		"malformed":            {plain, "[filter\n", false},
		"of the worktree":      {plain, "[extensions]\nworktreeConfig = true\n", false},
		"of the user":          {plain, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			environment := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GIT_CONFIG_NOSYSTEM=1"}
			if row.dir == plain {
				require.NoError(t, os.WriteFile(filepath.Join(plain, ".git", "config"), []byte(string(initial)+row.config), 0o600))
				require.NoError(t, os.WriteFile(filepath.Join(plain, ".git", "config.worktree"), []byte("[filter \"x\"]\nclean = "+evil+"\n"), 0o600))
				require.NoError(t, os.WriteFile(filepath.Join(plain, "a.txt"), []byte("two\n"), 0o600))
			}
			if name == "of the user" { // who has chosen it
				environment = append(environment, "GIT_CONFIG_GLOBAL="+filepath.Join(plain, "global"))
				require.NoError(t, os.WriteFile(filepath.Join(plain, "global"), []byte("[filter \"y\"]\nclean = cat\n"), 0o600))
			}
			p := gitPolicy(t, row.dir)
			for _, command := range []string{"git status", "git --no-pager diff", "git diff --stat; git status -s | cat"} {
				executed, err := canonical(t, p, command)
				require.NoError(t, err)
				cmd := exec.CommandContext(t.Context(), "bash", "-c", executed)
				cmd.Dir = row.dir
				cmd.Env = environment
				output, err := cmd.CombinedOutput()
				require.NoFileExists(t, ran, command)
				if row.executed {
					require.NoError(t, err, string(output))
					require.Contains(t, string(output), "a.txt")
				} else {
					require.Regexp(t, `^(fatal: .*\n)?git (status|diff): the mode auto does not execute it: .*`+"repository", string(output))
					require.NotContains(t, string(output), "a.txt")
				}
			}
		})
	}
}

// git runs git in a directory, without the user's configuration.
func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1"}
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, string(output))
}

// gitPolicy returns a policy in the mode auto for a directory.
func gitPolicy(t *testing.T, cwd string) *permission.Policy {
	t.Helper()
	p, err := permission.New(permission.Config{Mode: permission.ModeAuto, CWD: cwd, Resolve: resolveIn(t, cwd)})
	require.NoError(t, err)
	return p
}

// resolveIn returns a function that resolves paths as a runtime does.
func resolveIn(t *testing.T, cwd string) func(string) (string, error) {
	t.Helper()
	dir, err := filesafe.Open(cwd)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, dir.Close()) })
	return func(path string) (string, error) {
		path, err := dir.Resolve(path)
		if path != "" {
			err = nil
		}
		return path, err
	}
}
