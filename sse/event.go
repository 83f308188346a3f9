// Package sse writes and reads server-sent events, the text/event-stream format of the WHATWG
// HTML standard (section 9.2).
//
// A handler wraps its http.ResponseWriter in a [Stream] and sends one [Event] at a time. The stream
// sets the headers, flushes, sends a heartbeat while no events are sent, and fails if the reader
// stalls. A client passes the response body to a [Decoder] and ranges over its events.
// [Event.Append] writes the format to any other destination.
//
// Sending and reading an event allocates no memory once the buffers have grown to the size of the
// events. The package needs only the standard library. A [Source] sends the requests too, and
// continues after the last event when a connection ends:
//
//	source := sse.Source{Request: request, Client: client}
//	for event, err := range source.Events(ctx) {
//		if err != nil {
//			return err
//		}
//		fmt.Println(event.Type, string(event.Data))
//	}
//
// The input of a [Decoder] is not trusted. A decoder bounds the size of lines and events, holds one
// event at a time, and its time is linear in the size of the input.
package sse

import (
	"bytes"
	"time"
)

// Event is one server-sent event.
type Event struct {
	// Type is the event field. If it is empty, no event line is written, and readers use the type
	// "message"; the decoder leaves it empty.
	Type string

	// Data is the payload. Line breaks in it (LF, CR or CRLF) separate data lines, and a reader
	// gets each of them as LF. Data of a decoder is valid until the next call of [Decoder.Next];
	// [Event.Clone] copies it.
	//
	// If Data is nil, Type is empty, and ID or Retry is set, the event is written without a data
	// line: readers store ID and Retry and dispatch no event. Otherwise empty Data is written as an
	// empty data line, and readers dispatch the event.
	Data []byte

	// ID is the id field. If it is empty, no id line is written. An event of a decoder has the last
	// event ID, which an earlier event may have set.
	ID string

	// Retry is the time after which a client should reconnect, in milliseconds on the wire (at
	// least one). Zero or less writes no retry line. A decoder sets it if the block of the event
	// has a valid retry field; [Decoder.Retry] returns the value of the stream.
	Retry time.Duration
}

// Clone returns a copy of e with its own Data.
func (e Event) Clone() Event {
	e.Data = bytes.Clone(e.Data)
	return e
}
