// Package artifacttest has the tests that every driver of artifacts passes.
//
//	func TestFolder(t *testing.T) {
//		artifacttest.Run(t, func(t *testing.T) blob.Driver { ... })
//	}
package blobtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/blob"
)

// Run runs the suite. open returns a driver without blobs for each test.
func Run(t *testing.T, open func(t *testing.T) blob.Driver) {
	t.Helper()
	for name, test := range map[string]func(s *suite){
		"Put":                   (*suite).put,
		"Names":                 (*suite).names,
		"Sizes":                 (*suite).sizes,
		"Missing":               (*suite).missing,
		"PutAgain":              (*suite).putAgain,
		"PutFails":              (*suite).putFails,
		"Cancelled":             (*suite).cancelled,
		"Delete":                (*suite).deletes,
		"List":                  (*suite).list,
		"ReadersSeeWholeBlobs":  (*suite).readersSeeWholeBlobs,
		"DeleteDuringPut":       (*suite).deleteDuringPut,
		"DeleteOfTheLastInPath": (*suite).deleteOfTheLastInPath,
	} {
		t.Run(name, func(t *testing.T) { test(&suite{t, open(t)}) })
	}
}

type suite struct {
	*testing.T
	blob.Driver
}

// Key returns a key whose hash consists of one digit.
func Key(digit, name string) string { return "tools/" + strings.Repeat(digit, 64) + "/" + name }

// Content returns size bytes that differ from position to position.
func Content(size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(i*i>>8 ^ i)
	}

	return b
}

func (s *suite) store(key string, content []byte) {
	s.Helper()
	require.NoError(s, s.Put(s.Context(), key, bytes.NewReader(content), int64(len(content))))
}

func (s *suite) read(key string) []byte {
	s.Helper()
	b, err := s.Open(s.Context(), key)
	require.NoError(s, err)
	content, err := io.ReadAll(b.Content)
	require.NoError(s, err)
	require.NoError(s, b.Close())
	require.Equal(s, key, b.Key)
	require.Len(s, content, int(b.Size))
	return content
}

func (s *suite) keys(prefix string) (keys []string) {
	s.Helper()
	for info, err := range s.List(s.Context(), prefix) {
		require.NoError(s, err)
		keys = append(keys, info.Key)
	}

	slices.Sort(keys)
	return keys
}

func (s *suite) put() {
	key, content := Key("a", "weather.ts"), Content(300_000)
	before := time.Now().Add(-2 * time.Second) // stores have times in seconds
	s.store(key, content)
	require.Equal(s, content, s.read(key))
	info, err := s.Stat(s.Context(), key)
	require.NoError(s, err)
	require.Equal(s, key, info.Key)
	require.EqualValues(s, len(content), info.Size)
	require.WithinRange(s, info.Modified, before, time.Now().Add(2*time.Second))

	b, err := s.Open(s.Context(), key)
	require.NoError(s, err)
	require.WithinDuration(s, info.Modified, b.Modified, time.Second)
	require.NoError(s, iotest.TestReader(b.Content, content))
	require.NoError(s, b.Close())
}

func (s *suite) names() {
	for i, name := range []string{"a.ts", "Wetter heute.mjs", "天气.zip", "100%.ts", "a+b&c=d#e;f.js", "it's~(1)!.ts", "e\u0301.ts", "é.ts", "%2F..%2F.ts", strings.Repeat("n", 200)} {
		key := Key("b", name)
		s.store(key, []byte{byte(i)})
		require.Equal(s, []byte{byte(i)}, s.read(key), name)
		require.Contains(s, s.keys("tools/"), key)
	}

	require.Len(s, s.keys("tools/"), 10)
}

func (s *suite) sizes() {
	for _, size := range []int{0, 1, 4095, 4096, 4097, 1 << 20} {
		key := Key("c", fmt.Sprint(size))
		s.store(key, Content(size))
		require.Equal(s, Content(size), s.read(key))
	}
}

func (s *suite) missing() {
	s.store(Key("a", "a.ts"), []byte("x"))
	for _, key := range []string{Key("a", "b.ts"), Key("b", "a.ts"), Key("a", "a.ts/more"), "tools/" + strings.Repeat("a", 64), "tools"} {
		_, err := s.Open(s.Context(), key)
		require.ErrorIs(s, err, blob.ErrNotExist, key)
		_, err = s.Stat(s.Context(), key)
		require.ErrorIs(s, err, blob.ErrNotExist, key)
	}

	require.NoError(s, s.Delete(s.Context(), Key("b", "a.ts"), time.Now().Add(time.Hour)))
	require.Equal(s, []byte("x"), s.read(Key("a", "a.ts")))
}

func (s *suite) putAgain() {
	key := Key("a", "a.ts")
	s.store(key, []byte("first"))
	s.store(key, []byte("the second"))
	require.Equal(s, []byte("the second"), s.read(key))
	require.Equal(s, []string{key}, s.keys(""))
}

func (s *suite) putFails() {
	key := Key("a", "a.ts")
	broken := errors.New("broken")
	for name, content := range map[string]io.ReadSeeker{
		"too short":       bytes.NewReader(make([]byte, 99_999)),
		"fails":           &failing{bytes.NewReader(make([]byte, 100_000)), 70_000, broken},
		"fails at once":   &failing{bytes.NewReader(make([]byte, 100_000)), 0, broken},
		"fails when read": &failing{bytes.NewReader(make([]byte, 100_000)), 99_999, broken},
	} {
		require.Error(s, s.Put(s.Context(), key, content, 100_000), name)
		_, err := s.Stat(s.Context(), key)
		require.ErrorIs(s, err, blob.ErrNotExist, name)
		require.Empty(s, s.keys(""), name)
	}

	s.store(key, []byte("before"))
	require.Error(s, s.Put(s.Context(), key, &failing{bytes.NewReader(make([]byte, 100_000)), 70_000, broken}, 100_000))
	require.Equal(s, []byte("before"), s.read(key))
}

// failing fails after a number of bytes.
type failing struct {
	*bytes.Reader
	after int64
	err   error
}

func (f *failing) Read(p []byte) (int, error) {
	at := f.Size() - int64(f.Len())
	if at >= f.after {
		return 0, f.err
	}

	return f.Reader.Read(p[:min(int64(len(p)), f.after-at)])
}

// WriteTo hides that of bytes.Reader.
func (f *failing) WriteTo(w io.Writer) (int64, error) { return io.Copy(w, struct{ io.Reader }{f}) }

func (s *suite) cancelled() {
	key := Key("a", "a.ts")
	s.store(key, []byte("x"))
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	require.ErrorIs(s, s.Put(ctx, Key("b", "a.ts"), strings.NewReader("x"), 1), context.Canceled)
	_, err := s.Open(ctx, key)
	require.ErrorIs(s, err, context.Canceled)
	_, err = s.Stat(ctx, key)
	require.ErrorIs(s, err, context.Canceled)
	require.ErrorIs(s, s.Delete(ctx, key, time.Now().Add(time.Hour)), context.Canceled)
	for _, err = range s.List(ctx, "") {
		break
	}

	require.ErrorIs(s, err, context.Canceled)
	require.Equal(s, []string{key}, s.keys(""))
}

func (s *suite) deletes() {
	key, other := Key("a", "a.ts"), Key("a", "b.ts")
	s.store(key, []byte("x"))
	s.store(other, []byte("y"))
	info, err := s.Stat(s.Context(), key)
	require.NoError(s, err)
	require.NoError(s, s.Delete(s.Context(), key, info.Modified))
	require.NoError(s, s.Delete(s.Context(), key, time.Time{}))
	require.Equal(s, []byte("x"), s.read(key), "it was not modified before that time")
	require.NoError(s, s.Delete(s.Context(), key, info.Modified.Add(time.Microsecond)))
	_, err = s.Stat(s.Context(), key)
	require.ErrorIs(s, err, blob.ErrNotExist)
	require.Equal(s, []string{other}, s.keys(""))
	require.Equal(s, []byte("y"), s.read(other))
	s.store(key, []byte("z"))
	require.Equal(s, []byte("z"), s.read(key))
}

func (s *suite) list() {
	require.Empty(s, s.keys(""))
	var tools []string
	for digit := range strings.SplitSeq("0123456789abcdef", "") {
		tools = append(tools, Key(digit, "a.ts"), Key(digit, "b.ts"))
	}

	for _, key := range tools {
		s.store(key, []byte(key))
	}

	skill := "skills" + strings.TrimPrefix(Key("a", "c.zip"), "tools")
	s.store(skill, []byte("skill"))
	require.Equal(s, tools, s.keys("tools/"))
	require.Equal(s, []string{skill}, s.keys("skills/"))
	require.Len(s, s.keys(""), 33)
	require.Equal(s, tools[20:22], s.keys(Key("a", "")))
	require.Equal(s, tools[20:21], s.keys(Key("a", "a")))
	require.Empty(s, s.keys("tool/"))
	require.Empty(s, s.keys("nothing"))
	for info, err := range s.List(s.Context(), "skills/") {
		require.NoError(s, err)
		want, err := s.Stat(s.Context(), skill)
		require.NoError(s, err)
		require.Equal(s, want.Size, info.Size)
		require.WithinDuration(s, want.Modified, info.Modified, time.Second)
		break // the caller may stop
	}
}

func (s *suite) readersSeeWholeBlobs() {
	key := Key("a", "a.ts")
	content := [][]byte{bytes.Repeat([]byte("a"), 200_000), bytes.Repeat([]byte("b"), 200_000)}
	s.store(key, content[0])
	done := make(chan struct{})
	var all, writers sync.WaitGroup
	for _, c := range content {
		writers.Go(func() {
			for range 10 {
				if err := s.Put(s.Context(), key, bytes.NewReader(c), int64(len(c))); err != nil {
					s.Errorf("put: %v", err)
				}
			}
		})
	}

	for range 2 {
		all.Go(func() {
			for {
				b, err := s.Open(s.Context(), key)
				if err != nil {
					s.Errorf("open: %v", err)
					return
				}

				got, err := io.ReadAll(b.Content)
				_ = b.Close()
				if err != nil || !bytes.Equal(got, content[0]) && !bytes.Equal(got, content[1]) {
					s.Errorf("%d bytes, %v", len(got), err)
				}

				select {
				case <-done:
					return
				default:
				}
			}
		})
	}

	writers.Wait()
	close(done)
	all.Wait()
	require.Equal(s, []string{key}, s.keys(""))
}

// deleteDuringPut deletes an old blob while its content is put again: it must not be lost.
func (s *suite) deleteDuringPut() {
	key := Key("a", "a.ts")
	s.store(key, []byte("old"))
	var all sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}

				if err := s.Delete(s.Context(), key, time.Now().Add(-time.Hour)); err != nil {
					s.Errorf("delete: %v", err)
				}
			}
		})
	}

	for range 20 {
		s.store(key, []byte("new"))
		require.Equal(s, []byte("new"), s.read(key))
	}

	close(stop)
	all.Wait()
	require.Equal(s, []byte("new"), s.read(key))
}

// deleteOfTheLastInPath deletes and puts blobs that share a path of which no other blob exists.
func (s *suite) deleteOfTheLastInPath() {
	var all sync.WaitGroup
	for _, name := range []string{"a.ts", "b.ts", "c.ts"} {
		all.Go(func() {
			for range 20 {
				key := Key("a", name)
				if err := s.Put(s.Context(), key, strings.NewReader(name), int64(len(name))); err != nil {
					s.Errorf("put: %v", err)
				}

				if err := s.Delete(s.Context(), key, time.Now().Add(time.Hour)); err != nil {
					s.Errorf("delete: %v", err)
				}
			}
		})
	}

	all.Wait()
	require.Empty(s, s.keys(""))
}
