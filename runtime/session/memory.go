package session

import (
	"cmp"
	"container/list"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/runtime/model"
)

// MemoryConfig of a [Memory] store. Its zero value is ready for use.
type MemoryConfig struct {
	// TTL is how long a session is kept after its last use. Defaults to 720 h.
	TTL time.Duration
	// MaxBytes bounds the text that all sessions hold together; the ones that were not used
	// for the longest time go first, those in use never. Defaults to 256 MiB.
	MaxBytes int64
}

// Memory is a Store that lives as long as the process.
type Memory struct {
	cfg MemoryConfig

	mu       sync.Mutex // guards all below, and busy and used of every session
	sessions map[key]*stored
	idle     *list.List // *stored that nobody holds, the one used last in front
	bytes    int64
}

type key struct{ agent, id string }

type stored struct {
	key      key
	messages []model.Message
	bytes    int64
	used     time.Time
	place    *list.Element // in Memory.idle, nil while a run holds it
}

var _ Store = (*Memory)(nil)

// overhead is what a session is counted for beside its text: its place in map and list.
const overhead = 512

// NewMemory makes an empty store.
func NewMemory(cfg MemoryConfig) *Memory {
	cfg.TTL = cmp.Or(cfg.TTL, 720*time.Hour)
	cfg.MaxBytes = cmp.Or(cfg.MaxBytes, 256<<20)
	return &Memory{cfg: cfg, sessions: map[key]*stored{}, idle: list.New()}
}

// Open implements [Store].
func (m *Memory) Open(_ context.Context, agentID, id string) (Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweep()
	if s, ok := m.sessions[key{agentID, id}]; ok && id != "" {
		if s.place == nil {
			return nil, ErrBusy
		}
		m.idle.Remove(s.place)
		s.place = nil
		return &held{store: m, s: s, resumed: true}, nil
	}
	s := &stored{key: key{agentID, ids.New()}, bytes: overhead}
	m.sessions[s.key] = s
	m.bytes += s.bytes
	return &held{store: m, s: s}, nil
}

// sweep lets go of what is too old or too much. The caller holds mu.
func (m *Memory) sweep() {
	for e := m.idle.Back(); e != nil; e = m.idle.Back() {
		s := e.Value.(*stored)
		if m.bytes <= m.cfg.MaxBytes && time.Since(s.used) < m.cfg.TTL {
			return
		}
		m.idle.Remove(e)
		delete(m.sessions, s.key)
		m.bytes -= s.bytes
	}
}

// held is a session in the hands of a run.
type held struct {
	store   *Memory
	s       *stored
	resumed bool
}

func (h *held) ID() string    { return h.s.key.id }
func (h *held) Resumed() bool { return h.resumed }

func (h *held) Messages() []model.Message { return slices.Clip(h.s.messages) }

func (h *held) Append(_ context.Context, msg model.Message) error {
	h.s.messages = append(h.s.messages, msg)
	h.count(sizeOf(&msg))
	return nil
}

func (h *held) Compact(_ context.Context, messages []model.Message) error {
	size := int64(overhead)
	for i := range messages {
		size += sizeOf(&messages[i])
	}
	h.s.messages = slices.Clone(messages)
	h.count(size - h.s.bytes)
	return nil
}

// count adds to what the session is counted for.
func (h *held) count(bytes int64) {
	h.store.mu.Lock()
	defer h.store.mu.Unlock()
	h.s.bytes += bytes
	h.store.bytes += bytes
}

func sizeOf(m *model.Message) int64 {
	size := int64(0)
	for i := range m.Content {
		b := &m.Content[i]
		size += int64(len(b.Text)+len(b.Signature)+len(b.Data)+len(b.ID)+len(b.Name)+len(b.Input)+len(b.BadInput)) + overhead
	}
	return size
}

// Close puts the session back. A session in which nothing was said is not kept.
func (h *held) Close() error {
	m := h.store
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(h.s.messages) == 0 {
		delete(m.sessions, h.s.key)
		m.bytes -= h.s.bytes
		return nil
	}
	h.s.used = time.Now()
	h.s.place = m.idle.PushFront(h.s)
	m.sweep()
	return nil
}
