package sse

import (
	"bytes"
	"time"
)

// Event is one server-sent event.
type Event struct {
	// Type is the event field. Empty writes no event line, and a reader takes such an event as
	// one of type "message"; the decoder leaves it empty.
	Type string

	// Data is the payload. Line breaks in it (LF, CR or CRLF) separate data lines, and a reader
	// gets each of them as LF. From a decoder it is valid until the next call of
	// [Decoder.Next]; [Event.Clone] keeps it longer.
	//
	// Nil beside an empty Type and an ID or a Retry writes a block without a data line: readers
	// take over ID and Retry and dispatch no event. In every other case an empty Data is sent as
	// an empty data line, and so dispatched.
	Data []byte

	// ID is the id field; empty writes no id line. From a decoder it is the last event ID in
	// force, which an earlier event may have set.
	ID string

	// Retry is how long a client should wait before it connects again, in whole milliseconds on
	// the wire (at least one). Zero or less writes no retry line. A decoder sets it where a valid
	// retry field stood in the event's own block; see [Decoder.Retry] for the value in force.
	Retry time.Duration
}

// Clone returns a copy of e with a Data of its own.
func (e Event) Clone() Event {
	e.Data = bytes.Clone(e.Data)
	return e
}
