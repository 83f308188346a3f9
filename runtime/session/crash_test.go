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

// childJobs are the programs of child processes, by the value of SESSION_TEST_CHILD.
var childJobs = map[string]func(store *session.Files, s session.Session) error{
	"append":  appendForever,
	"compact": compactForever,
	"hold":    holdForever,
	"fill":    fillDisk,
}

// runChild opens the session that the environment names and executes a job. It returns the exit
// code.
func runChild(job string) int {
	err := func() error {
		store, err := session.NewFiles(session.FilesConfig{Dir: os.Getenv("SESSION_TEST_DIR"), CWD: os.Getenv("SESSION_TEST_CWD")})
		if err != nil {
			return err
		}
		s, err := store.Open(context.Background(), "a", os.Getenv("SESSION_TEST_ID"))
		if err != nil {
			return err
		}
		return childJobs[job](store, s)
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

// numberedText returns the text of the n-th message. The write of each tenth message takes some
// milliseconds.
func numberedText(n int) string {
	text := strconv.Itoa(n)
	if n%10 == 9 {
		text += strings.Repeat(" x", 4<<20)
	}
	return text
}

func appendForever(_ *session.Files, s session.Session) error {
	for n := len(s.Messages()); ; n++ {
		if err := s.Append(context.Background(), model.UserText(numberedText(n))); err != nil {
			return err
		}
		fmt.Println(n)
	}
}

func holdForever(_ *session.Files, s session.Session) error {
	fmt.Println("opened", s.ID())
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

type childProcess struct {
	*exec.Cmd
	out   *bufio.Reader
	stdin io.Closer
}

func startChild(t *testing.T, job, dir, cwd, id string) *childProcess {
	t.Helper()
	p := &childProcess{Cmd: exec.Command(os.Args[0])}
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

// kill kills the child and returns its unread output.
func (p *childProcess) kill() string {
	_ = p.Process.Kill() // it may have ended
	rest, _ := io.ReadAll(p.out)
	_ = p.Wait()
	return string(rest)
}

func (p *childProcess) readLine(t *testing.T) string {
	t.Helper()
	line, err := p.out.ReadString('\n')
	require.NoError(t, err, line)
	return strings.TrimSuffix(line, "\n")
}

func TestAKillDuringAnAppendLosesNothing(t *testing.T) {
	dir, cwd := t.TempDir(), t.TempDir()
	store := newFiles(t, session.FilesConfig{Dir: dir, CWD: cwd})
	id := createSession(t, store, numberedText(0))
	file := transcriptPath(t, dir, id)
	stored := 1
	for torn := 0; torn < 2; {
		require.Less(t, stored, 100, "no kill occurred during a write")
		p := startChild(t, "append", dir, cwd, id)
		for more := true; more; more = stored%10 != 9 { // the next message is long
			n, err := strconv.Atoi(p.readLine(t))
			require.NoError(t, err)
			stored = n + 1
		}
		for size := sizeOf(t, file); sizeOf(t, file) == size; { // until the long write has started
			runtime.Gosched()
		}
		stored += len(strings.Fields(p.kill()))
		if last := lastByte(t, file); last != '\n' {
			torn++
		}

		s := open(t, store, "a", id)
		require.True(t, s.Resumed())
		got := texts(s)
		require.NoError(t, s.Close())
		require.GreaterOrEqual(t, len(got), stored, "every acknowledged message is stored")
		require.LessOrEqual(t, len(got), stored+1)
		for n, text := range got {
			same := numberedText(n) == text // a diff of 8 MiB is unreadable
			require.True(t, same, "message %d", n)
		}
		stored = len(got)
	}
}

func sizeOf(t *testing.T, name string) int64 {
	t.Helper()
	info, err := os.Stat(name)
	require.NoError(t, err)
	return info.Size()
}

func lastByte(t *testing.T, name string) byte {
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
	store := newFiles(t, session.FilesConfig{Dir: dir, CWD: cwd})
	id := createSession(t, store, "one")

	holder := startChild(t, "hold", dir, cwd, id)
	require.Equal(t, "opened "+id, holder.readLine(t))
	_, err := store.Open(t.Context(), "a", id)
	require.ErrorIs(t, err, session.ErrBusy)
	require.Equal(t, "busy", startChild(t, "hold", dir, cwd, id).readLine(t))
	_, err = newFiles(t, session.FilesConfig{Dir: dir, CWD: cwd}).Open(t.Context(), "a", id)
	require.ErrorIs(t, err, session.ErrBusy, "another store of this process")
	holder.kill()

	s := open(t, store, "a", id)
	require.Equal(t, []string{"one"}, texts(s))
	require.Equal(t, "busy", startChild(t, "hold", dir, cwd, id).readLine(t))
	require.NoError(t, s.Close())
	require.Equal(t, "opened "+id, startChild(t, "hold", dir, cwd, id).readLine(t), "the session is released")
}

func TestCloseReleasesTheLockWhileAChildStarts(t *testing.T) {
	store := newFiles(t, session.FilesConfig{})
	id := createSession(t, store, "one")
	ctx, cancel := context.WithCancel(t.Context())
	var children sync.WaitGroup
	defer children.Wait()
	defer cancel()
	children.Go(func() { // between fork and exec a child shares all open files and their locks
		for ctx.Err() == nil {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), "SESSION_TEST_CHILD=none")
			if assertNoError(t, cmd.Start()) {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			}
		}
	})
	for range 100 {
		require.NoError(t, open(t, store, "a", id).Close())
	}
}
