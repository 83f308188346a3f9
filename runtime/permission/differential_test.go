package permission_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/permission"
)

// stubs are the programs of the differential tests. bad is the one that must not run.
var stubs = []string{"ok", "bad", "git", "cat", "ls", "grep", "find", "head"}

// builtins are what the scripts of the differential tests may use of bash.
var builtins = []string{"Bash(echo *)", "Bash(printf *)", "Bash(test *)", "Bash([ *)", "Bash(true)", "Bash(:)", "Bash(break)", "Bash(wait *)"}

// trial compares the decisions of three policies with what bash does.
type trial struct {
	shell             *shell
	allow, deny, auto *permission.Policy
	outcomes          map[string]outcome // by what was executed
}

// outcome is what a command did.
type outcome struct {
	calls [][]string
	files []string
}

func (tr *trial) run(t testing.TB, command string) outcome {
	t.Helper()
	did, ok := tr.outcomes[command]
	if !ok {
		did.calls, did.files = tr.shell.run(t, command)
		if len(tr.outcomes) > 10_000 {
			clear(tr.outcomes)
		}
		tr.outcomes[command] = did
	}
	return did
}

func newTrial(t testing.TB) *trial {
	t.Helper()
	s := newShell(t, stubs...)
	s.files = []string{"-v", "%n"}
	programs := slices.Clone(builtins)
	for _, name := range stubs {
		programs = append(programs, "Bash("+name+" *)")
	}
	auto, err := permission.New(permission.Config{Mode: permission.ModeAuto, CWD: s.cwd})
	require.NoError(t, err)
	return &trial{
		shell: s, outcomes: map[string]outcome{},
		allow: policy(t, permission.ModeDefault, append([]string{"Bash(ok *)", "Bash(cat *)"}, builtins...), nil),
		deny:  policy(t, permission.ModeDefault, programs, []string{"Bash(bad *)", "Bash(git push *)"}),
		auto:  auto,
	}
}

// canonical returns the command that is executed after a decision.
func canonical(t testing.TB, p *permission.Policy, command string) (string, error) {
	t.Helper()
	judged, decision := p.Check(permission.Tool{Name: "Bash"}, input("command", command))
	var in struct{ Command string }
	require.NoError(t, json.Unmarshal(judged, &in))
	return in.Command, decision
}

// verify fails if a command that a policy lets run calls a program that the policy would not.
func (tr *trial) verify(t testing.TB, command string) {
	t.Helper()
	for _, p := range []*permission.Policy{tr.allow, tr.deny, tr.auto} {
		executed, err := canonical(t, p, command)
		if err != nil {
			continue
		}
		again, err := canonical(t, p, executed)
		require.NoError(t, err)
		require.Equal(t, executed, again, "the canonical form is stable")
		did := tr.run(t, executed)
		require.Empty(t, did.files, "%q wrote files as %q", command, executed)
		for _, call := range did.calls {
			if p == tr.deny { // an argument of a stub runs nothing
				require.NotEqual(t, "bad", call[0], "%q ran it as %q", command, executed)
				require.False(t, call[0] == "git" && slices.Contains(call, "push"), "%q ran it as %q", command, executed)
				continue
			}
			require.NoError(t, checkBash(p, quoted(call)), "%q ran %q as %q", command, call, executed)
		}
	}
}

// shellScripts exercise the syntax in which the parser and bash may differ.
var shellScripts = []string{
	"ok a # note \\\nbad x", "ok a #\\\nbad x", "ok a;# \\\n\nbad x", "ok \"$\\\n(bad x)\"", "ok $\\\n(bad x)", "ok \"`bad x`\"",
	"ok \"$(bad x)\"", "ok '$(bad x)'", "ok <(bad x)", "cat < <(bad x)", "ok $'a\\'; bad x; '", "ok $\"a $(bad x)\"",
	"ok a | ok b && ok c || ok d; ok e & wait", "if ok a; then ok b; elif ok c; then ok d; else ok e; fi", "{ ok a; ok b; }",
	"(ok a; ok b)", "for f in a b; do ok $f; done", "for f in a \"b c\" *; do ok \"$f\"; done", "while ok a; do break; done",
	"case a in a|b) ok a;; (*) ok b;& c) ok c;; esac", "ok <<E\nbad $x\nE\nok b", "ok <<'E'\n$(bad x)\nE\nok b", "ok <<-E\n\ta\n\tE\nok b",
	"cat <<E | ok\n\\$(bad x)\nE", "cat <<A <<B\na\nA\nb\nB\nok a", "cat <<E\na\\\nE\nbad x\nE\n", "cat <<E\n`bad x`\nE", "ok <<<'a b'", "ok <<<$(bad x)",
	"f() { bad x; }; f", "alias ok=bad\nok a", "shopt -s expand_aliases\nalias ok=bad\nok a", "[[ -v a[$(bad x)] ]]", "[ a = a ] && ok a",
	"test -f a || ok a", "(( a[$(bad x)] ))", "ok $((1+2))", "ok $[1+2]", "ok {a,b}{1..3}", "{bad,x}", "ok !! !bad", "! ok a",
	"coproc bad x", "time ok a", "time -p ok a", "ok \\bad; ok '\\'; ok \"\\\"\"; ok \\\\", "ok a\\\nb \\\n c", "ok 'a\\\nb' \"a\\\nb\" $'a\\\nb'",
	"ok ${x:-$(bad x)}", "ok ${x}y \"${x}\" $x$y", "ok \"${x:-\"a\"}\"", "ok \"a'b\" 'a\"b'", "ok a#b #c", "ok ${#x} $# $? $$ $- $_", "ok >/dev/null 2>&1 </dev/null",
	"ok 2>&- >&2", "ok &>/dev/null", "ok {fd}>a", "ok a>b", "printf '%n' PATH; ok a", "printf -v 'a[$(bad x)]' 1", "printf '%s\\n' a",
	"echo \"a\nb\" 'c\nd'", "ok ~ ~/a a=~", "git status && git log", "git -C . push x", "git 'push' x", "git p\"us\"h", "ls -l | head -n 3", "grep -rn x .",
	"test -[v] 'a[$(bad x)]'", "[ [-]v 'a[$(bad x)]' ]", "ok [a]~[b] [] [!]", "test a[-]* b", "find . -name 'a*'", "select f in a; do bad x; done", "function f { bad x; }; ok a", "eval bad x", "trap 'bad x' EXIT", "ok\tb", "a=bad; $a x",
	"cat <<-E\n\tE\\\n\n\tx\n\tbad x\nE\n", "cat <<-E\nE\\\n\t\nx\nbad x\nE\n", "cat <<-E\na\\\n\tE\nbad x\nE\n", "cat <<E\nE\\\n\nbad x\nE\n",
	"cat <<\"E\\\"F\"\nE\"F\nbad x\nE\\\"F\n", "cat <<\"E\\$x\"\nE$x\nbad x\nE\\$x\n", "cat <<\"E\\\\F\"\nE\\F\nbad x\nE\\\\F\n", "cat <<\"E\\`F\"\nE`F\nbad x\nE\\`F\n",
	"cat <<$'E\\x46'\nEF\nbad x\nE\\x46\n", "cat <<-$'E\\'F'\nE'F\nbad x\nE\\'F\n",
	"PATH=. ok a", "a=(1 2); ok ${a[0]}", "ok @(a|b)", "ok [a-c]* ?b", "if ok a\nthen\nok b\nfi\n", "for f in a b\ndo\nok $f\ndone", "ok a;\n\n\nok b\n",
	"until ok a; do ok b; break; done", "{ ok a; } 2>/dev/null | { cat; }", "ok a &\nok b &\nwait", "ok \"$@\" $* \"$1\"", "echo -e '\\x41' \\x41",
}

// fragments replace the bytes from 0x80 in a fuzzed script.
var fragments = []string{
	"\\\n", "bad x", "ok a", "$(bad x)", "`bad x`", "<(bad x)", "${", "$((", "))", "[[ ", " ]]", "<<E\n", "<<'E'\n", "<<-E\n", "\nE\n", " # c\\\n",
	"$'", "$\"", "\\'", "if ok; then ", "; fi", "for f in ", "; do ", "; done", "case a in ", ";;", " esac", "{ ", "; }", "||", "&&", "! ", "time ",
	"coproc ", "function f ", "f() ", " >/dev/null", " 2>&1", "{a,b}", "@(", "shopt -s expand_aliases\n", "alias ok=bad\n", "eval ", "!!", "$f",
	"\"$@\"", "\r", "\u00a0", "<<<", "<>", ">|", "&>", "|&", ";&", ";;&", "{fd}>", "\\\\", "\\\"", "\\$", "\\`", "printf ", "echo ", "test ", "[ ",
	"-v ", "a[$(bad x)]", "+=", "a=(", "declare ", "unset ", "trap '", "' EXIT", "git ", "push ", "cat ", "select ", "until ", "while ", "elif ",
	"else ", "then ", "in ", "do ", "done", "-- ", "$_", "$-", "$?", "${#", "${!", "${a:-", "@P}", "#!", "$((1))", "$[1]", "%n", "'\\''", "E\\\n", "\\\\\n",
	"\\\n\\\n", "#", "\"\\\n\"", "'\\\n'", "$\\\n", "<\\\n<", "&\\\n&", "\n\n", ";\n", "~", "cat <<E\n", "E\n", "<<\"E\"\n", "<<\\E\n", "\\E", "ls ", "head -n ",
	"find . ", "grep ", "\x00", "\x7f", "\u3000", "exec ", "command ", "!(", "?(", "-[v] ",
}

// decode turns fuzzed bytes into a script.
func decode(data []byte) string {
	var b strings.Builder
	for _, c := range data {
		if c < 0x80 {
			b.WriteByte(c)
		} else {
			b.WriteString(fragments[int(c-0x80)%len(fragments)])
		}
	}
	return b.String()
}

// A command that a policy lets run calls only programs that the policy lets run.
func FuzzBashRunsWhatIsJudged(f *testing.F) {
	for _, script := range shellScripts {
		f.Add([]byte(script))
		for i := range len(script) + 1 {
			f.Add([]byte(script[:i] + "\\\n" + script[i:]))
		}
	}
	for _, script := range evasive {
		f.Add([]byte(strings.ReplaceAll(script, "rm", "bad")))
	}
	tr := newTrial(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) <= 400 {
			tr.verify(t, decode(data))
		}
	})
}

// Every script of the table, with a line continuation or a comment in every position.
func TestBashRunsWhatIsJudged(t *testing.T) {
	tr := newTrial(t)
	for _, script := range shellScripts {
		tr.verify(t, script)
		for i := range len(script) + 1 {
			for _, insert := range []string{"\\\n", " # c\\\n"} {
				tr.verify(t, script[:i]+insert+script[i:])
			}
		}
	}
	require.Greater(t, len(tr.outcomes), 200, "many scripts are executed")
}

// The canonical form of a command that a rule accepts does the same as the command.
func TestCanonicalFormDoesTheSame(t *testing.T) {
	tr := newTrial(t)
	same := 0
	for _, script := range shellScripts {
		if strings.Contains(script, "#") && strings.Contains(script, "\\\n") {
			continue // here bash and the parser differ
		}
		executed, err := canonical(t, tr.allow, script)
		if err != nil {
			require.ErrorIs(t, err, permission.ErrPattern, script)
			continue
		}
		require.ElementsMatch(t, tr.run(t, script).calls, tr.run(t, executed).calls, "%q and %q", script, executed)
		same++
	}
	require.Greater(t, same, 30)
}
