package session

import (
	"bytes"
	"cmp"
	"container/list"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/runtime/model"
)

// MemoryConfig configures a [NewMemory] store. Its zero value is ready for use.
type MemoryConfig struct {
	// TTL is the time for which a session is stored after its last use. Defaults to 720 h.
	TTL time.Duration
	// MaxBytes limits the text of all sessions together. The least recently used sessions are
	// evicted first, open sessions never. Defaults to 256 MiB.
	MaxBytes int64
}

// memory is a Store in the memory of the process.
type memory struct {
	cfg MemoryConfig

	mu       sync.Mutex              // guards all fields below, and those of every entry; its run alone changes messages
	sessions map[string]*memoryState // by id
	idle     *list.List              // of *entry: sessions that are not open, the most recently used first
	bytes    int64
}

type key struct{ agent, id string }

// memoryState is a session of a Memory store.
type memoryState struct {
	key      key
	created  time.Time
	messages []model.Message
	waiting  json.RawMessage
	entries  []TranscriptEntry // since the last compaction, which is the first
	dropped  int64             // the number of entries before it
	events   int               // bytes of events in entries
	bytes    int64
	lastUsed time.Time
	idle     *list.Element // in Memory.idle, nil while the session is open
}

var _ Store = (*memory)(nil)

// overhead is the estimated size, in bytes, of a session without its messages.
const overhead = 512

// entryBytes is the estimated size, in bytes, of an entry without its text.
const entryBytes = 256

// NewMemory returns an empty store.
func NewMemory(cfg MemoryConfig) Store {
	cfg.TTL = cmp.Or(cfg.TTL, 720*time.Hour)
	cfg.MaxBytes = cmp.Or(cfg.MaxBytes, 256<<20)
	return &memory{cfg: cfg, sessions: map[string]*memoryState{}, idle: list.New()}
}

// Open implements [Store].
func (m *memory) Open(_ context.Context, agentID, id string) (Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.evict()
	if e, ok := m.sessions[id]; ok && e.key.agent == agentID {
		if e.idle == nil {
			return nil, ErrBusy
		}

		m.idle.Remove(e.idle)
		e.idle = nil
		return &memorySession{store: m, entry: e, resumed: true}, nil
	}

	e := &memoryState{key: key{agentID, ids.New()}, created: time.Now().UTC(), bytes: overhead}
	m.sessions[e.key.id] = e
	m.bytes += e.bytes
	return &memorySession{store: m, entry: e}, nil
}

// evict removes the expired sessions, and then the least recently used ones until the store is
// within MaxBytes. The caller holds mu.
func (m *memory) evict() {
	for last := m.idle.Back(); last != nil; last = m.idle.Back() {
		e := last.Value.(*memoryState)
		if m.bytes <= m.cfg.MaxBytes && time.Since(e.lastUsed) < m.cfg.TTL {
			return
		}

		m.remove(e)
	}
}

// remove removes a session that is not open. The caller holds mu.
func (m *memory) remove(e *memoryState) {
	m.idle.Remove(e.idle)
	delete(m.sessions, e.key.id)
	m.bytes -= e.bytes
}

// Delete implements [Store].
func (m *memory) Delete(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.sessions[id]
	switch {
	case !ok:
		return nil
	case e.idle == nil:
		return ErrBusy
	}

	m.remove(e)
	return nil
}

// Transcript implements [Store]. A compaction drops the entries before it.
func (m *memory) Transcript(_ context.Context, id string, after int64, limit int) (Transcript, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.sessions[id]
	if !ok || len(e.messages) == 0 || e.idle != nil && time.Since(e.lastUsed) >= m.cfg.TTL {
		return Transcript{}, ErrUnknown
	}

	t := Transcript{ID: id, AgentID: e.key.agent, Created: e.created, Total: e.dropped + int64(len(e.entries))}
	from := min(max(after-e.dropped, 0), int64(len(e.entries)))
	size := 0
	for i, entry := range e.entries[from:] {
		n := len(entry.Event) + sizeOf(entry.Compacted)
		if entry.Message != nil {
			n += entry.Message.Size()
		}

		if i == limit || size > 0 && size+n > maxPage {
			break
		}

		size += n
		entry.Seq = e.dropped + from + int64(i) + 1
		t.Entries = append(t.Entries, entry)
	}

	return t, nil
}

func sizeOf(messages []model.Message) int {
	var size int
	for i := range messages {
		size += messages[i].Size()
	}

	return size
}

// memorySession is an open session of a Memory store.
type memorySession struct {
	store   *memory
	entry   *memoryState
	resumed bool
	run     string // set by Begin, before other calls
}

func (s *memorySession) ID() string    { return s.entry.key.id }
func (s *memorySession) Resumed() bool { return s.resumed }

func (s *memorySession) Begin(runID string) { s.run = runID }

func (s *memorySession) Messages() []model.Message { return slices.Clip(s.entry.messages) }

func (s *memorySession) Append(_ context.Context, m model.Message) error {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.entry.messages = append(s.entry.messages, m)
	s.entry.entries = append(s.entry.entries, TranscriptEntry{Time: time.Now().UTC(), Run: s.run, Message: &m})
	s.addBytes(entryBytes + int64(m.Size()))
	return nil
}

func (s *memorySession) Record(event json.RawMessage) error {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	if s.entry.events+len(event) > maxRecorded {
		return nil
	}

	s.entry.events += len(event)
	s.addEvent(event)
	return nil
}

func (s *memorySession) Waiting() json.RawMessage { return s.entry.waiting }

func (s *memorySession) SetWaiting(_ context.Context, waiting json.RawMessage, events ...json.RawMessage) error {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	if waiting == nil && s.entry.waiting == nil {
		return nil
	}

	s.addBytes(int64(len(waiting) - len(s.entry.waiting)))
	s.entry.waiting = bytes.Clone(waiting)
	for _, event := range events {
		s.addEvent(event)
	}

	return nil
}

// addEvent adds an entry. The caller holds mu.
func (s *memorySession) addEvent(event json.RawMessage) {
	s.entry.entries = append(s.entry.entries, TranscriptEntry{Time: time.Now().UTC(), Run: s.run, Event: bytes.Clone(event)})
	s.addBytes(entryBytes + int64(len(event)))
}

func (s *memorySession) Compact(_ context.Context, messages []model.Message) error {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.entry.messages = slices.Clone(messages)
	s.entry.dropped += int64(len(s.entry.entries))
	s.entry.events = 0
	s.entry.entries = []TranscriptEntry{{Time: time.Now().UTC(), Run: s.run, Compacted: slices.Clone(messages)}}
	s.addBytes(overhead + int64(sizeOf(messages)+len(s.entry.waiting)) - s.entry.bytes)
	return nil
}

// addBytes adds n, which may be negative, to the sizes of the session and of the store. The caller
// holds mu.
func (s *memorySession) addBytes(n int64) {
	s.entry.bytes += n
	s.store.bytes += n
}

func (s *memorySession) Close() error {
	m := s.store
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(s.entry.messages) == 0 {
		delete(m.sessions, s.entry.key.id)
		m.bytes -= s.entry.bytes
		return nil
	}

	s.entry.lastUsed = time.Now()
	s.entry.idle = m.idle.PushFront(s.entry)
	m.evict()
	return nil
}
