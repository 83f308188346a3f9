package session_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/session"
)

// messageCount messages of about 1 KB make a session.
const messageCount = 1000

var benchMessage = model.UserText(strings.Repeat("words and words\n", 60))

// BenchmarkAppend compares a run of 1,000 messages with a json.Encoder on a file.
func BenchmarkAppend(b *testing.B) {
	b.Run("files", func(b *testing.B) { benchAppend(b, newFiles(b, session.FilesConfig{})) })
	b.Run("memory", func(b *testing.B) { benchAppend(b, session.NewMemory(session.MemoryConfig{})) })
	b.Run("plain", func(b *testing.B) {
		dir := b.TempDir()
		b.ReportAllocs()
		for b.Loop() {
			f, err := os.CreateTemp(dir, "")
			require.NoError(b, err)
			e := json.NewEncoder(f)
			for range messageCount {
				if err := e.Encode(&benchMessage); err != nil {
					b.Fatal(err)
				}
			}
			require.NoError(b, f.Sync())
			require.NoError(b, f.Close())
		}
	})
}

func benchAppend(b *testing.B, store session.Store) {
	b.Helper()
	b.ReportAllocs()
	for b.Loop() {
		storeMessages(b, store)
	}
}

func storeMessages(b *testing.B, store session.Store) (id string) {
	b.Helper()
	s, err := store.Open(b.Context(), "a", "")
	require.NoError(b, err)
	for range messageCount {
		if err := s.Append(b.Context(), benchMessage); err != nil {
			b.Fatal(err)
		}
	}
	require.NoError(b, s.Close())
	return s.ID()
}

// BenchmarkOpen compares opening a session of 1,000 messages with a json.Decoder on the file.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	store := newFiles(b, session.FilesConfig{Dir: dir})
	id := storeMessages(b, store)
	b.Run("files", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s, err := store.Open(b.Context(), "a", id)
			require.NoError(b, err)
			require.Len(b, s.Messages(), messageCount)
			require.NoError(b, s.Close())
		}
	})
	b.Run("plain", func(b *testing.B) {
		found, err := filepath.Glob(filepath.Join(dir, "sessions", "*", "a", "*", id+".jsonl"))
		require.NoError(b, err)
		b.ReportAllocs()
		for b.Loop() {
			f, err := os.Open(found[0])
			require.NoError(b, err)
			d := json.NewDecoder(bufio.NewReader(f))
			var header any
			require.NoError(b, d.Decode(&header))
			var all []model.Message
			for d.More() {
				var m model.Message
				if err := d.Decode(&m); err != nil {
					b.Fatal(err)
				}
				all = append(all, m)
			}
			require.Len(b, all, messageCount)
			require.NoError(b, f.Close())
		}
	})
}

// BenchmarkFirstRun measures the first run of a session: open, two messages, and close with a sync.
func BenchmarkFirstRun(b *testing.B) {
	for name, store := range map[string]session.Store{
		"files":  newFiles(b, session.FilesConfig{}),
		"memory": session.NewMemory(session.MemoryConfig{}),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s, err := store.Open(b.Context(), "a", "")
				require.NoError(b, err)
				require.NoError(b, s.Append(b.Context(), benchMessage))
				require.NoError(b, s.Append(b.Context(), benchMessage))
				require.NoError(b, s.Close())
			}
		})
	}
}

// BenchmarkCloseTogether closes 256 sessions with new messages at once, as after 256 cancels. It
// compares the store with the disk alone: as many new files of this size, synced by goroutines of
// which 32 do so at a time, without their folder.
func BenchmarkCloseTogether(b *testing.B) {
	const together = 256
	measure := func(b *testing.B, open func() (closeFile func() error)) {
		b.Helper()
		var slowest, median []float64
		for b.Loop() {
			b.StopTimer()
			closers := make([]func() error, together)
			for i := range closers {
				closers[i] = open()
			}
			took := make([]float64, together)
			b.StartTimer()
			var closing sync.WaitGroup
			began := time.Now()
			for i, c := range closers {
				closing.Go(func() {
					assertNoError(b, c())
					took[i] = float64(time.Since(began).Microseconds()) / 1000
				})
			}
			closing.Wait()
			slices.Sort(took)
			slowest, median = append(slowest, took[together*99/100]), append(median, took[together/2])
		}
		slices.Sort(slowest)
		slices.Sort(median)
		b.ReportMetric(slowest[len(slowest)/2], "ms-p99")
		b.ReportMetric(median[len(median)/2], "ms-p50")
	}
	b.Run("files", func(b *testing.B) {
		store := newFiles(b, session.FilesConfig{})
		measure(b, func() func() error {
			s, err := store.Open(b.Context(), "a", "")
			require.NoError(b, err)
			require.NoError(b, s.Append(b.Context(), benchMessage))
			return s.Close
		})
	})
	b.Run("disk", func(b *testing.B) {
		dir, slots := b.TempDir(), make(chan struct{}, 32)
		measure(b, func() func() error {
			file, err := os.CreateTemp(dir, "")
			require.NoError(b, err)
			require.NoError(b, json.NewEncoder(file).Encode(&benchMessage))
			return func() error {
				slots <- struct{}{}
				defer func() { <-slots }()
				return errors.Join(file.Sync(), file.Close())
			}
		})
	})
}
