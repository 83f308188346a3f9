package permission_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/internal/permission"
)

func TestAutoApprovesReadOnlyCommands(t *testing.T) {
	dir, resolve := realDir(t)
	p, err := permission.New(permission.Config{Mode: permission.ModeAuto, Resolve: resolve, CWD: dir, AgentHome: ".agents"})
	require.NoError(t, err)
	for _, command := range []string{
		"ls", "ls -la", "ls -la src secrets", "ls --color=never", "pwd", "pwd -P", "cat src/a.go", "cat " + dir + "/src/a.go",
		"cat -- -n", "cat <src/a.go",
		"head -5 src/a.go", "head -n 5 src/a.go", "tail -n +5 src/a.go", "wc -l src/a.go", "grep -rn 'x y' src",
		"grep -e /etc/passwd src/a.go", "grep /etc/passwd src/a.go",
		"grep -A 3 x src/a.go", "grep '--include=*.go' x -r .", "rg foo", "rg -i -tgo foo src", "rg --files src",
		"rg -e foo src", "find . -name '*.go'", "find src -type f -newer src/a.go",
		"find . '(' -name a -o -name b ')' -print0", `find . \! -name a`, "stat -c %s src/a.go", "file src/a.go",
		"du -sh .", "df -h", "date", "date -u +%F", "date -d yesterday",
		"echo hello '$HOME' /etc", "echo -n x", "which git go", "git status", "git status --short",
		"git --no-pager log --oneline -5", "git diff", "git diff HEAD~1 -- src/a.go",
		"git diff --stat main..dev", "git log -n 3 --format='%h %s' src",
		"git log --format='%h GOOD%n' --date=format:%Y", "git show HEAD:src/a.go", "git show HEAD",
		"git branch", "git branch -a", "git branch --show-current",
		"git status && git diff | head -20 ; ls || pwd", "git log 2>/dev/null", "ls 2>&1 | grep x", "ls >/dev/null",
		"'ls' \"-l\"", "ls secrets/open", "ls --", "ls --time-style=+%G", "cat -", "cat </dev/null", "cat --", "grep", "rg", "grep -e x", "grep /etc/passwd", "find src", "grep --regexp=x",
		"head --lines 5 src/a.go", "head --lines /etc/passwd src/a.go", "head --lines=5 src/a.go", "head -n5 src/a.go", "head -qn 5 src/a.go", "head -n /etc/passwd",
		"head -c 5", "head -n", "head --lines", "grep -A3 x src/a.go", "grep --recursive x src", "grep -3 x src/a.go", "git log --since yesterday", "git log -3", "git log -n3", "git show HEAD~1:src/a.go",
		"git status --porcelain", "git status --porcelain=v2", "find", "find src secrets", "find src -name -delete", "find '(' -name a ')'", "find '!' -name a", "find . -name", "date", "date +%F",
	} {
		require.NoError(t, checkBash(p, command), command)
	}
	for _, command := range []string{
		"", "tree", "rm x", "touch x", "sed -n 1p src/a.go", "awk 1 src/a.go", "tee x", "sort x", "cd src",
		"cd src && ls", "true", "/bin/ls", "./ls", "LS",
		"cat /etc/passwd", "cat ../outside/key", "cat out/key", "ls out", "ls -L", "ls -H out", "ls --dereference",
		"cat <<<hello", "cat ~/x", "cat ~", "ls *", "cat *.go", "cat src/?.go", "cat {src/a.go,/etc/passwd}",
		"cat $X", "cat \"$X\"", "cat $(ls)", "cat `ls`", "X=1 ls", "ls > x", "ls >> x", "ls &> x", "ls 2>err",
		"cat < /etc/passwd", "cat <../outside/key", "cat </dev/tcp/h/1", "ls &", "! ls", "(ls)", "{ ls; }",
		"if ls; then ls; fi", "for f in a; do ls; done", "time ls", "cat <<E\nx\nE\n", "echo *", "echo ~", "echo $HOME",
		"ls --color=$X", "ls | xargs cat", "ls | sh",
		"tail -f src/a.go", "tail --follow=name x", "wc --files0-from=x", "grep -f /etc/passwd x", "grep -R x .",
		"grep x /etc/passwd", "grep -e x /etc/passwd", "grep --regexp=x /etc/passwd",
		"grep -ne x /etc/passwd", "grep --dereference-recursive x .", "rg --pre ./x foo", "rg --pre=./x foo", "rg -f x",
		"rg -z foo", "rg -L foo", "rg --follow foo", "rg --files /etc", "rg -e foo /etc", "rg foo /etc",
		"rg --ignore-file x foo", "find / -name x", "find . -exec ls {} +", "find . -delete", "find . -ok ls ';'",
		"find . -execdir ls ';'", "find . -fprint x", "find . -fprintf x y", "find . -fls x", "find -L .",
		"find . -newer /etc/passwd", "find . -newer", "find . -follow", "find -files0-from x", "find . -name x /etc",
		"file -C -m x", "file -m x y", "file -f x", "file -z x", "file -s /dev/sda", "stat /etc", "stat -L src",
		"du -L .", "du --files0-from=x", "du -X /etc/passwd", "du /etc", "df /etc", "df --sync", "date -s x",
		"date --set=x", "date 010100002030", "date -f x", "date -r /etc/passwd", "date --reference=/etc/passwd",
		"date +%F x",
		"which /etc/x", "git", "git commit", "git push", "git -C /etc status", "git -c a=b status",
		"git --git-dir=x status", "git --exec-path=. status", "git -p log", "git branch new", "git branch -d x",
		"git branch -D x", "git branch -m x",
		"git branch --list x", "git diff --output=x", "git diff --output x", "git log --output=x", "git diff --ext-diff",
		"git diff --textconv", "git diff --no-index src/a.go /etc/passwd", "git diff /etc/passwd src/a.go",
		"git diff -U /etc/passwd src/a.go",
		"git diff -Ox", "git log --show-signature", "git log --format=%GG", "git log '--format=%h %G?'",
		"git show --pretty='tformat:%+GK'", "git show '--format=%<(9)% GS'", "git log --oneline --pretty=%%-GF", "git status -v",
		"git status -vv", "git status -sv", "git status --verbose", "git log --ext-diff", "git show :/x", "git show HEAD:../outside/key",
		"git show HEAD:/etc", "git status ../outside", "git stash", "git config -l", "git log --stdin",
		"git log -L1,2:/etc/passwd",
		"cat -- /etc/passwd", "cat -- src/a.go /etc/passwd", "cat - /etc/passwd", "grep - /etc/passwd", "pwd -", "head --lines 5 /etc/passwd", "head --lines=5 /etc/passwd", "head -n5 /etc/passwd", "head -n 5 /etc/passwd",
		"head -qn5 /etc/passwd", "head -qn 5 /etc/passwd", "head -5 /etc/passwd", "head -5x src/a.go", "cat -5 src/a.go", "head -nq /etc/passwd", "head --unknown=5 src/a.go", "grep -A3 x /etc/passwd", "grep -A 3 x /etc/passwd", "grep --max-count=3 x /etc/passwd", "grep --max-count 3 x /etc/passwd",
		"grep -re x /etc", "git log --max-count /etc/passwd", "git log -n /etc/passwd", "git log --since=yesterday /etc/passwd", "git show :src/a.go", "git --no-pager", "git --no-pager push", "git --no-pager --no-pager log",
		"find src /etc", "find . -name x -delete", "find . -newer src/a.go -delete", "find . -print -delete", "find . -name x -newer /etc/passwd", "find src -name x src", "pwd x", "pwd -x", "ls -lL", "ls -Ll", "date x", "git branch x", "echo x >y", "ls <src/a.go </etc/passwd",
		"git log --unknown", "git stat", "git status --porcelain=v1 > x", "ls --all=x", "cat -x",
	} {
		require.ErrorIs(t, checkBash(p, command), permission.ErrMode, command)
	}
}

func TestAutoApprovesNoHiddenFile(t *testing.T) {
	dir, resolve := realDir(t)
	require.NoError(t, os.Symlink("../cwd", filepath.Join(dir, "../outside/back")))
	for name, cfg := range map[string]permission.Config{
		"below":     {Disallowed: []string{"Read(secrets/**)"}},
		"directory": {Disallowed: []string{"Read(secrets)", "Write(x)"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg.Mode, cfg.Resolve, cfg.CWD = permission.ModeAuto, resolve, dir
			p, err := permission.New(cfg)
			require.NoError(t, err)
			for _, command := range []string{"ls", "ls .", "cat src/a.go", "cat ../outside/back/src/a.go", "grep x src/a.go", "grep --count x src/a.go", "git status", "ls -r src", "ls --recursive src", "cat <src/a.go"} {
				require.NoError(t, checkBash(p, command), command)
			}
			for _, command := range []string{"cat secrets/key", "cat secrets/open", "cat innocent", "cat <innocent", "ls dir",
				"grep -r x .", "grep -rn x src", "grep --recursive x src", "rg x", "cat ../outside/back/secrets/key", "cat <secrets/open", "git show HEAD:secrets/key", "find secrets", "git diff", "git log -p", "git show"} {
				require.ErrorIs(t, checkBash(p, command), permission.ErrMode, command)
			}
		})
	}
	p, err := permission.New(permission.Config{Mode: permission.ModeAuto, Disallowed: []string{"Read"}, Resolve: resolve, CWD: dir})
	require.NoError(t, err)
	require.NoError(t, checkBash(p, "ls ."), "every file is hidden")
	require.Equal(t, permission.ErrMode, checkBash(p, "ls src"))
}
