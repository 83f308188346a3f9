// Package sse writes and reads server-sent events, the text/event-stream format of the WHATWG
// HTML standard (section 9.2).
//
// A handler wraps its http.ResponseWriter in a [Stream] and sends one [Event] at a time. The stream
// sets the headers, flushes, sends a heartbeat while no events are sent, and fails if the reader
// stalls. A client passes the response body to a [Decoder] and ranges over its events. [Encoder]
// and [AppendEvent] write the format to any other destination.
//
// Sending and reading an event allocates no memory once the buffers have grown to the size of the
// events. The package needs only the standard library. It opens no connections and does not
// reconnect: [Decoder.LastEventID] and [Decoder.Retry] provide the values that a client needs for
// it.
//
// The input of a [Decoder] is not trusted. A decoder bounds the size of lines and events, holds one
// event at a time, and its time is linear in the size of the input.
package sse
