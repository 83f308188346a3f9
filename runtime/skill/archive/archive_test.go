package archive_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed93082962/agenthost/internal/skillzip"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/skill/archive"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// entry is an entry of a zip archive.
type entry struct {
	name, body string
	mode       fs.FileMode
}

func pack(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		h.SetMode(e.mode | 0o644)
		f, err := w.CreateHeader(h)
		require.NoError(t, err)
		_, err = io.WriteString(f, e.body)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

// paths returns files that are named after their number.
func paths(n int, format string) []entry {
	all := make([]entry, n)
	for i := range all {
		all[i].name = fmt.Sprintf(format, i)
	}
	return all
}

// encrypted sets the flag of an encrypted entry.
func encrypted(data []byte) []byte {
	data[bytes.LastIndex(data, []byte("PK\x01\x02"))+8] |= 1
	return data
}

func hash(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// serve serves bytes under a link, and counts the requests.
func serve(t *testing.T, data []byte) (link string, requests *atomic.Int32) {
	t.Helper()
	requests = &atomic.Int32{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if r.URL.Query().Get("signature") == "" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_, _ = w.Write(data)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/skill.zip?signature=secret", requests
}

func open(t *testing.T, dir string) func(context.Context, agent.SkillArchive) (string, error) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	s, err := archive.New(dir, client)
	require.NoError(t, err)
	return s
}

func TestSkillIsUnpackedOnce(t *testing.T) {
	data := pack(t, entry{name: "SKILL.md", body: "Review."}, entry{name: "scripts/", mode: fs.ModeDir}, entry{name: "scripts/run.sh", body: "exit", mode: 0o755},
		entry{name: "deep/er/notes.md", body: "x"}, entry{name: `of\Windows.md`})
	link, requests := serve(t, data)
	root := filepath.Join(t.TempDir(), "skills")
	def := agent.SkillArchive{Name: "review", URL: link, Hash: hash(data)}
	dir, err := open(t, root)(t.Context(), def)
	require.NoError(t, err)
	require.Equal(t, "review", filepath.Base(dir), "a SKILL.md without a name has that of its directory")
	for name, mode := range map[string]fs.FileMode{"SKILL.md": 0o600, "scripts/run.sh": 0o700, "deep/er/notes.md": 0o600, "of/Windows.md": 0o600, ".": 0o700, "deep/er": 0o700} {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm(), name)
	}
	def.URL = "http://127.0.0.1:1/expired"
	again, err := open(t, root)(t.Context(), def)
	require.NoError(t, err)
	require.Equal(t, dir, again)
	require.EqualValues(t, 1, requests.Load())
}

func TestUnusedArchivesAreDeleted(t *testing.T) {
	data := pack(t, entry{name: "SKILL.md", body: "Review."})
	link, _ := serve(t, data)
	root := t.TempDir()
	def := agent.SkillArchive{Name: "review", URL: link, Hash: hash(data)}
	dir, err := open(t, root)(t.Context(), def)
	require.NoError(t, err)
	temporary := filepath.Join(root, ".new-1")
	require.NoError(t, os.Mkdir(temporary, 0o700))
	month, hours := time.Now().Add(-31*24*time.Hour), time.Now().Add(-2*time.Hour)
	require.NoError(t, os.Chtimes(filepath.Dir(dir), month, month))
	require.NoError(t, os.Chtimes(temporary, hours, hours))
	open(t, root)
	left, err := os.ReadDir(root)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestHostileArchivesAreRejected(t *testing.T) {
	many := make([]entry, skillzip.MaxEntries+1)
	for i := range many {
		many[i].name = fmt.Sprint(i)
	}
	zeros := strings.Repeat("\x00", 60<<20)
	for _, row := range []struct {
		name string
		data []byte
		want string
	}{
		{"not a zip archive", []byte("SKILL.md"), "not a valid zip file"},
		{"traversal", pack(t, entry{name: "../SKILL.md"}), "is outside of the archive"},
		{"traversal within", pack(t, entry{name: "a/../SKILL.md"}), "is outside of the archive"},
		{"absolute", pack(t, entry{name: "/etc/passwd"}), "has an absolute path"},
		{"traversal with backslashes", pack(t, entry{name: `a\..\SKILL.md`}), "is outside of the archive"},
		{"encrypted", encrypted(pack(t, entry{name: "SKILL.md"})), "is encrypted"},
		{"empty name", pack(t, entry{name: ""}), "must have a name"},
		{"another case", pack(t, entry{name: "a/b"}, entry{name: "A/c"}), "has the same name as"},
		{"depth", pack(t, entry{name: strings.Repeat("a/", skillzip.MaxDepth) + "b"}), "is in more than 31 directories"},
		{"long paths", pack(t, paths(2000, "%04d"+strings.Repeat("a", 128))...), "paths of the archive have more than 262144 bytes"},
		{"directories", pack(t, paths(1999, "%04d/b/c")...), "more than 2000 directories"},
		{"link", pack(t, entry{name: "link", body: "/etc", mode: fs.ModeSymlink}), "is a link"},
		{"device", pack(t, entry{name: "device", mode: fs.ModeDevice}), "is not a regular file"},
		{"repeated", pack(t, entry{name: "SKILL.md"}, entry{name: "SKILL.md"}), "exists twice"},
		{"a file as a directory", pack(t, entry{name: "a"}, entry{name: "a/b"}), "exists twice"},
		{"too many entries", pack(t, many...), "more than 2000"},
		{"too large unpacked", pack(t, entry{name: "a", body: zeros}, entry{name: "b", body: zeros}), "makes the content larger than 104857600 bytes"},
		{"too large", bytes.Repeat([]byte("x"), skillzip.MaxPacked+1), "larger than 20971520 bytes"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			link, _ := serve(t, row.data)
			root := t.TempDir()
			_, err := open(t, root)(t.Context(), agent.SkillArchive{Name: "review", URL: link, Hash: hash(row.data)})
			require.ErrorContains(t, err, row.want)
			require.NotContains(t, err.Error(), "signature")
			left, err := os.ReadDir(root)
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

// TestDirectoryIsBoundedInMemory loads an archive that is only a directory of empty records.
func TestDirectoryIsBoundedInMemory(t *testing.T) {
	const records = 440_000
	end := make([]byte, 22)
	copy(end, "PK\x05\x06")
	binary.LittleEndian.PutUint16(end[10:], records&(1<<16-1))
	binary.LittleEndian.PutUint32(end[12:], records*46)
	data := append(bytes.Repeat(append([]byte("PK\x01\x02"), make([]byte, 42)...), records), end...)
	require.Less(t, len(data), skillzip.MaxPacked)
	link, _ := serve(t, data)
	store := open(t, t.TempDir())
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := store(t.Context(), agent.SkillArchive{Name: "review", URL: link, Hash: hash(data)})
	runtime.ReadMemStats(&after)
	require.ErrorContains(t, err, "more than 2000")
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4<<20))
}

func TestLoadFailsWithAReason(t *testing.T) {
	data := pack(t, entry{name: "SKILL.md"})
	link, _ := serve(t, data)
	plain, _, _ := strings.Cut(link, "?")
	for _, row := range []struct {
		name string
		def  agent.SkillArchive
		want string
	}{
		{"another hash", agent.SkillArchive{Name: "a", URL: link, Hash: hash([]byte("x"))}, "the hash is " + hash(data)},
		{"no hash", agent.SkillArchive{Name: "a", URL: link}, "its hash is not"},
		{"a short hash", agent.SkillArchive{Name: "a", URL: link, Hash: "sha256:00"}, "its hash is not"},
		{"a status", agent.SkillArchive{Name: "a", URL: plain, Hash: hash(data)}, "get " + plain + ": status 403"},
		{"no server", agent.SkillArchive{Name: "a", URL: "http://127.0.0.1:1/a?signature=secret", Hash: hash(data)}, "connection refused"},
		{"another scheme", agent.SkillArchive{Name: "a", URL: "file:///etc/passwd", Hash: hash(data)}, "not an http or https address"},
		{"a path as name", agent.SkillArchive{Name: "../a", URL: link, Hash: hash(data)}, "its name"},
		{"the directory as name", agent.SkillArchive{Name: ".", URL: link, Hash: hash(data)}, "its name"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := open(t, t.TempDir())(t.Context(), row.def)
			require.ErrorContains(t, err, row.want)
			require.NotContains(t, err.Error(), "secret")
		})
	}
}

func FuzzArchive(f *testing.F) {
	f.Add(pack(f, entry{name: "SKILL.md", body: "Review."}, entry{name: "a/b", body: "x"}))
	f.Add(pack(f, entry{name: "../SKILL.md"}))
	f.Fuzz(func(t *testing.T, data []byte) {
		link, _ := serve(t, data)
		outer := t.TempDir()
		dir, err := open(t, filepath.Join(outer, "skills"))(t.Context(), agent.SkillArchive{Name: "a", URL: link, Hash: hash(data)})
		entries, readErr := os.ReadDir(outer)
		require.NoError(t, readErr)
		require.Len(t, entries, 1, "nothing is written outside")
		if err == nil {
			require.DirExists(t, dir)
		}
	})
}
