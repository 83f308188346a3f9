package permission_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/permission"
)

func checkBash(p *permission.Policy, command string) error {
	return check(p, "Bash", false, input("command", command))
}

func TestBashPatterns(t *testing.T) {
	for _, row := range []struct {
		pattern, command string
		allowed, denied  bool
	}{
		{"git *", "git status", true, true},
		{"git *", "git", true, true},
		{"git *", "gitk", false, false},
		{"git *", "  git   status  # all", true, true},
		{"git *", "ls git status", false, true}, // a deny pattern matches wherever its words occur
		{"git:*", "git status", true, true},
		{"git:*", "git", true, true},
		{"git:*", "gitk", false, false},
		{"npm run test:*", "npm run test", true, true},
		{"npm run test:*", "npm run test -- -v", true, true},
		{"npm run test:*", "npm run test:unit", true, true},
		{"npm run test:*", "npm run tests", false, false},
		{"git*", "gitk --all", true, true},
		{"git status", "git status", true, true},
		{"git status", "git status -s", false, true},
		{"git status", "Git status", false, false},
		{"* --version", "go --version", true, true},
		{"git * main", "git push origin main", true, true},
		{"git * main", "git push origin main2", false, false},
		{"*", "anything at all", true, true},
		{"rm -rf *", "rm  -rf\t/", true, true},
		{"echo a b", `echo "a b"`, false, true}, // the denied words are in one word
		{"git commit -m *", "git commit -m 'two words'", true, true},
		{"git push *", "git '' push", false, true},
		{"/usr/bin/git *", "git push", false, true},
		{"/usr/bin/git *", "/usr/bin/git push", true, true},
		{"git *", "/usr/bin/git push", false, true},
		{"git *", "./git push", false, true},
		{"/usr/bin/*", "ls", false, false},
		{"git *", "git $WHAT", true, true},
		{"git *", "git add $WHAT", true, true},
		{"git push *", "git $WHAT", false, true},
		{"git push *", "git $WHAT push", false, true},
		{"git push *", "git add $WHAT", false, true}, // may be push
		{"git push *", `git "p$WHAT" x`, false, true},
		{"git push *", `git "q$WHAT" x`, false, true}, // may end in /push
		{"git add *.go", "git add *.go", true, true},
		{"git add a.go", "git add *.go", false, true},
		{"git add a.go", "git add *.md", false, false},
		{"cat *", "cat <in.txt", true, true},
		{"cat *", "cat <<'E'\n$(rm x)\nE\n", true, true},
		{"cat *", "cat <<E\nhello $USER\nE\n", true, true},
		{"cat *", "cat x >/dev/null 2>&1", true, true},
		{"find *", "find . -name '*.go'", true, true},
		{"find *", "find . -name *.go", true, true},
	} {
		t.Run(row.pattern+" "+row.command, func(t *testing.T) {
			allow := checkBash(policy(t, permission.ModeBypass, []string{"Bash(" + row.pattern + ")"}, nil), row.command)
			deny := checkBash(policy(t, permission.ModeBypass, nil, []string{"Bash(" + row.pattern + ")"}), row.command)
			if row.allowed {
				require.NoError(t, allow)
			} else {
				require.Equal(t, permission.ErrPattern, allow)
			}
			if row.denied {
				require.Equal(t, permission.ErrDenied, deny)
			} else {
				require.NoError(t, deny)
			}
		})
	}
}

// evasive commands run rm, or may run it, in a way that is not obvious. "rm *" denies all of them,
// and no allow pattern for git, echo and cat matches one.
var evasive = []string{
	"rm x", "/bin/rm x", "../bin/rm x", `"rm" x`, `'rm' x`, `r\m x`, `r''m x`, `r""m x`, "r\\\nm x", "$'rm' x",
	`$'\x72m' x`, `$"rm" x`, "\trm\tx",
	"git a && rm x", "git a || rm x", "git a ; rm x", "git a;rm x", "git a | rm x", "git a |& rm x", "git a & rm x",
	"git a\nrm x", "git a # b\nrm x",
	"(rm x)", "(git a; rm x)", "{ rm x; }", "! rm x", "time rm x", "time -p rm x", "if git a; then rm x; fi",
	"if rm x; then git a; fi",
	"if git a; then git b; elif rm x; then git c; else git d; fi", "if git a; then git b; else rm x; fi",
	"while rm x; do break; done",
	"until git a; do rm x; done", "for f in a; do rm x; done", "for f in rm; do $f x; done",
	"for ((i=0;i<1;i++)); do rm x; done",
	"select f in a; do rm x; done <<<1", "case a in a) rm x;; esac", "case a in b) git a;; *) rm x;; esac",
	"git $(rm x)", "git `rm x`", `git "$(rm x)"`, "git <(rm x)", "git >(rm x)", "$(echo rm) x", "`echo rm` x",
	"git $((a[$(rm x)]))", "git ${a:-$(rm x)}",
	"git ${a:=$(rm x)}", "git $[$(rm x)]", "echo ${x@P}", "git <<E\n$(rm x)\nE\n", "git <<<$(rm x)", "cat <$(rm x)",
	"X=rm; $X x", "X=$(rm x)", "X=$(rm x) git a",
	"X=rm git; $X x", "a[$(rm x)]=1", "(( a[$(rm x)] ))", "[[ -v a[$(rm x)] ]]", "[[ 'a[$(rm x)]' -eq 1 ]]",
	"test -v 'a[$(rm x)]'", "[ -v 'a[$(rm x)]' ]",
	"printf -v 'a[$(rm x)]' 1", "unset 'a[$(rm x)]'", "let 'a[$(rm x)]=1'", "declare a=$(rm x)", "export A=$(rm x)",
	"read a < <(rm x)",
	"git() { rm x; }; git a", "function git { rm x; }; git a", "eval rm x", "eval 'r''m x'", "bash -c 'rm x'",
	"echo rm x | bash", "bash <<<'rm x'", "sh -c 'rm x'",
	"env rm x", "env A=b rm x", "command rm x", "exec rm x", "echo x | xargs rm", "nohup rm x", "nice rm x",
	"timeout 5 rm x", "sudo rm x", "find . -exec rm {} +",
	"find . -maxdepth 0 -exec rm x ';'", "find . -ok rm x ';'", "source <(echo rm x)", ". <(echo rm x)",
	"trap 'rm x' EXIT", "shopt -s expand_aliases\nalias git='rm x'\ngit a", "coproc rm x", "{rm,x}", "{r,}m x",
	"r{m,m} x", "{'rm',x}", "/*/rm x", "/bin/r? x", "~/rm x",
	"PATH=/tmp git a", "PATH=/tmp; git a", "export PATH=/tmp; git a", "for PATH in /tmp; do git a; done",
	`\export PATH=/tmp; git a`, "git\r\nrm x", "\rrm x", "git a;\u00a0rm x",
	"$rm x", "$@ rm x", "!(rm x)", "git a >f; rm x", "if", "git 'a", "git a; )", "rm x <<E", "echo 'a\\'; rm x; '",
	"echo \\\\; rm x", "echo \"\\\\\"; rm x", "echo $'\\''; rm x; echo $'\\''",
	"git a \\\n; rm x", "git a |\nrm x", "git a &&\n\n# c\nrm x", "(git a) && (git b | (rm x))",
	"git a && { git b; { rm x; } }", "[ -f a ] && rm x", "true && rm x",
	"fc -s rm", "hash -p /bin/rm git; git x", "enable -n echo; rm x", "history -c; rm x", "mapfile -C 'rm x' -c 1 <<<a",
	"compgen -C 'rm x'", "complete -C 'rm x' a",
	"cat <<A; rm x\nA\n", "cat <<E\"O\"F\n$(git a)\nEOF\nrm x\n", "cat <<$'E'\nE\nrm x\n$E\n",
	"cat <<E\na\\\nE\nrm x\nE\nrm x\n", "cat <<A <<B\nA\nrm x\nB\nrm x\n",
	"time -- rm x", "! ! rm x", "</dev/null rm x", "2>&1 rm x", "git a &\\\n& rm x", "git a;\\\nrm x", "$()rm x",
	"$''rm x", `r$""m x`, "((rm x); git a)", "( (rm x) )",
	"for f in a; { rm x; }", "if git a; then { rm x; } fi", "case x in (x) rm x;; esac", "if ! rm x; then git a; fi",
	"git a && ! rm x", "git <<<x; rm x", "a=(rm x); ${a[@]}",
	"git a & { rm x & } ; wait", "#!/bin/sh\nrm x", "while true; do rm x; break; done", "git a 2>&1 | rm x",
	"git a >/dev/null; rm x", "for x\nin a\ndo\nrm x\ndone",
	"busybox rm x", "setsid rm x", "/usr/bin/env rm x", "'env' rm x", "script -c 'rm x'",
	"ld-linux-x86-64.so.2 /bin/rm x", "printf '%s' x | parallel rm",
}

func TestEvasiveCommands(t *testing.T) {
	deny := policy(t, permission.ModeBypass, nil, []string{"Bash(rm *)"})
	allow := policy(t, permission.ModeBypass,
		[]string{"Bash(git *)", "Bash(echo *)", "Bash(cat *)", "Bash(break)", "Bash(true)"}, nil)
	auto := policy(t, permission.ModeAuto, nil, nil)
	for _, command := range evasive {
		require.Equal(t, permission.ErrDenied, checkBash(deny, command), command)
		require.Equal(t, permission.ErrPattern, checkBash(allow, command), command)
		require.Equal(t, permission.ErrMode, checkBash(auto, command), command)
	}
}

// If real bash runs rm for one of these commands, the policy denies it.
func TestRealBashRunsNoDeniedCommand(t *testing.T) {
	shell, err := exec.LookPath("bash")
	require.NoError(t, err)
	bin := t.TempDir()
	stub := "#!" + shell + "\nprintf '%s\\n' \"${0##*/}\" >>\"$RAN\"\n"
	for _, name := range []string{"rm", "git", "cat"} {
		require.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte(stub), 0o700))
	}
	deny := policy(t, permission.ModeBypass, nil, []string{"Bash(rm *)"})
	allow := policy(t, permission.ModeBypass, []string{"Bash(git *)", "Bash(echo *)"}, nil)
	commands := []string{
		"git a && git b", "git 'rm x'", "git \"; rm x\"", "git a '&&' rm x", "git \\; rm x", "echo '$(rm x)'",
		"echo \\$(true)", "git # rm x", "git a\\\nrm x", "git <<'E'\nrm x\nE\n",
		"git <<-E\n\trm x\n\tE\n", "git a{}b", "git {a}", "(git a)", "echo \"\\`rm x\\`\"",
		"for f in a b; do git $f; done", "git a || true", "git \"\\$(rm x)\"", "echo 'a'\\''; rm x; '\\''b'",
	}
	for _, command := range evasive {
		if strings.Contains(command, "/tmp") || strings.Contains(command, "/bin") || strings.Contains(command,
			"/*/") || strings.Contains(command, "~/") {
			continue // the real rm, or a PATH without the stubs
		}
		commands = append(commands, command)
	}
	ran := 0
	for _, command := range commands {
		log := filepath.Join(t.TempDir(), "ran")
		cmd := exec.Command(shell, "-c", command)
		cmd.Dir, cmd.Env = t.TempDir(), []string{"PATH=" + bin, "RAN=" + log}
		_ = cmd.Run() // many commands fail
		text, _ := os.ReadFile(log)
		if strings.Contains(string(text), "rm\n") {
			ran++
			require.Equal(t, permission.ErrDenied, checkBash(deny, command), command)
			require.Equal(t, permission.ErrPattern, checkBash(allow, command), command)
		}
	}
	require.Greater(t, ran, 60, "most of the commands run rm")
}

// Quoted text may contain a backslash at the end of a line. A line continuation that the printed
// form still contains makes a command unreadable.
func TestLineContinuationsInTheCanonicalForm(t *testing.T) {
	p := policy(t, permission.ModeDefault, []string{"Bash(git *)", "Bash(cat *)"}, nil)
	for _, command := range []string{
		"git commit -m 'a \\\nb' -m \"c\\\\\nd\"", "cat <<'E'\na\\\nE\n", "cat <<-'E'; cat <<F\na\\\nE\nb\nF\n", "cat <<E\na\\\nb\nE\n",
		"cat <<-E\na\\\\\nE\n", "git a \\\n b",
	} {
		require.NoError(t, checkBash(p, command), command)
	}
	for _, command := range []string{
		"cat <<-E\na\\\nb\nE\n", "cat <<-E\n'a\\\nb'\nE\n", "cat <<-E\na\\\\\\\nb\nE\n", "cat <<'E'; cat <<-F\na\\\nE\nb\\\nF\nF\n",
	} {
		require.ErrorIs(t, checkBash(p, command), permission.ErrPattern, command)
	}
}

// The policy allows no call of a builtin that expands an argument in quotes.
func TestBuiltinsThatExpandTheirArguments(t *testing.T) {
	s := newShell(t, "bad")
	p := policy(t, permission.ModeDefault, []string{"Bash(*)"}, nil)
	names, err := exec.CommandContext(t.Context(), s.bash, "-c", "compgen -b").Output()
	require.NoError(t, err)
	var expanding []string
	for name := range strings.FieldsSeq(string(names)) {
		name = `\` + name // not a keyword
		if checkBash(p, name) != nil || name == `\suspend` {
			continue
		}
		commands := []string{name + " 'a[$(bad 0)]'"}
		for option := range strings.SplitSeq("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", "") {
			commands = append(commands, fmt.Sprintf("%s -%s 'a[$(bad %d)]'", name, option, len(commands)))
			commands = append(commands, fmt.Sprintf("%s -%s 'a[$(bad %d)]' x", name, option, len(commands)))
		}
		calls, _ := s.run(t, "a=(1)\n("+strings.Join(commands, ")\n(")+")")
		for _, call := range calls {
			i, err := strconv.Atoi(call[1])
			require.NoError(t, err)
			require.ErrorIs(t, checkBash(p, commands[i]), permission.ErrPattern, commands[i])
			expanding = append(expanding, name)
		}
	}
	require.Subset(t, expanding, []string{`\printf`, `\test`})
}

func TestEveryPartMustMatch(t *testing.T) {
	p := policy(t, permission.ModeDefault, []string{"Bash(git *)", "Bash(npm run *)", "Bash(head)"}, []string{"Bash(git push *)"})
	for command, want := range map[string]error{
		"git add . && npm run test":                     nil,
		"git log | head":                                nil,
		"git log | head -3":                             permission.ErrPattern,
		"(git fetch; git log) && npm run build":         nil,
		"if git diff; then npm run x; fi":               nil,
		"for f in *.go; do git add a.go; done":          nil,
		"git log | tee x":                               permission.ErrPattern,
		"git log > x":                                   permission.ErrDenied, // opaque
		"git add . && git push":                         permission.ErrDenied,
		"":                                              permission.ErrPattern,
		"# nothing":                                     permission.ErrPattern,
		">/dev/null":                                    permission.ErrPattern,
		"git " + strings.Repeat("x", 70<<10):            permission.ErrDenied,
		"git " + strings.Repeat("$(", 30<<10):           permission.ErrDenied,
		strings.Repeat("(", 1000) + "git a":             permission.ErrDenied,
		strings.Repeat("git a;", 1000):                  nil,
		strings.Repeat("git a;", 1000) + "git push":     permission.ErrDenied,
		"git p" + strings.Repeat("*", 2000) + "h 'x y'": permission.ErrDenied, // may be push
	} {
		require.Equal(t, want, checkBash(p, command), command)
	}
}

// The stack of the parser is bounded: a short command that is deeply nested is unreadable.
func TestNestingIsBounded(t *testing.T) {
	p := policy(t, permission.ModeDefault, []string{"Bash(git *)"}, nil)
	for _, open := range []string{"(", "((", "$((", "$(", "$[", "a[", "{ ", "<(", "${a[", "((a[", "(((((1+", "\"$(", "[["} {
		command := strings.Repeat(open, 65_000/len(open))
		require.ErrorIs(t, checkBash(p, command), permission.ErrPattern)
		var after runtime.MemStats
		runtime.ReadMemStats(&after)
		require.Less(t, after.StackInuse, uint64(100<<20), open)
	}
	require.NoError(t, checkBash(p, "git commit -m '"+strings.Repeat("{[(", 1365)+"'"))
	require.ErrorIs(t, checkBash(p, "git commit -m '"+strings.Repeat("{[(", 1366)+"'"), permission.ErrPattern)
}
