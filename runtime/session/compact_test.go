package session_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/session"
)

func compact(t *testing.T, s session.Session, to ...string) {
	t.Helper()
	require.NoError(t, s.Compact(t.Context(), userMessages(to...)))
}

func userMessages(all ...string) []model.Message {
	var messages []model.Message
	for _, text := range all {
		messages = append(messages, model.UserText(text))
	}
	return messages
}

// The result of Compact has the usual format and contains no replaced message.
func TestFilesFormatAfterACompaction(t *testing.T) {
	dir := t.TempDir()
	store := newFiles(t, session.FilesConfig{Dir: dir})
	id := createSession(t, store, "one", "two", "three")
	file := transcriptPath(t, dir, id)
	header, _, _ := strings.Cut(readFile(t, file), "\n")
	writeFile(t, file, readFile(t, file)+"{") // an interrupted append
	message := func(text string) string {
		return `{"role":"user","content":[{"type":"text","text":"` + text + `"}]}` + "\n"
	}
	for range 3 {
		s := open(t, store, "a", id)
		compact(t, s, "summary", "three")
		require.Equal(t, header+"\n"+message("summary")+message("three"), readFile(t, file))
		appendText(t, s, "four")
		require.NoError(t, s.Close())
		require.Equal(t, header+"\n"+message("summary")+message("three")+message("four"), readFile(t, file))
	}
	require.Equal(t, []string{file}, glob(t, dir, "*"))

	s := open(t, store, "a", id)
	compact(t, s)
	require.NoError(t, s.Close())
	require.Empty(t, glob(t, dir, "*"))
}

func TestFilesCompactErrors(t *testing.T) {
	dir := t.TempDir()
	store := newFiles(t, session.FilesConfig{Dir: dir})
	for name, messages := range map[string][]model.Message{
		"invalid JSON": {model.UserText("x"), {Content: []model.Block{{Input: []byte("{")}}}},
		"name in use":  {model.UserText("x")},
	} {
		t.Run(name, func(t *testing.T) {
			first := open(t, store, "a", "")
			s := open(t, store, "a", createSession(t, store, "one"))
			if name == "name in use" { // by a directory that is not empty
				agent := filepath.Dir(filepath.Dir(transcriptPath(t, dir, s.ID())))
				for _, id := range []string{first.ID(), s.ID()} {
					taken := filepath.Join(agent, shard(id), id+".new")
					require.NoError(t, os.MkdirAll(filepath.Join(taken, "x"), 0o700))
					t.Cleanup(func() { require.NoError(t, os.RemoveAll(taken)) })
				}
			}
			require.Error(t, first.Compact(t.Context(), messages))
			require.Empty(t, first.Messages())
			require.NoError(t, first.Close())
			require.Empty(t, glob(t, dir, first.ID()+".jsonl"))

			require.Error(t, s.Compact(t.Context(), messages))
			require.Equal(t, []string{"one"}, texts(s))
			appendText(t, s, "two")
			require.NoError(t, s.Close())
			again := open(t, store, "a", s.ID())
			require.Equal(t, []string{"one", "two"}, texts(again))
			require.NoError(t, again.Close())
		})
	}
}

// generation returns the messages of the n-th compaction. Writing them takes some milliseconds.
func generation(n int) []model.Message {
	text := strconv.Itoa(n) + strings.Repeat(" x", 1<<20)
	return userMessages(text, text, text)
}

func compactForever(_ *session.Files, s session.Session) error {
	n, _, _ := strings.Cut(s.Messages()[0].Text(), " ")
	for last, err := strconv.Atoi(n); ; last++ {
		if err != nil {
			return err
		}
		err = s.Compact(context.Background(), generation(last+1))
		fmt.Println(last + 1)
	}
}

func TestAKillDuringACompactionLosesNothing(t *testing.T) {
	dir, cwd := t.TempDir(), t.TempDir()
	store := newFiles(t, session.FilesConfig{Dir: dir, CWD: cwd})
	id := createSession(t, store, "0")
	last := 0
	for torn, tries := 0, 0; torn < 2; tries++ {
		require.Less(t, tries, 100, "no kill occurred during a compaction")
		p := startChild(t, "compact", dir, cwd, id)
		for range 2 {
			n, err := strconv.Atoi(p.readLine(t))
			require.NoError(t, err)
			last = n
		}
		for len(glob(t, dir, id+".new")) == 0 { // until the next compaction has started
			_, err := store.Open(t.Context(), "a", id)
			require.ErrorIs(t, err, session.ErrBusy, "the child has the session open during a compaction")
		}
		last += len(strings.Fields(p.kill()))
		torn += len(glob(t, dir, id+".new"))

		s := open(t, store, "a", id)
		n, _, _ := strings.Cut(texts(s)[0], " ")
		got, err := strconv.Atoi(n)
		require.NoError(t, err)
		require.Contains(t, []int{last, last + 1}, got, "every acknowledged compaction is stored")
		for i, m := range generation(got) {
			same := m.Text() == s.Messages()[i].Text() // a diff of 2 MiB is unreadable
			require.True(t, same, "message %d", i)
		}
		require.Len(t, s.Messages(), 3)
		require.NoError(t, s.Close())
		last = got
	}
	s := open(t, store, "a", id)
	compact(t, s, "summary")
	require.NoError(t, s.Close())
	require.Len(t, glob(t, dir, "*"), 1, "the interrupted compaction was removed")
}

func TestSweepRemovesInterruptedCompactions(t *testing.T) {
	dir, cwd := t.TempDir(), t.TempDir()
	file := transcriptPath(t, dir, createSession(t, newFiles(t, session.FilesConfig{Dir: dir, CWD: cwd}), "one"))
	left, fresh := filepath.Join(filepath.Dir(file), "left.new"), filepath.Join(filepath.Dir(file), "fresh.new")
	writeFile(t, left, "{")
	writeFile(t, fresh, "{")
	sweep(t, session.FilesConfig{Dir: dir, CWD: cwd}, map[string]time.Duration{left: 1000 * time.Hour})
	require.NoFileExists(t, left)
	require.FileExists(t, fresh)
	require.FileExists(t, file)
}

func TestMemoryCountsACompaction(t *testing.T) {
	store := session.NewMemory(session.MemoryConfig{MaxBytes: 10_000})
	kept := open(t, store, "a", "")
	appendText(t, kept, "one")
	require.NoError(t, kept.Close())
	for range 5 { // a compaction reduces the size
		s := open(t, store, "a", "")
		appendText(t, s, strings.Repeat("x", 9000))
		compact(t, s, "summary")
		require.NoError(t, s.Close())
	}
	s := open(t, store, "a", kept.ID())
	require.True(t, s.Resumed())
	require.NoError(t, s.Close())

	s = open(t, store, "a", "")
	compact(t, s, strings.Repeat("x", 9000))
	require.NoError(t, s.Close())
	require.False(t, open(t, store, "a", kept.ID()).Resumed(), "a compaction adds to the size")
}
