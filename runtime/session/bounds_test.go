package session_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/internal/collect"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/session"
)

const (
	pageBytes     = 4 << 20                    // of the entries that Transcript returns
	recordedBytes = 16 << 20                   // of events, and of a file that a compaction continues
	lineBytes     = 2*collect.MaxTotal + 1<<20 // of a line, with its end
)

// bounded is a store in a bubble of synctest, where all times have the same number of digits.
type bounded struct {
	session.Store
	message, event int // bytes of an entry in addition to its text
}

// eachBounded runs a test with both stores.
func eachBounded(t *testing.T, test func(t *testing.T, store bounded)) {
	t.Helper()
	t.Run("files", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			store := newFiles(t, session.FilesConfig{Dir: dir})
			s := open(t, store, "a", "")
			appendText(t, s, "one")
			require.NoError(t, s.Record([]byte(`1`)))
			require.NoError(t, s.Close())
			lines := strings.SplitAfter(readFile(t, transcriptPath(t, dir, s.ID())), "\n")
			test(t, bounded{store, len(lines[1]) - 3, len(lines[2]) - 1})
			require.NoError(t, store.Close())
		})
	})
	t.Run("memory", func(t *testing.T) {
		m := model.UserText("one")
		test(t, bounded{session.NewMemory(session.MemoryConfig{}), m.Size() - 3, 0})
	})
}

// appendBytes appends a message of n bytes in the store.
func (b bounded) appendBytes(t *testing.T, s session.Session, n int) {
	t.Helper()
	appendText(t, s, strings.Repeat("x", n-b.message))
}

func TestBytesOfAPage(t *testing.T) {
	eachBounded(t, func(t *testing.T, store bounded) {
		t.Helper()
		for over, want := range []int{2, 1} {
			s := open(t, store, "a", "")
			store.appendBytes(t, s, pageBytes/2)
			store.appendBytes(t, s, pageBytes/2+over)
			require.NoError(t, s.Record([]byte(`1`)))
			require.NoError(t, s.Close())
			found, err := store.Transcript(t.Context(), s.ID(), 0, 10)
			require.NoError(t, err)
			require.Len(t, found.Entries, want)
			require.EqualValues(t, 3, found.Total)
		}
	})
}

// A page that begins with a long compaction has no other entry.
func TestBytesOfACompactionInAPage(t *testing.T) {
	eachBounded(t, func(t *testing.T, store bounded) {
		t.Helper()
		s := open(t, store, "a", "")
		compact(t, s, strings.Repeat("x", pageBytes))
		appendText(t, s, "one")
		require.NoError(t, s.Close())
		for after, want := range []string{"", "one"} {
			found, err := store.Transcript(t.Context(), s.ID(), int64(after), 10)
			require.NoError(t, err)
			require.Len(t, found.Entries, 1)
			if want != "" {
				require.Equal(t, want, found.Entries[0].Message.Text())
			}
		}
	})
}

func TestBytesOfEvents(t *testing.T) {
	eachBounded(t, func(t *testing.T, store bounded) {
		t.Helper()
		event := func(s session.Session, n int) {
			t.Helper()
			require.NoError(t, s.Record([]byte(`"`+strings.Repeat("x", n-store.event-2)+`"`)))
		}
		total := func(s session.Session) int64 {
			t.Helper()
			found, err := store.Transcript(t.Context(), s.ID(), 0, 1)
			require.NoError(t, err)
			return found.Total
		}
		s := open(t, store, "a", "")
		event(s, 1<<20) // before the first message
		appendText(t, s, "one")
		event(s, 1<<20)
		require.NoError(t, s.Close())
		s = open(t, store, "a", s.ID()) // which counts the events that are stored
		event(s, recordedBytes-2<<20+1)
		require.EqualValues(t, 3, total(s))
		event(s, recordedBytes-2<<20)
		require.EqualValues(t, 4, total(s))
		require.NoError(t, s.Record([]byte(`1`)))
		require.EqualValues(t, 4, total(s))
		appendText(t, s, "two")
		require.EqualValues(t, 5, total(s), "messages are not limited")
		for i := range int64(2) {
			compact(t, s, "summary")
			if i == 1 {
				require.NoError(t, s.Close())
				s = open(t, store, "a", s.ID())
			}
			event(s, recordedBytes)
			require.EqualValues(t, 7+2*i, total(s), "a compaction makes room")
			require.NoError(t, s.Record([]byte(`1`)))
			require.EqualValues(t, 7+2*i, total(s))
		}
		require.NoError(t, s.Close())
	})
}

// A compaction continues a file of 16 MiB, and replaces a longer one.
func TestBytesOfACompactedFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		store := newFiles(t, session.FilesConfig{Dir: dir})
		s := open(t, store, "a", "")
		appendText(t, s, "one")
		file := transcriptPath(t, dir, s.ID())
		begin := sizeOf(t, file)
		appendText(t, s, "one")
		entry := sizeOf(t, file) - begin - 3
		appendText(t, s, strings.Repeat("x", int(recordedBytes-sizeOf(t, file)-entry)))
		require.EqualValues(t, recordedBytes, sizeOf(t, file))
		compact(t, s, "summary")
		require.Greater(t, sizeOf(t, file), int64(recordedBytes))
		compact(t, s, "summary")
		require.Less(t, sizeOf(t, file), int64(1000))
		require.NoError(t, s.Close())
		require.NoError(t, store.Close())
	})
}

// A compaction of one message has a longer line than the message: the error of the longest message
// is that of the compaction.
func TestBytesOfALine(t *testing.T) {
	s := open(t, newFiles(t, session.FilesConfig{}), "a", "")
	message, err := json.Marshal(model.UserText("x"))
	require.NoError(t, err)
	text := strings.Repeat("x", lineBytes-len(message)+1) // too long by its line end
	err = s.Compact(t.Context(), userMessages("one", text))
	require.ErrorContains(t, err, "encode messages: message 2: 135266305 bytes exceed the limit of 135266304")
	err = s.Compact(t.Context(), userMessages("one", text[1:]))
	require.ErrorContains(t, err, "exceed the limit of 135266304")
	require.NotContains(t, err.Error(), "message 2")
	require.NoError(t, s.Close())
}

// The least recently used sessions are evicted as soon as all together exceed the limit.
func TestBytesOfAMemory(t *testing.T) {
	kept := func(limit int64, open func(session.Store) session.Session) (n int) {
		store := session.NewMemory(session.MemoryConfig{MaxBytes: limit})
		var all []string
		for range 3 {
			s := open(store)
			require.NoError(t, s.Close())
			all = append(all, s.ID())
		}
		for _, id := range all {
			if _, err := store.Transcript(t.Context(), id, 0, 1); err == nil {
				n++
			}
		}
		return n
	}
	const entry = 256
	message := int64(512 + 128 + 512 + len("one")) // that of a session, of a message and of a block
	for name, row := range map[string]struct {
		write func(s session.Session)
		bytes int64
	}{
		"a message": {func(s session.Session) { appendText(t, s, "one") }, message + entry},
		"an event":  {func(s session.Session) { appendText(t, s, "one"); require.NoError(t, s.Record([]byte(`"event"`))) }, message + 2*entry + 7},
		"compacted": {func(s session.Session) {
			appendText(t, s, strings.Repeat("x", 1000))
			require.NoError(t, s.Record([]byte(`"event"`)))
			compact(t, s, "one")
		}, message},
	} {
		t.Run(name, func(t *testing.T) {
			create := func(store session.Store) session.Session {
				s := open(t, store, "a", "")
				row.write(s)
				return s
			}
			for n := range int64(3) {
				require.EqualValues(t, n, kept((n+1)*row.bytes-1, create))
				require.EqualValues(t, n+1, kept((n+1)*row.bytes, create))
			}
		})
	}
}

// A session of a Memory is stored for its TTL after its last use.
func TestTimeOfAMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory(session.MemoryConfig{TTL: time.Hour})
		id := createSession(t, store, "one")
		transcript := func() error {
			_, err := store.Transcript(t.Context(), id, 0, 1)
			return err
		}
		<-time.After(time.Hour - 1)
		require.NoError(t, transcript())
		s := open(t, store, "a", id)
		require.True(t, s.Resumed())
		<-time.After(2 * time.Hour)
		require.NoError(t, transcript(), "it is open")
		require.NoError(t, s.Close())
		<-time.After(time.Hour)
		require.ErrorIs(t, transcript(), session.ErrUnknown)
		require.False(t, open(t, store, "a", id).Resumed())
	})
}
