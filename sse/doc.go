// Package sse writes and reads server-sent events, the text/event-stream format of the WHATWG
// HTML standard (section 9.2).
//
// A handler makes a [Stream] of its http.ResponseWriter and sends an [Event] at a time; the
// stream sets the headers, flushes, sends a heartbeat while nothing happens, and gives up on a
// reader that stopped reading. A client hands the response body to a [Decoder] and ranges over
// its events. [Encoder] and [AppendEvent] write the format to any other place.
//
// Sending and reading an event allocates nothing once buffers have grown to the size of the
// events. The package imports the standard library only. It opens no connection and makes no
// reconnect: [Decoder.LastEventID] and [Decoder.Retry] give a client what it needs for its own.
package sse
