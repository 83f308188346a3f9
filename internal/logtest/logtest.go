// Package logtest records the log or output of a server for a test that reads it concurrently.
//
//	var log logtest.Buffer
//	logger := slog.New(slog.NewTextHandler(&log, nil))
package logtest

import (
	"bytes"
	"sync"
)

// Buffer is an [io.Writer] that is safe for concurrent use. The zero value is empty and ready for
// use.
type Buffer struct {
	mu    sync.Mutex // guards the fields below
	buf   bytes.Buffer
	wrote chan struct{} // closed by the next write; nil if there is no waiter
}

// Write implements io.Writer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.wrote != nil {
		close(b.wrote)
		b.wrote = nil
	}

	return b.buf.Write(p)
}

// String returns everything written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// Now returns everything written so far, and a channel that is closed by the next write.
func (b *Buffer) Now() (text string, wrote <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.wrote == nil {
		b.wrote = make(chan struct{})
	}

	return b.buf.String(), b.wrote
}
