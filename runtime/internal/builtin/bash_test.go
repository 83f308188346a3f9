//go:build unix

package builtin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/internal/builtin"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/tool/confine"
)

// run calls Bash.
func (b box) run(ctx context.Context, t testing.TB, command string) (tool.Result, error) {
	t.Helper()
	data, err := json.Marshal(in{"command": command})
	require.NoError(t, err)
	return b.tools["Bash"].Call(ctx, tool.Call{ID: "t1", Input: data})
}

// withEnv sets the usual environment of a shell.
func withEnv(c *builtin.Config) { c.Env = []string{"PATH=/usr/bin:/bin", "GREETING=hello"} }

// The environment replaces no command and adds none.
func TestBashExecutesOnlyTheCommand(t *testing.T) {
	b := setup(t, func(c *builtin.Config) {
		c.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + c.Dir.Path(), "SSH_CLIENT=192.0.2.1 1 22", "BASH_ENV=" + filepath.Join(c.Dir.Path(), "startup"),
			"SHELLOPTS=noglob:xtrace", "BASHOPTS=nullglob", "CDPATH=" + filepath.Join(c.Dir.Path(), "other"), "GLOBIGNORE=*"}
		for _, name := range []string{"exec", "cat", "cd", "echo", "true"} {
			c.Env = append(c.Env, "BASH_FUNC_"+name+"%%=() { builtin echo replaced; }")
		}
	})
	b.put(t, "startup", "echo startup")
	b.put(t, ".bashrc", "echo bashrc")
	b.put(t, "sub/a.txt", "a")
	b.put(t, "other/sub/b.txt", "b")
	for command, want := range map[string]string{
		"'exec' -- 'cat' 'sub/'*'.txt'": "a", "('exec' -- 'cat' 'sub/a.txt') | ('exec' -- 'cat')": "a", "'cd' 'sub' && ('exec' -- 'ls')": "a.txt\n",
		"'echo' 'x'": "x\n", "'true' && 'echo' 'no'*'ne'": "no*ne\n", "cat sub/a.txt": "a",
	} {
		require.Equal(t, want, b.ok(t, "Bash", in{"command": command}), command)
	}
}

func TestBash(t *testing.T) {
	t.Setenv("PROVIDER_KEY", "secret")
	t.Run("plain", func(t *testing.T) { testBash(t) })
	t.Run("confined", func(t *testing.T) { testBash(t, inSandbox(t)) })
}

// inSandbox confines commands.
func inSandbox(t testing.TB) func(*builtin.Config) {
	return func(c *builtin.Config) {
		boxes, err := confine.New(confine.Config{CWD: c.Dir.Path(), Dir: t.TempDir()})
		require.NoError(t, err)
		box, _, err := boxes.Open(agent.Sandbox{}.In(c.Dir.Path()), nil, c.Env)
		require.NoError(t, err)
		if box != nil { // on Linux
			t.Cleanup(box.Close)
			c.Sandbox = box
		}
	}
}

func testBash(t *testing.T, change ...func(*builtin.Config)) {
	b := setup(t, append([]func(*builtin.Config){withEnv}, change...)...)
	b.put(t, "note.txt", "content\n")
	for _, row := range []struct {
		name, command, want string
		isError             bool
	}{
		{"output", "echo one; echo two", "one\ntwo\n", false},
		{"working directory", "pwd; cat note.txt", b.dir + "\ncontent\n", false},
		{"both streams in order", "for i in 1 2 3; do echo out$i; echo err$i >&2; done", "out1\nerr1\nout2\nerr2\nout3\nerr3\n", false},
		{"none", "true", "(no output)", false},
		{"environment", "echo $GREETING$PROVIDER_KEY", "hello\n", false},
		{"empty input", "cat; echo end", "end\n", false},
		{"no terminal", "echo x >/dev/tty", "/dev/tty: ", true},
		{"exit code", "echo before; exit 3", "before\nExit code 3", true},
		{"exit code alone", "exit 4", "Exit code 4", true},
		{"output without a line's end", "printf abc; exit 1", "abc\nExit code 1", true},
		{"signal", "echo a; kill -KILL $$", "a\nKilled by signal SIGKILL", true},
		{"signal of a child", "bash -c 'kill -TERM $$'; echo $?", "Terminated\n143\n", false},
		{"no such program", "no-such-program", "command not found\nExit code 127", true},
		{"syntax", "if", "Exit code 2", true},
		{"no UTF-8", `printf 'a\xff\xfe\0b\xc3'; printf '\xa4'`, "a\uFFFD\uFFFDb\u00e4", false},
		{"half a rune", `printf '\xe2\x82'`, "\uFFFD", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			res, err := b.run(t.Context(), t, row.command)
			require.NoError(t, err)
			require.Equal(t, row.isError, res.IsError, res.Output)
			require.False(t, res.Truncated)
			if strings.HasPrefix(row.name, "no such") || row.name == "syntax" || row.name == "no terminal" { // bash writes more before it
				require.Contains(t, res.Output, row.want)
				require.Regexp(t, `\nExit code \d+$`, res.Output)
				return
			}
			require.Equal(t, row.want, res.Output)
		})
	}
}

func TestBashInheritsNoEnvironment(t *testing.T) {
	t.Setenv("PROVIDER_KEY", "secret")
	res, err := setup(t).run(t.Context(), t, "export -p")
	require.NoError(t, err)
	require.NotContains(t, res.Output, "PROVIDER_KEY")
	require.NotContains(t, res.Output, "HOME")
}

// In other character sets, bash may read a command differently than the permission rules.
func TestBashRunsInAUTF8Locale(t *testing.T) {
	for locale, want := range map[string]string{
		"zh_CN.GBK": "C.UTF-8", "zh_TW": "C.UTF-8", "ja_JP.SJIS": "C.UTF-8", "zh_TW.BIG5@x": "C.UTF-8", "C.GBK": "C.UTF-8",
		"de_DE.UTF-8": "de_DE.UTF-8", "ca_ES.utf8@valencia": "ca_ES.utf8@valencia", "C.UTF-8": "C.UTF-8", "C": "C", "POSIX": "POSIX", "": "",
	} {
		b := setup(t, withEnv, func(c *builtin.Config) {
			c.Env = append(c.Env, "LANG="+locale, "LC_ALL="+locale, "LC_CTYPE="+locale, "OTHER=x.GBK")
		})
		output := b.ok(t, "Bash", in{"command": `echo "<$LANG $LC_ALL $LC_CTYPE $OTHER>"`})
		require.Contains(t, output, "<"+want+" "+want+" "+want+" x.GBK>\n", locale) // after warnings
	}
}

func TestBashCallsAreIndependent(t *testing.T) {
	b := setup(t, withEnv)
	b.ok(t, "Bash", in{"command": "mkdir sub; cd sub; x=1; export x"})
	require.Equal(t, b.dir+"\n", b.ok(t, "Bash", in{"command": "pwd; printf '%s' \"$x\""}))
}

func TestBashRejects(t *testing.T) {
	b := setup(t)
	for _, row := range []struct {
		name  string
		input in
		want  string
	}{
		{"nothing", in{}, "the command is empty"},
		{"blank", in{"command": " \n"}, "the command is empty"},
		{"null byte", in{"command": "echo \x00"}, "null byte"},
		{"too long", in{"command": strings.Repeat("x", 100_001)}, "write it to a file"},
		{"no number", in{"command": "true", "timeout": "5"}, "the input does not match"},
		{"negative", in{"command": "true", "timeout": -1}, "from 1 to 600000"},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.Contains(t, b.fails(t, "Bash", row.input), row.want)
		})
	}
	gone := setup(t)
	require.NoError(t, os.Remove(gone.dir))
	require.Contains(t, gone.fails(t, "Bash", in{"command": "true"}), "no such file")
}

func TestBashTimeout(t *testing.T) {
	timed, ok := setup(t).tools["Bash"].(tool.Timed)
	require.True(t, ok)
	for input, want := range map[string]time.Duration{
		`{"command":"x"}`:                        2 * time.Minute,
		`{"command":"x","timeout":5000}`:         5 * time.Second,
		`{"command":"x","timeout":2.5}`:          2500 * time.Microsecond,
		`{"command":"x","timeout":600000}`:       10 * time.Minute,
		`{"command":"x","timeout":1e300}`:        10 * time.Minute,
		`{"command":"x","timeout":0}`:            2 * time.Minute,
		`{"command":"x","timeout":-5}`:           2 * time.Minute,
		`{"command":"x","timeout":null}`:         2 * time.Minute,
		`{"command":"x","timeout":"a"}`:          2 * time.Minute,
		`{"command":"x","timeout":1e999}`:        2 * time.Minute,
		`[`:                                      2 * time.Minute,
		``:                                       2 * time.Minute,
		`{"timeout":` + strings.Repeat("9", 400): 2 * time.Minute,
	} {
		require.Equal(t, want, timed.Timeout(json.RawMessage(input), 2*time.Minute), input)
	}
}

func TestBashBoundsItsOutput(t *testing.T) {
	b := setup(t, withEnv, func(c *builtin.Config) { c.MaxOutput = 2000 })
	require.Len(t, b.ok(t, "Bash", in{"command": "printf '%01800d' 0"}), 1800)
	for _, row := range []struct{ name, command, head, tail string }{
		{"one too many", "printf 'begin%01791dend!!' 0", "begin000", "000end!!"},
		{"much", "echo begin; seq 300000; printf end", "begin\n1\n2\n", "299999\n300000\nend"},
		{"much of two bytes a rune", "printf x; printf 'ä%.0s' {1..30000}", "xää", "ää"},
		{"of what is no text", "printf x; head -c 500000 /dev/zero; printf y", "x\uFFFD", "\uFFFDy"},
	} {
		t.Run(row.name, func(t *testing.T) {
			output := b.cut(t, "Bash", in{"command": row.command})
			require.LessOrEqual(t, len(output), 2000)
			require.True(t, strings.HasPrefix(output, row.head), output)
			require.True(t, strings.HasSuffix(output, row.tail), output)
			require.Regexp(t, `\n\[\d+ bytes cut\]\n`, output)
		})
	}
	res, err := b.run(t.Context(), t, "seq 300000; exit 9")
	require.NoError(t, err)
	require.True(t, res.Truncated)
	require.True(t, strings.HasSuffix(res.Output, "300000\nExit code 9"))

	var count, kept int
	output := b.cut(t, "Bash", in{"command": "printf '%05000d' 0"})
	head, rest, _ := strings.Cut(output, "\n[")
	_, err = fmt.Sscanf(rest, "%d", &count)
	require.NoError(t, err)
	_, tail, _ := strings.Cut(rest, "]\n")
	kept = len(head) + len(tail)
	require.Equal(t, 5000, kept+count)
}

// held opens a FIFO for reading. Its end shows that the last command that had it open for writing
// has ended.
func (b box) held(t *testing.T) *os.File {
	t.Helper()
	path := filepath.Join(b.dir, "fifo")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestBashLeavesNothingBehind(t *testing.T) {
	stop := errors.New("the run was cancelled")
	for _, confined := range []bool{false, true} {
		testLeftovers(t, confined, stop)
	}
}

func testLeftovers(t *testing.T, confined bool, stop error) {
	for _, row := range []struct {
		name, command string
		ends          bool // without a timeout
	}{
		{"in the background", "sleep 300 & echo started >fifo", true},
		{"deaf, in the background", "(trap '' TERM HUP; echo started >fifo; touch up; sleep 300; sleep 300) & until [ -e up ]; do :; done", true},
		{"cancelled", "echo partial; echo started >fifo; sleep 300", false},
		{"cancelled with children", "echo partial; (sleep 300 | cat) & echo started >fifo; wait", false},
		{"cancelled and deaf", "trap '' TERM; echo partial; echo started >fifo; while :; do sleep 300; done", false},
	} {
		name := row.name
		change := []func(*builtin.Config){withEnv}
		if confined {
			name += ", confined"
			change = append(change, inSandbox(t))
		}
		t.Run(name, func(t *testing.T) {
			b := setup(t, change...)
			fifo := b.held(t)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			began := make(chan time.Time, 1)
			go func() {
				for n := 0; n == 0; { // a FIFO without a writer is at its end
					n, _ = fifo.Read(make([]byte, 100))
				}
				began <- time.Now()
				if !row.ends {
					cancel(stop)
				}
			}()
			res, err := b.run(ctx, t, "exec 9>fifo; "+row.command)
			require.Less(t, time.Since(<-began), 30*time.Second)
			if row.ends {
				require.NoError(t, err)
				require.False(t, res.IsError, res.Output)
			} else {
				require.ErrorIs(t, err, stop)
				require.Equal(t, "partial", res.Output)
			}
			n, err := syscall.Read(int(fifo.Fd()), make([]byte, 100)) // EAGAIN means that a process still has it open
			require.NoError(t, err)
			require.Zero(t, n)
		})
	}
}

func TestBashDoesNotStartAfterTheContextEnds(t *testing.T) {
	b := setup(t, withEnv)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := b.run(ctx, t, "touch file")
	require.ErrorIs(t, err, context.Canceled)
	require.NoFileExists(t, filepath.Join(b.dir, "file"))
}

func BenchmarkBash(b *testing.B) {
	for name, change := range map[string][]func(*builtin.Config){"plain": {withEnv}, "confined": {withEnv, inSandbox(b)}} {
		b.Run(name, func(b *testing.B) {
			box := setup(b, change...)
			for b.Loop() {
				_, err := box.run(b.Context(), b, "echo")
				require.NoError(b, err)
			}
		})
	}
}
