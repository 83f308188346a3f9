//go:build darwin || linux

package session_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/session"
)

func TestFilesArePrivate(t *testing.T) {
	umask := syscall.Umask(0)
	defer syscall.Umask(umask)
	dir := filepath.Join(t.TempDir(), "a", "state")
	store := newFiles(t, session.FilesConfig{Dir: dir})
	createSession(t, store, "one")
	s := open(t, store, "a", "") // most often in the same folder
	appendText(t, s, strings.Repeat("x", 17<<20))
	compact(t, s, "summary") // in a new file
	require.NoError(t, s.Close())
	createSession(t, store, "three")
	n := 0
	require.NoError(t, filepath.WalkDir(filepath.Dir(dir), func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := d.Info()
		require.NoError(t, err)
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		require.Equal(t, want, info.Mode().Perm(), path)
		n++
		return nil
	}))
	require.GreaterOrEqual(t, n, 9)
}

func TestLinksAreRejected(t *testing.T) {
	outside := t.TempDir()
	for name, plant := range map[string]func(t *testing.T, file string) error{
		"a file": func(t *testing.T, file string) error {
			t.Helper()
			require.NoError(t, os.Rename(file, filepath.Join(outside, "x.jsonl")))
			return os.Symlink(filepath.Join(outside, "x.jsonl"), file)
		},
		"a file, by a relative link": func(t *testing.T, file string) error {
			t.Helper()
			require.NoError(t, os.Rename(file, filepath.Join(outside, "y.jsonl")))
			rel, err := filepath.Rel(filepath.Dir(file), filepath.Join(outside, "y.jsonl"))
			require.NoError(t, err)
			return os.Symlink(rel, file)
		},
		"another file inside": func(t *testing.T, file string) error {
			t.Helper()
			require.NoError(t, os.Rename(file, file+".other"))
			return os.Symlink(filepath.Base(file)+".other", file)
		},
		"a directory": func(t *testing.T, file string) error {
			t.Helper()
			require.NoError(t, os.Rename(filepath.Dir(file), filepath.Join(outside, "a")))
			return os.Symlink(filepath.Join(outside, "a"), filepath.Dir(file))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			store := newFiles(t, session.FilesConfig{Dir: dir})
			id := createSession(t, store, "one")
			file := transcriptPath(t, dir, id)
			require.NoError(t, plant(t, file))
			require.Contains(t, readFile(t, file), "one", "the link can be followed")
			_, err := store.Open(t.Context(), "a", id)
			require.ErrorContains(t, err, "open session "+id)
		})
	}
}

func TestFilesDoNotBlockOnAFIFO(t *testing.T) {
	dir := t.TempDir()
	store := newFiles(t, session.FilesConfig{Dir: dir})
	id := createSession(t, store, "one")
	file := transcriptPath(t, dir, id)
	require.NoError(t, os.Remove(file))
	require.NoError(t, syscall.Mkfifo(file, 0o600))
	_, err := store.Open(t.Context(), "a", id)
	require.ErrorIs(t, err, session.ErrDamaged)
}

func TestAFullDisk(t *testing.T) {
	dir, cwd := t.TempDir(), t.TempDir()
	store := newFiles(t, session.FilesConfig{Dir: dir, CWD: cwd})
	id := createSession(t, store, "one")
	p := startChild(t, "fill", dir, cwd, id)
	require.Equal(t, "done", p.readLine(t))
	for name, want := range map[string][]string{id: {"one", "two", "three"}, p.readLine(t): {"first"}} {
		s := open(t, store, "a", name)
		require.True(t, s.Resumed())
		require.Equal(t, want, texts(s))
		require.NoError(t, s.Close())
	}
}

// fillDisk limits the size of files, so that writes fail half way as on a full disk.
func fillDisk(store *session.Files, s session.Session) error {
	ctx, long := context.Background(), model.UserText(strings.Repeat("x", 2<<20))
	if err := s.Append(ctx, model.UserText("two")); err != nil {
		return err
	}
	for _, limit := range []uint64{0, 200, 1000, 10_000, 1_000_000} {
		if err := checkRejected(s, limit, long); err != nil {
			return err
		}
	}
	if err := errors.Join(s.Append(ctx, model.UserText("three")), s.Close()); err != nil {
		return err
	}
	first, err := store.Open(ctx, "a", "")
	if err != nil {
		return err
	}
	for _, limit := range []uint64{0, 10, 100, 1000} {
		if err := checkRejected(first, limit, long); err != nil {
			return err
		}
	}
	left, err := filepath.Glob(filepath.Join(os.Getenv("SESSION_TEST_DIR"), "sessions", "*", "a", "*", first.ID()+"*"))
	if err != nil || len(left) > 0 {
		return fmt.Errorf("unexpected files: %q, %w", left, err)
	}
	if err := errors.Join(first.Append(ctx, model.UserText("first")), first.Close()); err != nil {
		return err
	}
	fmt.Println("done")
	fmt.Println(first.ID())
	return nil
}

// checkRejected returns an error unless Append and Compact fail and leave the session unchanged
// when files are limited to this size.
func checkRejected(s session.Session, limit uint64, m model.Message) error {
	var original syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &original); err != nil {
		return err
	}
	before := len(s.Messages())
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: original.Max}); err != nil {
		return err
	}
	err := s.Append(context.Background(), m)
	if err2 := s.Compact(context.Background(), []model.Message{m}); !errors.Is(err2, syscall.EFBIG) {
		return fmt.Errorf("files of at most %d bytes: compaction: %w", limit, err2)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &original); err != nil {
		return err
	}
	if !errors.Is(err, syscall.EFBIG) || len(s.Messages()) != before {
		return fmt.Errorf("files of at most %d bytes: %d messages, %w", limit, len(s.Messages()), err)
	}
	all, err := filepath.Glob(filepath.Join(os.Getenv("SESSION_TEST_DIR"), "sessions", "*", "a", "*", s.ID()+".jsonl"))
	for _, name := range all {
		var b []byte
		if b, err = os.ReadFile(name); err == nil && bytes.Count(b, []byte{'\n'}) != before+1 || !bytes.HasSuffix(b, []byte{'\n'}) {
			err = fmt.Errorf("files of at most %d bytes: part of a message is left", limit)
		}
	}
	return err
}
