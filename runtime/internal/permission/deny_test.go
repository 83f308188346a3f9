package permission_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/internal/permission"
)

// A deny pattern applies however a command runs the program.
func TestDenyPatternsFindWordsAnywhere(t *testing.T) {
	for pattern, commands := range map[string][]string{
		"pwn *": {
			"pwn", "pwn x", "/opt/pwn", "./pwn", "env pwn", "env A=b pwn x", "choom -n 1 -- pwn", "prlimit --nofile=9 pwn", "ssh-agent pwn",
			"run-parts --regex=pwn .", "sort --comp=pwn x", "sort --compress-program pwn", "tar -caIpwn -f x.tar y", "tar -I /opt/pwn -cf x y",
			"tar --use-comp=./pwn -cf x y", "git grep -Opwn x", "git grep --open-files-in-pager=pwn x", "git -c core.pager=pwn log",
			"git -c alias.z='!pwn' z", "find . -exec pwn {} +", "xargs -n1 pwn", "bash -c 'pwn x'", "sh -c 'true;pwn'", "sh -c \"true&&/x/pwn\"",
			"bash <<<'pwn x'", "{ bash; } <<<pwn", "bash <<E\npwn x\nE", "bash <<'E'\npwn $x\nE", "(bash) <<E\npwn\nE", "while true; do bash; done <<<pwn",
			"for p in pwn; do env $p; done", "case pwn in *) env $_;; esac", "case x in pwn) ok;; esac", "perl -e 'system(\"pwn\")'", "make SHELL=/x/pwn",
			"p''wn", "env p\"w\"n", "env $'pwn'", "env $'\\x70wn'", "env p*", "env ?wn", "env $X", "env \"a$X\"", "env {pwn,x}", "eval \"p\"wn",
			"printf 'true\\npwn x' | sh", "echo -e 'a\\tb\\npwn' | sh", "unknown-wrapper --deep=a,b:pwn", "env -S'pwn x'", "echo pwn | sh",
		},
		"git push *": {
			"git push", "git push origin", "git -C . push", "git --no-pager push x", "git --git-dir=x push", "/usr/bin/git -C /x push", "env git push",
			"sh -c 'git push'", "git '-C' . 'pu'sh", "git -c a=b --exec-path=x push", "xargs git push", "git $X", "git add $X", "git -c alias.z=push z",
			"xargs git <<<push", "env *", "env ???", "env [f-h]*", "git ????", "env */????",
		},
		"chmod +x *":           {"chmod +x a", "sh -c 'chmod +x a'", "chmod u+x a", "env chmod +x a"},
		"npm run build:prod *": {"npm run build:prod", "sh -c 'npm run build:prod'", "npm --silent run build:prod x"},
		"cat src/key *":        {"cat src/key", "cat ./src/key", "cat /w/src/key", "sh -c 'cat src/key'"},
		"[ *":                  {"[ a = b ]", "test a || [ b ]", "env [ a = b ]", "env '[' a"},
		"rm -rf *":             {"rm -rf x", "sudo rm -rf x", "rm -- -rf", "find . -exec rm -rf {} +"},
		"/usr/bin/rm *":        {"rm x", "/bin/rm x", "env rm"},
		"npm run *":            {"npm run x", "npm --prefix . run x"},
		"a*b":                  {"ab", "axb", "a b", "a x b", "a x $Y"}, // what the pattern would allow
		"kill* *":              {"killall x", "env kill 1"},
		"ab*d":                 {"ab ?x d"},
		"ab*x*d":               {"abx ?y d"},
		"*":                    {"a", "a b"},
		"git:*":                {"git", "env git:x"},
	} {
		deny := policy(t, permission.ModeBypass, nil, []string{"Bash(" + pattern + ")"})
		for _, command := range commands {
			require.ErrorIs(t, checkBash(deny, command), permission.ErrDenied, "%s: %s", pattern, command)
		}
	}
	for pattern, commands := range map[string][]string{
		"pwn *": {"pwned", "echo pwnx", "cat a.pwn", "ls pwn-old", "ls *.go", "ls [a-c].go", "ls src/[pwn]*.go",
			"ls '~/src'", "echo 'a b' | cat", "git log -n 3 >/dev/null", "ls >out.txt"},
		"git push *": {"git status", "push git", "git pull", "git log origin/main", "git && push", "ls *.go"},
		"[ *":        {"ls", "test a"},
		"a a *":      {"env a", "sh -c a", "a-a"},
		"a*d":        {"z ?x d"},
		"ab*d":       {"zab ?x d", "zzab ?x d"},
		"chmod +x *": {"chmod 644 a", "echo x"},
		"rm -rf *":   {"rm x", "rm -r -f x", "rm -fr x"}, // other words
	} {
		deny := policy(t, permission.ModeBypass, nil, []string{"Bash(" + pattern + ")"})
		for _, command := range commands {
			require.NoError(t, checkBash(deny, command), "%s: %s", pattern, command)
		}
	}
}

// wrappers run another command, which replaces %s.
var wrappers = []struct{ program, command string }{
	{"env", "env %s"}, {"env", "env A=b %s"}, {"env", "env -i PATH=\"$PATH\" RECORD=\"$RECORD\" %s"}, {"nice", "nice -n 1 %s"}, {"nohup", "nohup %s"},
	{"timeout", "timeout 5 %s"}, {"setsid", "setsid -w %s"}, {"stdbuf", "stdbuf -o0 %s"}, {"choom", "choom -n 1 -- %s"},
	{"prlimit", "prlimit --nofile=100 %s"}, {"ionice", "ionice -c 3 %s"}, {"taskset", "taskset 1 %s"}, {"chrt", "chrt -o 0 %s"},
	{"xargs", "echo a | xargs %s"}, {"xargs", "xargs -n1 %s <<<a"}, {"flock", "flock -n . %s"}, {"setarch", "setarch -R %s"},
	{"find", "find . -maxdepth 0 -exec %s ';'"}, {"find", "find . -maxdepth 0 -ok %s ';' <<<y"}, {"ssh-agent", "ssh-agent %s"},
	{"script", "script -qc '%s' /dev/null"}, {"dash", "dash -c '%s'"}, {"dash", "dash -c 'ok;%s'"}, {"dash", "dash <<<'%s'"},
	{"dash", "dash <<E\n%s\nE\n"}, {"dash", "echo '%s' | dash"}, {"dash", "{ dash; } <<'E'\n%s\nE\n"}, {"perl", "perl -e 'exec qw(%s)'"},
	{"perl", "perl -e 'system(\"%s\")'"}, {"git", "git -c alias.z='!%s' z"}, {"make", "make -f /dev/null --eval='a:;@%s' a"}, {"make", "make -f /dev/null --eval='a:;+%s' a"},
	{"env", "env -S%s"}, {"env", "env -vS'%s'"}, {"tar", "tar -cI%s -f x ."}, {"tar", "tar --use-compress-program=%s -cf x ."}, {"script", "script -qec%s /dev/null"},
	{"", "time %s"}, {"", "command %s"}, {"", "exec %s"}, {"", "eval '%s'"}, {"", "builtin command %s"}, {"", "coproc %s; wait"}, {"", "trap '%s' EXIT"},
	{"", "! %s"}, {"", "{ %s; }"}, {"", "(%s)"}, {"", "if %s; then ok; fi"}, {"", "for f in a; do %s; done"}, {"", "ok && %s"}, {"", "ok | %s"},
	{"", "case a in a) %s;; esac"}, {"", "f() { %s; }; f"}, {"", "ok $(%s)"}, {"", "ok `%s`"}, {"", "A=b %s"}, {"", "read a < <(%s)"},
}

// targets are ways to write a command that runs the stub named bad.
var targets = []string{
	"bad x", "bad", "\"$BIN\"/bad", "$BIN/bad x", "../bin/bad", "b\\ad x", "b\\\nad x", "'bad' x", "\"bad\"", "ba\"d\" x", "$'bad' x", "$'\\x62ad'",
	"$'\\142ad'", "../bin/[b]ad", "../bin/b[!x]d", "../bin/[a-c]a[]d]", "../bin/[[:alpha:]]\"ad\"", "~/../bin/bad", "{bad,x}", "b''ad", "../*/bad", "../bin/b?d", "\"$BIN/b\"ad", "$\"bad\"", "dash -c bad", "dash -c 'ok; bad'",
}

// takesCode reports whether a wrapper reads the command as text.
func takesCode(wrapper string) bool {
	for _, interpreter := range []string{"dash", "perl", "make", "script", "alias.z", "eval", "trap", "-vS", "tar"} {
		if strings.Contains(wrapper, interpreter) {
			return true
		}
	}
	return false
}

// installed links the programs of the wrappers, and returns the commands whose program is
// installed.
func installed(t testing.TB, s *shellRunner) (commands []string) {
	t.Helper()
	linked := map[string]bool{"": true}
	for _, w := range wrappers {
		if _, known := linked[w.program]; !known {
			linked[w.program] = s.link(t, w.program)
		}
		if linked[w.program] {
			commands = append(commands, w.command)
		}
	}
	return commands
}

// Without a policy, each wrapper runs the program: the fuzz target below fails if one is permitted.
func TestWrappersRunTheProgram(t *testing.T) {
	s := newShell(t, "ok", "bad")
	for _, wrapper := range installed(t, s) {
		calls, _ := s.run(t, strings.Replace(wrapper, "%s", "bad", 1))
		require.True(t, slices.ContainsFunc(calls, func(call []string) bool { return call[0] == "bad" }), wrapper)
	}
}

// A deny pattern denies every command that runs the program that it names, as bash runs it.
func FuzzDenyPatternFindsWords(f *testing.F) {
	s := newShell(f, "ok", "bad")
	// If a fuzzed command ends before its argument, ssh-agent becomes a daemon that nothing ends.
	available := slices.DeleteFunc(installed(f, s), func(w string) bool { return strings.HasPrefix(w, "ssh-agent") })
	deny := policy(f, permission.ModeBypass, nil, []string{"Bash(bad *)"})
	for i := range available {
		for j := range targets {
			f.Add(byte(i), byte(j), byte(255), byte(255), uint16(0))
		}
		f.Add(byte(i), byte(0), byte(i+7), byte(i+13), uint16(i))
	}
	f.Fuzz(func(t *testing.T, outer, target, middle, inner byte, at uint16) {
		command := targets[int(target)%len(targets)]
		for _, w := range []byte{inner, middle, outer} {
			if w < 255 {
				wrapper := available[int(w)%len(available)]
				if takesCode(wrapper) && (strings.ContainsAny(command, "*?[$`{") || strings.Contains(wrapper, "'%s") && strings.Contains(command, "'")) {
					continue // the interpreter computes the name, or the quotes do not nest
				}
				command = strings.Replace(wrapper, "%s", command, 1)
			}
		}
		if at > 0 {
			i := int(at) % (len(command) + 1)
			command = command[:i] + "\\\n" + command[i:]
		}
		command = strings.ReplaceAll(command, "$BIN", s.bin)
		executed, err := canonical(t, deny, command)
		if err != nil {
			return
		}
		calls, _ := s.run(t, executed)
		require.False(t, slices.ContainsFunc(calls, func(call []string) bool { return call[0] == "bad" }), "%q ran it as %q", command, executed)
	})
}
