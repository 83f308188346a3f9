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

// A compaction is one more line. The replaced messages remain in the transcript.
func TestFilesFormatAfterACompaction(t *testing.T) {
	dir := t.TempDir()
	store := newFiles(t, session.FilesConfig{Dir: dir})
	id := createSession(t, store, "one", "two", "three")
	file := transcriptPath(t, dir, id)
	before := readFile(t, file)
	writeFile(t, file, before+"{") // an interrupted append
	s := open(t, store, "a", id)
	compact(t, s, "summary", "three")
	line, ok := strings.CutPrefix(readFile(t, file), before)
	require.True(t, ok)
	require.Regexp(t, `^\{"compacted":\[\{"role":"user",.*"summary".*"three".*\],"time":"[^"]*Z"\}\n$`, line)
	appendText(t, s, "four")
	require.NoError(t, s.Close())
	s = open(t, store, "a", id)
	require.Equal(t, []string{"summary", "three", "four"}, texts(s))
	compact(t, s)
	require.NoError(t, s.Close())
	require.Empty(t, glob(t, dir, "*"))
}

// Each compaction of a long file drops the entries before it, and closes the replaced file.
func TestFilesDropLongTranscripts(t *testing.T) {
	dir := t.TempDir()
	store := newFiles(t, session.FilesConfig{Dir: dir})
	s := open(t, store, "a", "")
	for range 2 {
		for n := range 20 {
			appendText(t, s, strconv.Itoa(n)+strings.Repeat(" x", 1<<19))
		}
		require.NoError(t, s.Close())
		s = open(t, store, "a", s.ID())
		compact(t, s, "summary")
		appendText(t, s, "last")
		require.Less(t, sizeOf(t, transcriptPath(t, dir, s.ID())), int64(1000))
	}
	requireClosed(t, dir, 1) // a replaced file is not open
	require.NoError(t, s.Close())
	all, err := store.Transcript(t.Context(), s.ID(), 0, 10)
	require.NoError(t, err)
	require.Len(t, all.Entries, 2)
	require.EqualValues(t, 43, all.Entries[0].Seq, "the number of an entry does not change")
	require.Equal(t, "summary", all.Entries[0].Compacted[0].Text())
	require.Equal(t, "last", all.Entries[1].Message.Text())
	require.EqualValues(t, 44, all.Total)
	again := open(t, store, "a", s.ID())
	require.Equal(t, []string{"summary", "last"}, texts(again))
	require.NoError(t, again.Close())
}

// The events before the first message have numbers.
func TestFilesCountTheFirstEvents(t *testing.T) {
	store := newFiles(t, session.FilesConfig{})
	s := open(t, store, "a", "")
	for range 3 {
		require.NoError(t, s.Record([]byte(`{}`)))
	}
	appendText(t, s, strings.Repeat("x", 17<<20))
	compact(t, s, "summary")
	require.NoError(t, s.Close())
	all, err := store.Transcript(t.Context(), s.ID(), 0, 10)
	require.NoError(t, err)
	require.Len(t, all.Entries, 1)
	require.EqualValues(t, 5, all.Entries[0].Seq)
}

// Messages before a compaction are not decoded, so a damaged line there does not matter.
func TestFilesReadFromTheLastCompaction(t *testing.T) {
	dir := t.TempDir()
	store := newFiles(t, session.FilesConfig{Dir: dir})
	s := open(t, store, "a", "")
	appendText(t, s, "replaced")
	compact(t, s, "first")
	compact(t, s, "second")
	require.NoError(t, s.Close())
	file := transcriptPath(t, dir, s.ID())
	writeFile(t, file, strings.Replace(readFile(t, file), `{"type":"text","text":"replaced"}`, `garbage`, 1))
	again := open(t, store, "a", s.ID())
	require.Equal(t, []string{"second"}, texts(again))
	require.NoError(t, again.Close())
	all, err := store.Transcript(t.Context(), s.ID(), 0, 10)
	require.NoError(t, err)
	require.Len(t, all.Entries, 2, "a line that cannot be read has no entry")
}

func TestFilesCompactErrors(t *testing.T) {
	store := newFiles(t, session.FilesConfig{})
	messages := []model.Message{model.UserText("x"), {Content: []model.Block{{Input: []byte("{")}}}} // invalid JSON
	first := open(t, store, "a", "")
	s := open(t, store, "a", createSession(t, store, "one"))
	require.ErrorContains(t, first.Compact(t.Context(), messages), "message 2: ")
	require.Empty(t, first.Messages())
	require.NoError(t, first.Close())

	require.Error(t, s.Compact(t.Context(), messages))
	require.Equal(t, []string{"one"}, texts(s))
	appendText(t, s, "two")
	require.NoError(t, s.Close())
	again := open(t, store, "a", s.ID())
	require.Equal(t, []string{"one", "two"}, texts(again))
	require.NoError(t, again.Close())
}

// The name of the new file of a compaction can be in use, by a folder that is not empty.
func TestFilesCompactErrorsOfALongFile(t *testing.T) {
	dir := t.TempDir()
	store := newFiles(t, session.FilesConfig{Dir: dir})
	s := open(t, store, "a", "")
	for range 17 {
		appendText(t, s, strings.Repeat("x", 1<<20))
	}
	taken := strings.TrimSuffix(transcriptPath(t, dir, s.ID()), ".jsonl") + ".new"
	require.NoError(t, os.MkdirAll(filepath.Join(taken, "x"), 0o700))
	require.Error(t, s.Compact(t.Context(), userMessages("x")))
	require.Len(t, s.Messages(), 17)
	requireClosed(t, dir, 1)
	require.NoError(t, os.RemoveAll(taken))
	writeFile(t, taken, "left by a crash")
	compact(t, s, "summary")
	appendText(t, s, "two")
	require.NoError(t, s.Close())
	all, err := store.Transcript(t.Context(), s.ID(), 0, 10)
	require.NoError(t, err)
	require.EqualValues(t, 18, all.Entries[0].Seq)
	require.EqualValues(t, 19, all.Total)
	again := open(t, store, "a", s.ID())
	require.Equal(t, []string{"summary", "two"}, texts(again))
	require.NoError(t, again.Close())
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
		file := transcriptPath(t, dir, id)
		for size := sizeOf(t, file); sizeOf(t, file) == size && len(glob(t, dir, id+".new")) == 0; { // until the next compaction has started
			_, err := store.Open(t.Context(), "a", id)
			require.ErrorIs(t, err, session.ErrBusy, "the child has the session open during a compaction")
		}
		last += len(strings.Fields(p.kill()))
		torn += len(glob(t, dir, id+".new"))
		if lastByte(t, file) != '\n' {
			torn++
		}

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
	s = open(t, store, "a", id)
	require.Equal(t, []string{"summary"}, texts(s))
	require.NoError(t, s.Close())
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
