// Package logtest keeps what a server logs or prints, for a test that reads it while the server still writes.
//
//	var log logtest.Buffer
//	logger := slog.New(slog.NewTextHandler(&log, nil))
package logtest

import (
	"bytes"
	"sync"
)

// Buffer is an [io.Writer] for many goroutines. The zero value is empty and ready for use.
type Buffer struct {
	mu    sync.Mutex // guards all below
	buf   bytes.Buffer
	wrote chan struct{} // closed by the next write; nil while nobody has asked for it
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

// String returns what was written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// Now returns what was written so far, and a channel that is closed by the next write, for whoever waits for a text.
func (b *Buffer) Now() (text string, wrote <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.wrote == nil {
		b.wrote = make(chan struct{})
	}
	return b.buf.String(), b.wrote
}
