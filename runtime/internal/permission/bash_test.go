package permission_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/internal/permission"
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
		{" git   status ", "git status", true, true},
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
		{"git *", "git $WHAT", false, true},
		{"git *", "git add $WHAT", false, true},
		{"git *", "git add '$WHAT'", true, true},
		{"git push *", "git add $WHAT", false, true}, // cannot be read
		{"git push *", "git add p*", false, true},    // may be push
		{"git push *", "git add q*", false, true},    // may end in /push
		{"git push *", "git add 'q*'", false, false},
		{"git add *.go", "git add *.go", true, true},
		{"git add a.go", "git add *.go", false, true},
		{"git add a.go", "git add *.md", false, false},
		{"cat *", "cat <in.txt", true, true},
		{"cat *", "cat <<'E'\n$(rm x)\nE\n", false, true},
		{"rm *", "cat x >y", false, false},
		{"rm *", "cat x >rm", false, true},
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
				require.ErrorIs(t, allow, permission.ErrPattern)
			}
			if row.denied {
				require.ErrorIs(t, deny, permission.ErrDenied)
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
		require.ErrorIs(t, checkBash(deny, command), permission.ErrDenied, command)
		require.ErrorIs(t, checkBash(allow, command), permission.ErrPattern, command)
		require.ErrorIs(t, checkBash(auto, command), permission.ErrMode, command)
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
			require.ErrorIs(t, checkBash(deny, command), permission.ErrDenied, command)
			require.ErrorIs(t, checkBash(allow, command), permission.ErrPattern, command)
		}
	}
	require.Greater(t, ran, 60, "most of the commands run rm")
}

// No builtin that the policy approves expands an argument in quotes.
func TestBuiltinsThatExpandTheirArguments(t *testing.T) {
	s := newShell(t, "bad")
	for _, name := range []string{"[", "test", "printf", "kill"} {
		s.link(t, name)
	}
	p := policy(t, permission.ModeDefault, []string{"Bash(*)"}, nil)
	names, err := exec.CommandContext(t.Context(), s.bash, "-c", "compgen -b; compgen -k").Output()
	require.NoError(t, err)
	approved := 0
	for name := range strings.FieldsSeq(string(names)) {
		name = `\` + name // not a keyword
		commands := []string{name + " 'a[$(bad)]'"}
		for option := range strings.SplitSeq("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", "") {
			commands = append(commands, fmt.Sprintf("%s -%s 'a[$(bad)]'", name, option), fmt.Sprintf("%s -%s 'a[$(bad)]' x", name, option))
		}
		var scripts []string
		for _, command := range commands {
			executed, err := canonical(t, p, command+"; true") // a list runs in subshells
			if err == nil {
				scripts = append(scripts, "("+executed+")")
			}
		}
		approved += len(scripts)
		calls, _ := s.run(t, "a=(1)\n"+strings.Join(scripts, "\n"))
		require.Empty(t, calls, name)
	}
	require.Greater(t, approved, 500)
}

func TestEveryPartMustMatch(t *testing.T) {
	p := policy(t, permission.ModeDefault, []string{"Bash(git *)", "Bash(npm run *)", "Bash(head)"}, []string{"Bash(git push *)"})
	for command, want := range map[string]error{
		"git add . && npm run test":                     nil,
		"git log | head":                                nil,
		"git log | head -3":                             permission.ErrPattern,
		"git fetch; git log && npm run build":           nil,
		"(git fetch; git log) && npm run build":         permission.ErrDenied, // cannot be read
		"if git diff; then npm run x; fi":               permission.ErrDenied,
		"for f in *.go; do git add a.go; done":          permission.ErrDenied,
		"git log | tee x":                               permission.ErrPattern,
		"git log > x":                                   permission.ErrPattern,
		"git add . && git push":                         permission.ErrDenied,
		"":                                              permission.ErrPattern,
		"# nothing":                                     permission.ErrPattern,
		">/dev/null":                                    permission.ErrDenied,
		"git " + strings.Repeat("x", 70<<10):            permission.ErrDenied,
		"git " + strings.Repeat("$(", 30<<10):           permission.ErrDenied,
		strings.Repeat("(", 1000) + "git a":             permission.ErrDenied,
		strings.Repeat("git a;", 1000):                  nil,
		strings.Repeat("git a;", 1000) + "git push":     permission.ErrDenied,
		"git p" + strings.Repeat("*", 2000) + "h 'x y'": permission.ErrDenied, // may be push
	} {
		require.ErrorIs(t, checkBash(p, command), want, command)
	}
}

// The work for a command is linear in its length, and its stack does not grow.
func TestReadingIsLinear(t *testing.T) {
	p := policy(t, permission.ModeDefault, []string{"Bash(git *)"}, []string{"Bash(rm *)"})
	for _, part := range []string{"'\\\n", "'\\\n'", "\"\\\n", "\\\n", "(", "$(", "[", "[a", "[[", "a[", "{", "{a,", "~", "=~", "git a;", "git a\n", "git *", "*", "git [a-b]", "#", "# \n", "\n", "<<E\n", "'", "\"",
		"git a|", "git 2>&1 ", "git >/dev/null ", "\"a\" ", "git a&&", "\u00e9", "a=", "1"} {
		cost := func(size int) float64 {
			in := input("command", "git "+strings.Repeat(part, size/len(part)))
			return testing.AllocsPerRun(1, func() { _, _ = p.Check(t.Context(), permission.Tool{Name: "Bash"}, in) })
		}
		require.Less(t, cost(60<<10), 4*6*(cost(15<<10)+50), "%q", part)
		var after runtime.MemStats
		runtime.ReadMemStats(&after)
		require.Less(t, after.StackInuse, uint64(20<<20), part)
	}
}
