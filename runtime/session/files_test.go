package session_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/internal/collect"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/session"
)

// newFiles creates a store. Directories that cfg does not name are temporary ones.
func newFiles(tb testing.TB, cfg session.FilesConfig) *session.Files {
	tb.Helper()
	if cfg.Dir == "" {
		cfg.Dir = tb.TempDir()
	}
	if cfg.CWD == "" {
		cfg.CWD = tb.TempDir()
	}
	store, err := session.NewFiles(cfg)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, store.Close()) })
	return store
}

// createSession stores a session of agent "a" with these messages.
func createSession(t *testing.T, store session.Store, texts ...string) (id string) {
	t.Helper()
	s := open(t, store, "a", "")
	for _, text := range texts {
		appendText(t, s, text)
	}
	require.NoError(t, s.Close())
	return s.ID()
}

func transcriptPath(t *testing.T, dir, id string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "sessions", "*", "*", "*", id+".jsonl"))
	require.NoError(t, err)
	require.Len(t, found, 1)
	return found[0]
}

// shard returns the name of the folder of a session.
func shard(id string) string { return id[7:8] + id[9:10] }

func readFile(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(b)
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
}

func TestFilesFormat(t *testing.T) {
	dir, cwd, link := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(cwd, link))
	before := time.Now()
	store := newFiles(t, session.FilesConfig{Dir: dir, CWD: link})
	id := createSession(t, store, "one <b>", "two")
	name := transcriptPath(t, dir, id)
	rel, err := filepath.Rel(dir, name)
	require.NoError(t, err)
	require.Regexp(t, `^sessions.[0-9a-f]{32}.a.[0-9a-f]{2}.[0-9a-f-]{36}\.jsonl$`, rel)

	lines := strings.SplitAfter(readFile(t, name), "\n")
	require.Len(t, lines, 4)
	var header struct {
		Format, ID, Agent, CWD string
		Version                int
		Created                time.Time
	}
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &header))
	cwd, err = filepath.EvalSymlinks(cwd)
	require.NoError(t, err)
	require.Equal(t, "agenthost session", header.Format)
	require.Equal(t, 2, header.Version)
	require.Equal(t, id, header.ID)
	require.Equal(t, "a", header.Agent)
	require.Equal(t, cwd, header.CWD)
	require.WithinRange(t, header.Created, before, time.Now())
	require.Regexp(t, `^\{"role":"user","content":\[\{"type":"text","text":"one <b>"\}\],"time":"[^"]*Z"\}\n$`, lines[1])
	require.Regexp(t, `^\{"role":"user","content":\[\{"type":"text","text":"two"\}\],"time":"[^"]*Z"\}\n$`, lines[2])
	require.Empty(t, lines[3])
}

func TestFilesAreStoredByWorkingDirectory(t *testing.T) {
	dir, cwd := t.TempDir(), t.TempDir()
	id := createSession(t, newFiles(t, session.FilesConfig{Dir: dir, CWD: cwd}), "one")
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(cwd, link))
	for name, row := range map[string]struct {
		cwd   string
		known bool
	}{
		"the same directory":           {cwd, true},
		"the same one by another path": {filepath.Join(cwd, "x", ".."), true},
		"the same one by a link":       {link, true},
		"another directory":            {t.TempDir(), false},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, newFiles(t, session.FilesConfig{Dir: dir, CWD: row.cwd}), "a", id)
			require.Equal(t, row.known, s.Resumed())
			require.NoError(t, s.Close())
		})
	}
}

// Two file names can be equivalent in a file system, such as "ID" and "id".
func TestFilesIdentifyASessionByItsHeader(t *testing.T) {
	dir := t.TempDir()
	store := newFiles(t, session.FilesConfig{Dir: dir})
	id := createSession(t, store, "one")
	file := transcriptPath(t, dir, id)
	other := filepath.Join(filepath.Dir(filepath.Dir(file)), "b")
	require.NoError(t, os.Mkdir(other, 0o700))
	for name, row := range map[string]struct{ dir, agent, id string }{
		"of another agent": {other, "b", id},
		"of another id":    {filepath.Dir(file), "a", "another"},
	} {
		t.Run(name, func(t *testing.T) {
			writeFile(t, filepath.Join(row.dir, row.id+".jsonl"), readFile(t, file))
			s := open(t, store, row.agent, row.id)
			require.False(t, s.Resumed())
			require.NoError(t, s.Close())
			require.FileExists(t, filepath.Join(row.dir, row.id+".jsonl"))
		})
	}
}

func TestFilesDoNotStoreEmptySessions(t *testing.T) {
	dir := t.TempDir()
	store := newFiles(t, session.FilesConfig{Dir: dir})
	require.Empty(t, transcripts(t, store, dir))
	s := open(t, store, "a", "")
	require.Error(t, s.Append(t.Context(), model.Message{Content: []model.Block{{Input: []byte("{")}}}), "invalid JSON")
	require.NoError(t, s.Close())
	require.Empty(t, transcripts(t, store, dir))
}

// transcripts opens and closes an empty session, and returns all files of the store.
func transcripts(t *testing.T, store session.Store, dir string) []string {
	t.Helper()
	createSession(t, store)
	all, err := filepath.Glob(filepath.Join(dir, "sessions", "*", "*", "*", "*"))
	require.NoError(t, err)
	return all
}

func TestDeleteRemovesTheFiles(t *testing.T) {
	dir := t.TempDir()
	store := newFiles(t, session.FilesConfig{Dir: dir})
	for name, text := range map[string]string{"damaged": "garbage", "empty": "", "newer": `{"format":"agenthost session","version":99}` + "\n"} {
		file := transcriptPath(t, dir, createSession(t, store, "one"))
		id := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		writeFile(t, file, text)
		writeFile(t, strings.TrimSuffix(file, ".jsonl")+".new", "left by a crash")
		require.NoError(t, store.Delete(t.Context(), id), name)
		require.Empty(t, transcripts(t, store, dir), name)
	}
	id := createSession(t, store, "one")
	other := newFiles(t, session.FilesConfig{Dir: dir, CWD: t.TempDir()})
	require.NoError(t, other.Delete(t.Context(), id))
	require.FileExists(t, transcriptPath(t, dir, id), "a session of another working directory")
}

func TestFilesAfterACrash(t *testing.T) {
	const message = `{"role":"user","content":[{"type":"text","text":"two"}]}`
	for name, row := range map[string]struct {
		tail string
		want []string
	}{
		"half a message":       {message[:20], []string{"zero", "one"}},
		"one byte":             {"{", []string{"zero", "one"}},
		"zeros":                {strings.Repeat("\x00", 5000), []string{"zero", "one"}},
		"a long half":          {message[:50] + strings.Repeat("x", 1<<20), []string{"zero", "one"}},
		"all but the line end": {message, []string{"zero", "one", "two"}}, // the message is complete
		"all":                  {message + "\n", []string{"zero", "one", "two"}},
		"all and half of one":  {message + "\n" + message[:1], []string{"zero", "one", "two"}},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			dir := t.TempDir()
			store := newFiles(t, session.FilesConfig{Dir: dir, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			id := createSession(t, store, "zero", "one")
			file := transcriptPath(t, dir, id)
			writeFile(t, file, readFile(t, file)+row.tail)

			s := open(t, store, "a", id)
			require.True(t, s.Resumed())
			require.Equal(t, row.want, texts(s))
			require.Equal(t, len(row.want) == 2 || strings.HasSuffix(row.tail, "\n{"), strings.Contains(log.String(), "cut off"))
			cut := row.tail[strings.LastIndexByte(row.tail, '\n')+1:]
			require.Equal(t, cut != "" && cut != message, strings.Contains(log.String(), fmt.Sprintf("bytes=%d\n", len(cut))))
			log.Reset()
			appendText(t, s, "three")
			require.NoError(t, s.Close())
			s = open(t, store, "a", id)
			require.Empty(t, log.String(), "the rest has been removed")
			appendText(t, s, "four")
			require.NoError(t, s.Close())

			s = open(t, store, "a", id)
			require.Equal(t, append(row.want, "three", "four"), texts(s))
			require.NoError(t, s.Close())
			all := readFile(t, file)
			require.Equal(t, len(row.want)+3, strings.Count(all, "\n"), "the file has no other lines")
			require.True(t, strings.HasSuffix(all, "\n"))
		})
	}
}

// A crash during the first append leaves a file without a complete message.
func TestFilesAfterACrashInTheFirstMessage(t *testing.T) {
	dir := t.TempDir()
	store := newFiles(t, session.FilesConfig{Dir: dir})
	id := createSession(t, store, "one")
	file := transcriptPath(t, dir, id)
	all := readFile(t, file)
	header := strings.IndexByte(all, '\n') + 1
	for _, n := range []int{0, 1, header - 1, header, header + 1, len(all) - 2} {
		writeFile(t, file, all[:n])
		s := open(t, store, "a", id)
		require.False(t, s.Resumed(), "%d bytes", n)
		require.NotEqual(t, id, s.ID())
		require.NoError(t, s.Close())
		require.Equal(t, all[:n], readFile(t, file))
	}
}

func TestFilesRejectDamagedTranscripts(t *testing.T) {
	replace := func(old, text string) func(string) string {
		return func(s string) string { return strings.Replace(s, old, text, 1) }
	}
	message := `{"role":"user","content":[{"type":"text","text":"two"}]}`
	for name, row := range map[string]struct {
		change func(string) string
		want   error
		line   string
	}{
		"garbage in the middle":    {replace(message, "\x00\xff garbage"), session.ErrDamaged, "line 3"},
		"half a line":              {replace(message, message[:30]), session.ErrDamaged, "line 3"},
		"an empty line":            {replace(message, ""), session.ErrDamaged, "line 3"},
		"an empty object":          {replace(message, "{}"), session.ErrDamaged, "line 3"},
		"an array":                 {replace(message, "[1]"), session.ErrDamaged, "line 3"},
		"garbage as the last line": {func(s string) string { return s + "garbage\n" }, session.ErrDamaged, "line 5"},
		"another role":             {replace(`"role":"user"`, `"role":"system"`), session.ErrDamaged, "line 2"},
		"another file":             {func(string) string { return "# Notes\n\ntext\n" }, session.ErrDamaged, "line 1"},
		"another JSON file":        {replace("agenthost session", "other"), session.ErrDamaged, "line 1"},
		"no version":               {replace(`"version":1,`, ""), session.ErrDamaged, "line 1"},
		"a field of another type":  {replace(`"created":"`, `"created":"x`), session.ErrDamaged, "line 1"},
		"a newer version":          {replace(`"version":1,"id":`, `"version":3,"id":7,"ids":`), session.ErrNewer, "line 1"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			store := newFiles(t, session.FilesConfig{Dir: dir})
			id := createSession(t, store, "one", "two", "three")
			file := transcriptPath(t, dir, id)
			original := former(readFile(t, file))
			changed := row.change(original)
			require.NotEqual(t, original, changed)
			writeFile(t, file, changed)
			for range 2 { // the first failure releases the session
				_, err := store.Open(t.Context(), "a", id)
				require.ErrorIs(t, err, row.want)
				require.ErrorContains(t, err, id)
				require.ErrorContains(t, err, row.line+":")
			}
			require.Equal(t, changed, readFile(t, file), "the file is unchanged")
			writeFile(t, file, original)
			require.Equal(t, []string{"one", "two", "three"}, texts(open(t, store, "a", id)), "after a manual repair")
		})
	}
}

func TestFilesLimitLines(t *testing.T) {
	store := newFiles(t, session.FilesConfig{})
	id := createSession(t, store, "one")
	s := open(t, store, "a", id)
	err := s.Append(t.Context(), model.UserText(strings.Repeat("\x01", 23<<20))) // six bytes each
	require.ErrorContains(t, err, "exceed the limit")
	appendText(t, s, "two")
	require.NoError(t, s.Close())
	require.Equal(t, []string{"one", "two"}, texts(open(t, store, "a", id)))
}

func TestFilesAcceptTheLargestResponse(t *testing.T) {
	store := newFiles(t, session.FilesConfig{})
	text := strings.Repeat("\n", 1<<20) + strings.Repeat("x", collect.MaxTotal-1<<20)
	id := createSession(t, store, text)
	s := open(t, store, "a", id)
	same := s.Messages()[0].Text() == text // a diff of 64 MiB is unreadable
	require.True(t, same)
	require.NoError(t, s.Close())
}

func TestNewFilesErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	writeFile(t, file, "")
	taken := t.TempDir()
	writeFile(t, filepath.Join(taken, "sessions"), "")
	for name, row := range map[string]struct {
		cfg  session.FilesConfig
		want string
	}{
		"no state directory":        {session.FilesConfig{CWD: t.TempDir()}, "no state directory"},
		"no working directory":      {session.FilesConfig{Dir: t.TempDir()}, "no working directory"},
		"one that is missing":       {session.FilesConfig{Dir: t.TempDir(), CWD: filepath.Join(file, "x")}, "find working directory"},
		"a file as state directory": {session.FilesConfig{Dir: file, CWD: t.TempDir()}, "file"},
		"a file as folder":          {session.FilesConfig{Dir: taken, CWD: t.TempDir()}, "sessions"},
		"a negative TTL":            {session.FilesConfig{Dir: t.TempDir(), CWD: t.TempDir(), TTL: -1}, "negative"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := session.NewFiles(row.cfg)
			require.ErrorContains(t, err, "open session store: ")
			require.ErrorContains(t, err, row.want)
		})
	}
	require.NotContains(t, openFiles(t, filepath.Dir(taken)), taken)
}

func TestFilesRejectInvalidAgentIDs(t *testing.T) {
	store := newFiles(t, session.FilesConfig{})
	for _, agent := range []string{"", ".", "..", "../a", "a/b", "A", "a--b", "-a", "a-", "a.b", "a\n", strings.Repeat("a", 64)} {
		_, err := store.Open(t.Context(), agent, "")
		require.ErrorContains(t, err, "open session: ", "%q", agent)
	}
	require.NoError(t, open(t, store, strings.Repeat("a", 63), "").Close())
}

func ExampleFiles() {
	dir, _ := os.MkdirTemp("", "state")
	defer func() { _ = os.RemoveAll(dir) }()
	ctx := context.Background()
	store, err := session.NewFiles(session.FilesConfig{Dir: dir, CWD: "."})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	s, _ := store.Open(ctx, "helper", "")
	_ = s.Append(ctx, model.UserText("Hello"))
	_ = s.Close()

	again, _ := store.Open(ctx, "helper", s.ID())
	fmt.Println(again.Resumed(), again.Messages()[0].Text())
	_ = again.Close()
	// Output: true Hello
}
