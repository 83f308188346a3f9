// Package session keeps conversations from run to run. A [Store] opens a session for one run
// at a time; the run reads what was said and appends to it. [Memory] forgets with the process,
// [Files] outlives it.
package session

import (
	"context"
	"errors"

	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/runtime/model"
)

// ErrBusy is what Open answers while another run holds the session.
var ErrBusy = errors.New("session is in use by another run")

// Store keeps sessions. A session belongs to one agent: under another agent its id is unknown.
// It is safe for concurrent use.
type Store interface {
	// Open opens the session with that id for one run, or answers ErrBusy while another holds
	// it. An empty or unknown id begins a new session under an id of the store's own making.
	Open(ctx context.Context, agentID, id string) (Session, error)
}

// Session is a session that is held by one run.
type Session interface {
	ID() string

	// Resumed tells whether Open found the session.
	Resumed() bool

	// Messages returns what was said so far, oldest first. The caller does not change it.
	Messages() []model.Message

	// Append adds one message. It is kept when Append has returned nil, whatever happens to
	// the run.
	Append(ctx context.Context, m model.Message) error

	// Compact puts messages in the place of all that was said so far: a summary, say, and what
	// is kept word for word. It is kept when Compact has returned nil. After an error, and after
	// a crash in the middle, what was there before is there still. It does not hold on to the
	// slice; without messages the session is one in which nothing was said.
	Compact(ctx context.Context, messages []model.Message) error

	// Close gives the session free. Nothing of it is called afterwards.
	Close() error
}

// ValidID reports whether a caller may name a session so: ^[A-Za-z0-9._-]{1,128}$, but neither
// "." nor "..".
func ValidID(id string) bool { return ids.Plain(id, 128) && id != "." && id != ".." }
