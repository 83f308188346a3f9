package permission_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/internal/permission"
	"github.com/seed93082962/agenthost/runtime/internal/permission/shell"
)

// stubs are the programs of the differential tests. bad is the one that must not run.
var stubs = []string{"ok", "bad", "git", "cat", "ls", "grep", "find", "head", "test", "printf", "[", "date"}

// trial compares what was read with what bash does.
type trial struct {
	shell *shellRunner
	runs  int
}

func newTrial(t testing.TB) *trial {
	t.Helper()
	s := newShell(t, stubs...)
	s.files = []string{"-v", "%n", "a.go", "b.go", "ok x"}
	return &trial{shell: s}
}

// canonical returns the command that is executed after a decision.
func canonical(t testing.TB, p *permission.Policy, command string) (string, error) {
	t.Helper()
	judged, decision := p.Check(t.Context(), permission.Tool{Name: "Bash"}, input("command", command))
	var in struct{ Command string }
	require.NoError(t, json.Unmarshal(judged, &in))
	return in.Command, decision
}

// verify fails if bash calls another program than those that were read, or with other arguments, or
// creates another file than those of the redirections. It returns the calls.
func (tr *trial) verify(t testing.TB, command string) [][]string {
	t.Helper()
	script, err := shell.Read(command)
	if err != nil {
		require.NotEmpty(t, err.Error())
		return nil
	}
	var targets []string
	for _, c := range script {
		name := c.Words[0].Text
		if strings.Contains(name, "/") || name == "cd" {
			return nil // a program of the system, or another directory
		}
		for _, r := range c.Redirects {
			if r.Operator == "<" || r.Operator == ">&" || r.Target == "/dev/null" {
				continue
			}
			if strings.Contains(r.Target, "/") {
				return nil // a file of the system
			}
			targets = append(targets, r.Target)
		}
	}
	executed := script.String()
	calls, files := tr.shell.run(t, executed)
	tr.runs++
	require.Subset(t, targets, files, "%q wrote files as %q", command, executed)
	left := slices.Clone(script)
	for _, call := range calls {
		i := slices.IndexFunc(left, func(c shell.Command) bool { return isCall(c.Words, call) })
		require.GreaterOrEqual(t, i, 0, "%q ran %q as %q", command, call, executed)
		left = slices.Delete(left, i, i+1)
	}
	return calls
}

// isCall reports whether a program may have the given arguments. A glob is one or more of them.
func isCall(words []shell.Word, args []string) bool {
	if len(words) == 0 || len(args) == 0 {
		return len(words) == len(args)
	}
	if !words[0].IsGlob() {
		return words[0].Text == args[0] && isCall(words[1:], args[1:])
	}
	before, _, _ := strings.Cut(words[0].Text, shell.Hole)
	return strings.HasPrefix(args[0], before) && (isCall(words[1:], args[1:]) || isCall(words, args[1:]))
}

// shellScripts exercise the syntax in which a reader and bash may differ.
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
	"until ok a; do ok b; break; done",
	"ok *.go", "ok [a-b].go", "ok [!a].go", "ok [^a].go", "ok ?.go x*", "ok -*", "ok *", "ok '*'.go", "ok \\*.go", "ok *\"*\"", "ok [a-b]*[o]", "ok o*' 'x", "ok 'a\nb'", "ok \"a\\\"b\" 'it'\\''s'", "ok \"$\" a$ $/",
	"ok --x='a b' a=b ~x: a~ HEAD~1 a{} {} {a} @{0}", "ok [ ] a] [a", "ok |\nok b && # c\n\nok c", "ok ; ok", "true && ok || false", "ok a && exit 1; ok b", ": ; ok x", "echo a | ok b", "cat <a.go", "ok >x 2>&1", "ok &>x", "ok 2>x >>y", "ok if then",
	"'if' a", "\\if a", "ok \u00e9 '\u00a0' \u200b", "[ a = b ]", "test -v 'a[$(bad x)]'", "printf '%n' PATH", "ok a\\\n", "\\\nok", "ok '\\'\\\n", "ok \"\\\n\"x", "{ ok a; } 2>/dev/null | { cat; }", "ok a &\nok b &\nwait", "ok \"$@\" $* \"$1\"", "echo -e '\\x41' \\x41",
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

// expandedDelimiters have an expansion before the end of a here-document, where bash and other
// parsers disagree, and numbered have a number or a name before a redirection.
var (
	expandedDelimiters = []string{
		"if git status <<E\n${x}E\nthen git status\nfi\ngit status <<'X'\nE\nthen git status\nfi\nbad\nX", "git <<E\n${x}E\nbad\nE",
		"git <<E\n$(:)E\nbad\nE\n", "git <<E\n`:`E\nbad\nE\n", "git <<E\n$xE\nbad\nE\n", "git <<-E\n\t${x}E\nbad\n\tE\n", "git <<E\n\\\nE\nbad\nE\n",
		"git <<'E'\n${x}E\nbad\nE\n", "git <<E\n$((1))E\nbad\nE\n", "git <<E\n${x:-\nE\n}\nbad\nE", "git <<E$x\nE\nbad\nE$x", "git <<E\n\"\"E\nbad\nE",
	}
	numbered = []string{
		"cat 99999999999<ok", "date 112219372026>/dev/null", "ok 3>a", "ok 10>a", "ok 00>a", "ok 01>a", "ok 2>a", "ok 2 >a", "ok '2'>a", "ok \\2>a", "ok a2>a",
		"ok -2>a", "ok 2>&3", "ok 3>&2", "ok 2>&1>a", "ok 99999999999999999999>&1", "ok 2147483648<a.go", "ok {fd}>a", "ok {2}>a", "ok '{fd}'>a", "ok &>a", "ok 2&>a",
		"ok >&a", "ok >&2a", "ok 2>&1-", "ok >&-", "ok >a2>b", "ok >2>b", "ok 1>'2'", "ok 2\\\n>a", "ok 2>\\\na", "ok >\\\n>a", "ok >*", "ok >a*", "ok <b?go", "ok 0<a.go",
	}
)

// Bash calls the programs that were read, with the words that were read, and opens the files that
// were read.
func FuzzBashRunsWhatIsJudged(f *testing.F) {
	for _, script := range slices.Concat(shellScripts, expandedDelimiters, numbered) {
		f.Add([]byte(script))
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

// Every script of the tables, with a line continuation in every position, or a comment in some.
func TestBashRunsWhatIsJudged(t *testing.T) {
	tr := newTrial(t)
	for _, script := range slices.Concat(shellScripts, expandedDelimiters, numbered) {
		tr.verify(t, script)
		for i := range len(script) + 1 {
			tr.verify(t, script[:i]+"\\\n"+script[i:])
			if i%3 == 0 {
				tr.verify(t, script[:i]+" # c\\\n"+script[i:])
			}
		}
	}
	require.Greater(t, tr.runs, 200, "many scripts are executed")
}

// No command with a here-document or a number before a redirection is approved.
func TestWhatCannotBeReadIsNotApproved(t *testing.T) {
	every := policy(t, permission.ModeAcceptEdits, []string{"Bash(*)", "Write", "Edit"}, nil)
	auto := policy(t, permission.ModeAuto, nil, nil)
	for _, command := range expandedDelimiters {
		for p, reason := range map[*permission.Policy]error{every: permission.ErrPattern, auto: permission.ErrMode} {
			executed, err := canonical(t, p, command)
			require.ErrorIs(t, err, reason, command)
			if !strings.HasPrefix(command, "if") {
				require.ErrorContains(t, err, "a here-document", command)
			}
			require.Equal(t, command, executed, "a caller that approves the command executes it as it is")
		}
	}
	for command, construct := range map[string]string{
		"cat 99999999999<ok": "another descriptor", "date 112219372026>/dev/null": "another descriptor", "cat 3<ok": "another descriptor", "cat {fd}<ok": "another descriptor",
		"cat $X": "$", "cat $(ls)": "command substitution", "cat `ls`": "command substitution", "cat <(ls)": "process substitution", "cat <<<x": "a here-string",
		"for f in a; do cat; done": "the keyword for", "if cat; then cat; fi": "the keyword if", "(cat)": "parenthesis", "{ cat; }": "the keyword {", "cat() { ls; }": "parenthesis",
		"A=b cat": "an assignment", "a[1]=b cat": "an assignment", "cat | time ls": "the keyword time", "! cat": "the keyword !", "cat &": "&", "cat |& ls": "|&", "cat ~": "~", "cat {a,b}": "brace",
		"cat 'a": "not closed", "cat \"a": "not closed", "cat \\": "backslash at the end", "cat $'a'": "$'", "cat >x": "Write", "cat >>x": "Write", "cat 2>x": "Write", "cat &>x": "Write",
		"cat >|x": "a redirection other", "cat <>x": "a redirection other", "cat </dev/tcp/localhost/1": "a redirection from a device", "cat >/dev/tcp/localhost/1": "a redirection into a file",
		"cat a\r\nls": "control character", "cat 'a\x01'": "control character", "cat;\u00a0ls": "unusual space", "cat && ": "operator without", "cat ; ; ls": "operator without", "export A=b": "export, which changes the shell",
		"eval ls": "eval, which", "source x": "source, which", "\\trap ls EXIT": "trap, which", "cat [[:alpha:]]": "brackets", "*": "name", "''": "name", "cat " + strings.Repeat("x", 70<<10): "64 KiB", "cat " + strings.Repeat("\\'", 30<<10): "64 KiB",
	} {
		err := checkBash(every, command)
		require.ErrorIs(t, err, permission.ErrPattern, command)
		require.ErrorContains(t, err, construct, command)
		require.ErrorIs(t, checkBash(auto, command), permission.ErrMode, command)
		require.ErrorContains(t, checkBash(auto, command), construct, command)
		require.NoError(t, checkBash(policy(t, permission.ModeDefault, []string{"Bash", "Bash(*)"}, nil), command), command)
		require.NoError(t, checkBash(policy(t, permission.ModeBypass, nil, nil), command), command)
	}
	denying := policy(t, permission.ModeBypass, nil, []string{"Bash(rm *)"})
	require.ErrorContains(t, checkBash(denying, "cat $X"), "This command contains an expansion")
	require.Equal(t, permission.ErrDenied, checkBash(denying, "rm x >y"), "it can be read")
}

// Commands in the language do what bash does with them as they are written.
func TestCommandsDoWhatTheySay(t *testing.T) {
	s := newShell(t, "ok", "bad", "git", "cat", "ls", "grep", "find", "head", "date")
	for _, name := range []string{"[", "test", "printf"} { // builtins, which do the same as the programs
		require.True(t, s.link(t, name))
	}
	s.files = []string{"-v", "%n", "a.go", "b.go", "ok x"}
	tr := &trial{shell: s}
	same := 0
	for _, script := range shellScripts {
		if _, err := shell.Read(script); err != nil || strings.Contains(script, "%n") || strings.Contains(script, "'a[$(bad") {
			continue // with %n and -v, only the builtins assign
		}
		calls, _ := tr.shell.run(t, script)
		require.ElementsMatch(t, calls, tr.verify(t, script), script)
		same++
	}
	require.Greater(t, same, 30)
}
