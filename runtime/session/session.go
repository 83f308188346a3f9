// Package session stores conversations between runs. A [Store] opens a session for one run at a
// time. The run reads the stored messages and appends new ones. [NewMemory] stores sessions in the
// memory of the process, [Files] on disk.
//
// A transcript on disk is read line by line. A line has at most 129 MiB, and the depth of its
// values is limited. The messages of an open session are in memory.
package session

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/seed93082962/agenthost/runtime/model"
)

// ErrBusy is returned by Open and Delete if another run has the session open.
var ErrBusy = errors.New("session is in use by another run")

// Store stores sessions. A session belongs to one agent and is unknown to all others. A Store is
// safe for concurrent use.
type Store interface {
	// Open opens a session for one run. It returns ErrBusy if another run has the session open.
	// If the id is empty or unknown, Open creates a session with a new id.
	Open(ctx context.Context, agentID, id string) (Session, error)

	// Delete deletes a stored session, of whichever agent. After that its id is unknown. Delete
	// returns ErrBusy if a run has the session open, and nil if the id is unknown.
	Delete(ctx context.Context, id string) error

	// Transcript returns what happened in a stored session, of whichever agent: the entries after
	// a seq, at most limit of them, also while a run has the session open. It returns fewer if
	// they are long, but at least one. It returns ErrUnknown if the id is unknown.
	Transcript(ctx context.Context, id string, after int64, limit int) (Transcript, error)
}

// ErrUnknown is returned by Transcript if there is no session with the id.
var ErrUnknown = errors.New("session is unknown")

// Transcript is a part of what happened in a session.
type Transcript struct {
	ID, AgentID string

	Created time.Time
	Entries []TranscriptEntry
	Total   int64 // the seq of the last entry of the session
}

// TranscriptEntry is a message, an event or a compaction of a session. Entries before a compaction
// may be missing.
type TranscriptEntry struct {
	Seq  int64     // 1, 2, 3 in the session
	Time time.Time // zero for a message of a former version
	Run  string    // the id of the run that wrote it; "" for an entry of a former version

	// One of these is set.
	Message   *model.Message
	Event     json.RawMessage
	Compacted []model.Message
}

const (
	// maxPage bounds the text of the entries that Transcript returns, in bytes.
	maxPage = 4 << 20

	// maxRecorded bounds what a session has, in bytes: its events since the last compaction, and all
	// entries before a compaction.
	maxRecorded = 16 << 20
)

// Session is an open session. It is used by one run and is not safe for concurrent use, except that
// Record may be called at any time before Close.
type Session interface {
	ID() string

	// Begin sets the run of the entries that follow.
	Begin(runID string)

	// Resumed reports whether the session existed before Open.
	Resumed() bool

	// Messages returns the stored messages, oldest first. The caller must not modify them.
	Messages() []model.Message

	// Append appends one message. The message is stored when Append returns nil, even if ctx is
	// cancelled.
	Append(ctx context.Context, m model.Message) error

	// Compact replaces all stored messages, for example by a summary and the most recent
	// messages. The new messages are stored when Compact returns nil. After an error or a crash
	// the previous messages are unchanged. Compact does not retain the slice. An empty slice
	// leaves an empty session.
	Compact(ctx context.Context, messages []model.Message) error

	// Waiting returns what the session waits for, as SetWaiting has stored it, or nil. The caller must
	// not modify it.
	Waiting() json.RawMessage

	// SetWaiting replaces what the session waits for, which is a JSON value in one line, or nil. It is
	// not an entry of the transcript, and a compaction does not change it. A value survives a crash of
	// the machine when Close returns, and nil when SetWaiting does. The events are added to the
	// transcript by the same write, and without a limit: they say why it waits no longer.
	SetWaiting(ctx context.Context, waiting json.RawMessage, events ...json.RawMessage) error

	// Record adds an event to the transcript, which is a JSON value in one line. Events before the
	// first message are stored with it. Events that exceed the limit of a session are omitted.
	Record(event json.RawMessage) error

	// Close releases the session. No method may be called after Close. An empty session is not
	// stored.
	Close() error
}
