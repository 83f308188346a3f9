package upload_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed93082962/agenthost/runtime/internal/upload"
)

// TestMain runs the child processes of tests.
func TestMain(m *testing.M) {
	if dir := os.Getenv("UPLOAD_TEST_DIR"); dir != "" {
		if err := runChild(os.Getenv("UPLOAD_TEST_CHILD"), dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func open(t *testing.T, dir string, most int64) *upload.Store {
	t.Helper()
	s, err := upload.New(upload.Config{Dir: dir, MaxBytes: most, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func free(int) error { return nil }

var png = upload.File{Name: "photo.png", MediaType: "image/png"}

// requireFile requires that a store has a file with these bytes.
func requireFile(t *testing.T, s *upload.Store, id string, want upload.File, data string) {
	t.Helper()
	f, got, err := s.Open(id, free)
	require.NoError(t, err)
	require.Equal(t, want, f)
	require.Equal(t, data, string(got))
}

func requireUnknown(t *testing.T, s *upload.Store, id string) {
	t.Helper()
	_, _, err := s.Open(id, free)
	require.ErrorIs(t, err, upload.ErrUnknown)
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func setAge(t *testing.T, path string, age time.Duration) {
	t.Helper()
	at := time.Now().Add(-age)
	require.NoError(t, os.Chtimes(path, at, at))
}

// A file is stored once, also if it is sent again, and survives a restart.
func TestTheSameFileIsStoredOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state", "uploads")
	s := open(t, dir, 1<<20)
	first, err := s.Put(png, []byte("bytes"))
	require.NoError(t, err)
	sum := sha256.Sum256([]byte("bytes"))
	require.Equal(t, hex.EncodeToString(sum[:]), first.SHA256)
	require.Equal(t, 5, first.Size)
	setAge(t, filepath.Join(dir, first.ID), upload.TTL-time.Minute)
	second, err := s.Put(png, []byte("bytes"))
	require.NoError(t, err)
	require.Equal(t, first, second)
	require.Equal(t, []string{first.ID}, names(t, dir))
	info, err := os.Stat(filepath.Join(dir, first.ID))
	require.NoError(t, err)
	require.Less(t, time.Since(info.ModTime()), time.Hour, "its time begins again")
	require.EqualValues(t, 0o600, info.Mode().Perm())

	other := png
	other.Name = "other.png"
	third, err := s.Put(other, []byte("bytes"))
	require.NoError(t, err)
	require.NotEqual(t, first.ID, third.ID, "a name is that of its sender")
	require.Equal(t, first.SHA256, third.SHA256)
	require.NoError(t, s.Close())
	again := open(t, dir, 1<<20)
	requireFile(t, again, first.ID, png, "bytes")
	requireFile(t, again, third.ID, other, "bytes")
}

func TestUnknownUploads(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, 1<<20)
	up, err := s.Put(png, []byte("bytes"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "secret"), []byte("{}\n"), 0o600))
	for _, id := range []string{"", "x", "secret", "../secret", strings.ToUpper(up.ID), up.ID[1:], strings.Repeat("0", 64), up.ID + "\n"} {
		requireUnknown(t, s, id)
	}
	private := open(t, "", 1<<20)
	requireUnknown(t, private, up.ID)
}

// Memory is reserved before the bytes are read.
func TestMemoryOfAnUpload(t *testing.T) {
	s := open(t, t.TempDir(), 1<<20)
	up, err := s.Put(png, make([]byte, 1000))
	require.NoError(t, err)
	full := errors.New("full")
	_, data, err := s.Open(up.ID, func(n int) error {
		require.Greater(t, n, 1000)
		return full
	})
	require.ErrorIs(t, err, full)
	require.Nil(t, data)
}

func TestExpiredUploads(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, 1<<20)
	put := func(text string) string {
		up, err := s.Put(png, []byte(text))
		require.NoError(t, err)
		return up.ID
	}
	fresh, expired, old := put("fresh"), put("expired"), put("old")
	setAge(t, filepath.Join(dir, expired), upload.TTL)
	setAge(t, filepath.Join(dir, old), upload.TTL+2*time.Hour)
	for name, age := range map[string]time.Duration{"new.part": 0, "old.part": 2 * time.Hour} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600))
		setAge(t, filepath.Join(dir, name), age)
	}
	requireFile(t, s, fresh, png, "fresh")
	requireUnknown(t, s, expired)
	requireUnknown(t, s, old)
	require.NoError(t, s.Close())
	s = open(t, dir, 1<<20)
	require.Eventually(t, func() bool { return len(names(t, dir)) == 3 }, time.Minute, time.Millisecond)
	require.ElementsMatch(t, []string{fresh, expired, "new.part"}, names(t, dir))
	require.Equal(t, expired, put("expired"))
	requireFile(t, s, expired, png, "expired")
}

// The files together are bounded. Expired ones do not count.
func TestUploadsAreBounded(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, 3000)
	first, err := s.Put(png, make([]byte, 1400))
	require.NoError(t, err)
	_, err = s.Put(png, make([]byte, 1401))
	require.NoError(t, err)
	_, err = s.Put(png, make([]byte, 1402))
	require.ErrorIs(t, err, upload.ErrFull)
	_, err = s.Put(png, make([]byte, 1400))
	require.NoError(t, err, "it is stored")
	require.Len(t, names(t, dir), 2)
	setAge(t, filepath.Join(dir, first.ID), upload.TTL+2*time.Hour)
	_, err = s.Put(png, make([]byte, 1402))
	require.NoError(t, err)
	require.Len(t, names(t, dir), 2)

	many := t.TempDir()
	for i := range upload.MaxFiles {
		require.NoError(t, os.WriteFile(filepath.Join(many, fmt.Sprintf("%064x", i)), nil, 0o600))
	}
	s = open(t, many, 1<<30)
	_, err = s.Put(png, []byte("one more"))
	require.ErrorIs(t, err, upload.ErrFull)
	require.NoError(t, os.Remove(filepath.Join(many, fmt.Sprintf("%064x", 7))))
	_, err = s.Put(png, []byte("one more"))
	require.NoError(t, err)
}

// A damaged file is unknown, and can be sent again.
func TestDamagedUploads(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, 1<<20)
	up, err := s.Put(png, []byte("bytes"))
	require.NoError(t, err)
	path := filepath.Join(dir, up.ID)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, damaged := range []string{"", strings.Replace(string(data), "bytes", "bytez", 1), "\n" + string(data)} {
		require.NoError(t, os.WriteFile(path, []byte(damaged), 0o600))
		requireUnknown(t, s, up.ID)
		again, err := s.Put(png, []byte("bytes"))
		require.NoError(t, err)
		require.Equal(t, up, again)
		requireFile(t, s, up.ID, png, "bytes")
	}
}

// A store without a directory has a private one, which is created late and removed.
func TestPrivateUploads(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	s := open(t, "", 1<<20)
	require.Empty(t, names(t, temp))
	up, err := s.Put(png, []byte("bytes"))
	require.NoError(t, err)
	requireFile(t, s, up.ID, png, "bytes")
	require.Len(t, names(t, temp), 1)
	require.NoError(t, s.Close())
	require.Empty(t, names(t, temp))
}

func TestLinksAreNotFollowed(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	s := open(t, dir, 1<<20)
	up, err := s.Put(png, []byte("bytes"))
	require.NoError(t, err)
	require.NoError(t, os.Rename(filepath.Join(dir, up.ID), filepath.Join(outside, up.ID)))
	require.NoError(t, os.Symlink(filepath.Join(outside, up.ID), filepath.Join(dir, up.ID)))
	_, data, err := s.Open(up.ID, free)
	require.Error(t, err)
	require.Nil(t, data)
}
