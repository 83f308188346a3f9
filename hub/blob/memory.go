package blob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Memory contains blobs in memory. The zero value is ready for use.
type Memory struct {
	mu    sync.RWMutex // guards blobs
	blobs map[string]memoryBlob
}

type memoryBlob struct {
	content  []byte // never changed
	modified time.Time
}

func (b memoryBlob) info(key string) Info { return Info{key, int64(len(b.content)), b.modified} }

// Put implements [Driver].
func (m *Memory) Put(ctx context.Context, key string, content io.ReadSeeker, size int64) error {
	data := make([]byte, size)
	if _, err := io.ReadFull(content, data); err != nil {
		return fmt.Errorf("read content: %w", err)
	}

	if err := ctx.Err(); err != nil {
		return err
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	if m.blobs == nil {
		m.blobs = map[string]memoryBlob{}
	}

	m.blobs[key] = memoryBlob{data, time.Now()}
	return nil
}

func (m *Memory) find(ctx context.Context, key string) (memoryBlob, error) {
	if err := ctx.Err(); err != nil {
		return memoryBlob{}, err
	}

	m.mu.RLock()
	defer m.mu.RUnlock()
	b, ok := m.blobs[key]
	if !ok {
		return b, fmt.Errorf("find %s: %w", key, ErrNotExist)
	}

	return b, nil
}

// Open implements [Driver].
func (m *Memory) Open(ctx context.Context, key string) (*Blob, error) {
	b, err := m.find(ctx, key)
	if err != nil {
		return nil, err
	}

	return &Blob{b.info(key), nopCloser{bytes.NewReader(b.content)}}, nil
}

type nopCloser struct{ io.ReadSeeker }

func (nopCloser) Close() error { return nil }

// Stat implements [Driver].
func (m *Memory) Stat(ctx context.Context, key string) (Info, error) {
	b, err := m.find(ctx, key)
	if err != nil {
		return Info{}, err
	}

	return b.info(key), nil
}

// Delete implements [Driver].
func (m *Memory) Delete(ctx context.Context, key string, unmodifiedSince time.Time) error {
	if err := ctx.Err(); err != nil {
		return err
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	if m.blobs[key].modified.Before(unmodifiedSince) {
		delete(m.blobs, key)
	}

	return nil
}

// List implements [Driver].
func (m *Memory) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		m.mu.RLock()
		keys := slices.Collect(maps.Keys(m.blobs))
		m.mu.RUnlock()
		for _, key := range keys {
			if !strings.HasPrefix(key, prefix) {
				continue
			}

			info, err := m.Stat(ctx, key)
			if errors.Is(err, ErrNotExist) { // it was deleted since
				continue
			}

			if !yield(info, err) || err != nil {
				return
			}
		}
	}
}

// Link implements [Driver].
func (m *Memory) Link(context.Context, string, time.Time) (string, error) {
	return "", errors.ErrUnsupported
}
