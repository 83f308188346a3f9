package daemontest

import (
	"bytes"
	"sync"
)

// Output is what a program writes, while it writes it.
type Output struct {
	mu    sync.Mutex // guards all below
	buf   bytes.Buffer
	wrote chan struct{} // closed by the next write
}

func newOutput() *Output { return &Output{wrote: make(chan struct{})} }

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.wrote)
	o.wrote = make(chan struct{})
	return o.buf.Write(p)
}

// now returns what was written so far, and a channel that is closed by the next write.
func (o *Output) now() (string, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String(), o.wrote
}

func (o *Output) String() string {
	text, _ := o.now()
	return text
}
