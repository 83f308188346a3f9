package main_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed93082962/agenthost/cmd/internal/daemontest"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/logtest"
)

// terminal is a pseudo terminal with what was written to it.
type terminal struct {
	t      *testing.T
	keys   *os.File
	device *os.File // of the program
	shown  logtest.Buffer
}

func openTerminal(t *testing.T) *terminal {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	number, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0))
	device, err := os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	term := &terminal{t: t, keys: keys, device: device}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(&term.shown, keys) // until the last program has closed the device
	}()
	t.Cleanup(func() {
		_ = device.Close()
		<-read
		_ = keys.Close()
	})
	return term
}

// programs returns a function that starts a command with a token, and returns what waits for its
// end.
func (term *terminal) programs(dir string, stdout io.Writer, url, token string) func(args ...string) func() error {
	return func(args ...string) func() error {
		cmd := term.command(dir, args...)
		cmd.Env = append(cmd.Env, "AGENTHOST_URL="+url, "AGENTHOST_TOKEN="+token)
		cmd.Stdout = stdout
		require.NoError(term.t, cmd.Start())
		return cmd.Wait
	}
}

// command returns a command whose stdin and stderr are the terminal.
func (term *terminal) command(dir string, args ...string) *exec.Cmd {
	binary, err := built()
	require.NoError(term.t, err)
	cmd := exec.CommandContext(term.t.Context(), binary, args...)
	cmd.Env = append(os.Environ(), "AGENTHOST_CONFIG="+filepath.Join(dir, "config"))
	cmd.Stdin, cmd.Stderr = term.device, term.device
	return cmd
}

func (term *terminal) enter(line string) {
	_, err := io.WriteString(term.keys, line)
	require.NoError(term.t, err)
}

func (term *terminal) await(shown *logtest.Buffer, pattern string) {
	term.t.Helper()
	late := time.NewTimer(daemontest.Patience)
	defer late.Stop()
	for {
		text, wrote := shown.Now()
		if regexp.MustCompile(pattern).MatchString(text) {
			return
		}
		select {
		case <-wrote:
		case <-late.C:
			require.FailNow(term.t, "the program does not write "+pattern, text)
		}
	}
}

// On a terminal, Ctrl-C cancels an answer and the conversation continues, an upload has a progress,
// and a password is not displayed.
func TestTerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startDev(t, dir, nil)
	defer end(t, p)
	p.Await(t, p.Stdout, running)

	term := openTerminal(t)
	chat := term.command(dir, "chat", "demo")
	var answers logtest.Buffer
	chat.Stdout = &answers
	require.NoError(t, chat.Start())
	term.await(&term.shown, "> $")
	term.enter(strings.Repeat("a long message ", 250) + "\n") // a line of a terminal has at most 4096 bytes
	term.await(&answers, "the demo model")
	require.NoError(t, chat.Process.Signal(syscall.SIGINT))
	term.await(&term.shown, "the answer is cancelled")
	term.enter("and then\n")
	term.await(&answers, "You wrote: and then")
	term.await(&term.shown, "(?s)is cancelled.*> $")
	term.enter("\x04") // Ctrl-D
	require.NoError(t, chat.Wait())

	tool := filepath.Join(dir, "folder_words.ts")
	require.NoError(t, os.WriteFile(tool, []byte(folderTool), 0o600))
	upload := term.command(dir, "tools", "upload", tool)
	require.NoError(t, upload.Run())
	term.await(&term.shown, `folder_words\.ts: 100%`)

	setup := p.Await(t, p.Stdout, regexp.MustCompile(`#setup=(\w+)\n`))[1]
	login := term.command(dir, "login", p.URL, "-u", "ada", "--setup", setup, "--name", "ada")
	require.NoError(t, login.Start())
	term.await(&term.shown, "Password: $")
	term.enter(password + "\n")
	require.NoError(t, login.Wait())
	text, _ := term.shown.Now()
	require.NotContains(t, text, password)

	change := term.command(dir, "password")
	require.NoError(t, change.Start())
	term.await(&term.shown, "Old password: $")
	term.enter(password + "\r" + "Another-Pass-2026\r") // at once, as from a clipboard
	require.NoError(t, change.Wait())
	text, _ = term.shown.Now()
	require.NotContains(t, text, password)

	login = term.command(dir, "login", p.URL, "-u", "ada")
	require.NoError(t, login.Start())
	term.await(&term.shown, "Password: $")
	term.enter("\x03") // Ctrl-C
	var exit *exec.ExitError
	require.ErrorAs(t, login.Wait(), &exit)
	require.Equal(t, 130, exit.ExitCode())
}

// An answer continues without its program, which a signal ends or stops, and is shown later.
func TestAnswersWithoutTheirProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startDev(t, dir, nil)
	defer end(t, p)
	p.Await(t, p.Stdout, running)
	long := strings.Repeat("a long message ", 250)
	echo := "You wrote: " + strings.Repeat("a long message ", 60) // the model shortens it
	begin := func() (*exec.Cmd, *terminal, *logtest.Buffer) {
		term := openTerminal(t)
		cmd := term.command(dir, "chat", "demo")
		answer := new(logtest.Buffer)
		cmd.Stdout = answer
		require.NoError(t, cmd.Start())
		term.await(&term.shown, "> $")
		term.enter(long + "\n")
		term.await(answer, "the demo model")
		return cmd, term, answer
	}
	for _, end := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		cmd, term, _ := begin()
		require.NoError(t, cmd.Process.Signal(end))
		var exit *exec.ExitError
		require.ErrorAs(t, cmd.Wait(), &exit)
		require.Equal(t, 130, exit.ExitCode())
		term.await(&term.shown, `The answer continues\. To see it: \S+ chat demo --session \S+ --resume`)
		require.NotContains(t, term.shown.String(), "cancelled")
		again := term.command(dir, "chat", "demo", "--resume")
		again.Stdin = nil
		text, err := again.Output()
		require.NoError(t, err)
		require.Contains(t, string(text), echo)
	}

	cmd, term, answer := begin()
	require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP)) // as Ctrl-Z in a shell
	again := term.command(dir, "chat", "demo", "--resume")
	again.Stdin = nil
	text, err := again.Output()
	require.NoError(t, err)
	require.Contains(t, string(text), echo)
	require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
	term.await(answer, echo)
	term.await(&term.shown, "(?s)a long message.*> $")
	term.enter("\x04")
	require.NoError(t, cmd.Wait())
}

// A conversation that begins before the registration continues after it, as one of the account.
func TestChatDuringTheRegistration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startDev(t, dir, nil)
	defer end(t, p)
	p.Await(t, p.Stdout, running)
	link := p.Await(t, p.Stdout, regexp.MustCompile(`/console/register#setup=(\w+)\n`))
	term := openTerminal(t)
	cmd := term.command(dir, "chat", "demo")
	var answers logtest.Buffer
	cmd.Stdout = &answers
	require.NoError(t, cmd.Start())
	term.await(&term.shown, `> $`)
	term.enter("before\n")
	term.await(&answers, `You wrote: before`)
	term.await(&term.shown, `(?s)before.*> $`)
	c := clientOf(t, p, dir)
	_, err := c.Auth.Setup(t.Context(), wire.SetupRequest{Username: "ada", Password: "correct horse", SetupToken: link[1]})
	require.NoError(t, err)
	term.enter("after\n")
	term.await(&answers, `You wrote: after`)
	term.await(&term.shown, `(?s)The conversation belongs to another account: a new one begins\..*> $`)
	term.enter("again\n")
	term.await(&answers, `You wrote: again`)
	term.await(&term.shown, `(?s)again.*> $`)
	term.enter("\x04")
	require.NoError(t, cmd.Wait())
	require.Equal(t, 1, strings.Count(term.shown.String(), "a new one begins"))
}
