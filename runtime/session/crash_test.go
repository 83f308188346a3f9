package session_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/session"
)

// jobs are what a child process may be started for.
var jobs = map[string]func(store *session.Files, s session.Session) error{
	"append":  appendForever,
	"compact": compactForever,
	"hold":    holdForever,
	"fill":    fill,
}

// child opens the session that its environment names, does its job with it and exits.
func child(job string) int {
	err := func() error {
		store, err := session.NewFiles(session.FilesConfig{Dir: os.Getenv("SESSION_TEST_DIR"), CWD: os.Getenv("SESSION_TEST_CWD")})
		if err != nil {
			return err
		}
		s, err := store.Open(context.Background(), "a", os.Getenv("SESSION_TEST_ID"))
		if err != nil {
			return err
		}
		return jobs[job](store, s)
	}()
	if errors.Is(err, session.ErrBusy) {
		fmt.Println("busy")
		return 0
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// numbered is the n-th message of a conversation. Each tenth is so long that it takes some
// milliseconds to write.
func numbered(n int) string {
	text := strconv.Itoa(n)
	if n%10 == 9 {
		text += strings.Repeat(" x", 4<<20)
	}
	return text
}

func appendForever(_ *session.Files, s session.Session) error {
	for n := len(s.Messages()); ; n++ {
		if err := s.Append(context.Background(), model.UserText(numbered(n))); err != nil {
			return err
		}
		fmt.Println(n)
	}
}

func holdForever(_ *session.Files, s session.Session) error {
	fmt.Println("held", s.ID())
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// process is a child process.
type process struct {
	*exec.Cmd
	out   *bufio.Reader
	stdin io.Closer
}

func start(t *testing.T, job, dir, cwd, id string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(os.Args[0])}
	p.Env = append(os.Environ(), "SESSION_TEST_CHILD="+job, "SESSION_TEST_DIR="+dir, "SESSION_TEST_CWD="+cwd, "SESSION_TEST_ID="+id)
	p.Stderr = os.Stderr
	out, err := p.StdoutPipe()
	require.NoError(t, err)
	p.stdin, err = p.StdinPipe()
	require.NoError(t, err)
	p.out = bufio.NewReader(out)
	require.NoError(t, p.Start())
	t.Cleanup(func() { p.kill() })
	return p
}

// kill kills the child and returns what it had still written.
func (p *process) kill() string {
	_ = p.Process.Kill() // it may have ended
	rest, _ := io.ReadAll(p.out)
	_ = p.Wait()
	return string(rest)
}

func (p *process) line(t *testing.T) string {
	t.Helper()
	line, err := p.out.ReadString('\n')
	require.NoError(t, err, line)
	return strings.TrimSuffix(line, "\n")
}

func TestAKillInTheMiddleOfAnAppendLosesNothing(t *testing.T) {
	dir, cwd := t.TempDir(), t.TempDir()
	store := files(t, session.FilesConfig{Dir: dir, CWD: cwd})
	id := conversation(t, store, numbered(0))
	file := fileOf(t, dir, id)
	said := 1
	for torn := 0; torn < 2; {
		require.Less(t, said, 100, "no kill meets a write")
		p := start(t, "append", dir, cwd, id)
		for more := true; more; more = said%10 != 9 { // the next one is long
			n, err := strconv.Atoi(p.line(t))
			require.NoError(t, err)
			said = n + 1
		}
		for size := sizeOf(t, file); sizeOf(t, file) == size; { // until the long one is on its way
			runtime.Gosched()
		}
		told := strings.Fields(p.kill())
		said += len(told)
		if last := tail(t, file); last != '\n' {
			torn++
		}

		s := open(t, store, "a", id)
		require.True(t, s.Resumed())
		got := texts(s)
		require.NoError(t, s.Close())
		require.GreaterOrEqual(t, len(got), said, "what was acknowledged is there")
		require.LessOrEqual(t, len(got), said+1)
		for n, text := range got {
			same := numbered(n) == text // 8 MiB make no good diff
			require.True(t, same, "message %d", n)
		}
		said = len(got)
	}
}

func sizeOf(t *testing.T, name string) int64 {
	t.Helper()
	info, err := os.Stat(name)
	require.NoError(t, err)
	return info.Size()
}

// tail is the last byte of a file.
func tail(t *testing.T, name string) byte {
	t.Helper()
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	var b [1]byte
	_, err = f.ReadAt(b[:], sizeOf(t, name)-1)
	require.NoError(t, err)
	return b[0]
}

func TestTwoProcessesOnOneSession(t *testing.T) {
	dir, cwd := t.TempDir(), t.TempDir()
	store := files(t, session.FilesConfig{Dir: dir, CWD: cwd})
	id := conversation(t, store, "one")

	holder := start(t, "hold", dir, cwd, id)
	require.Equal(t, "held "+id, holder.line(t))
	_, err := store.Open(t.Context(), "a", id)
	require.ErrorIs(t, err, session.ErrBusy)
	require.Equal(t, "busy", start(t, "hold", dir, cwd, id).line(t))
	_, err = files(t, session.FilesConfig{Dir: dir, CWD: cwd}).Open(t.Context(), "a", id)
	require.ErrorIs(t, err, session.ErrBusy, "another store of this process")
	holder.kill()

	s := open(t, store, "a", id)
	require.Equal(t, []string{"one"}, texts(s))
	require.Equal(t, "busy", start(t, "hold", dir, cwd, id).line(t))
	require.NoError(t, s.Close())
	require.Equal(t, "held "+id, start(t, "hold", dir, cwd, id).line(t), "free again")
}

func TestASessionIsFreeAlthoughAChildIsBeingStarted(t *testing.T) {
	store := files(t, session.FilesConfig{})
	id := conversation(t, store, "one")
	ctx, cancel := context.WithCancel(t.Context())
	var starter sync.WaitGroup
	defer starter.Wait()
	defer cancel()
	starter.Go(func() { // between fork and exec a child has all open files, and so their locks
		for ctx.Err() == nil {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), "SESSION_TEST_CHILD=none")
			if assertNoError(t, cmd.Start()) {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			}
		}
	})
	for range 500 {
		require.NoError(t, open(t, store, "a", id).Close())
	}
}
