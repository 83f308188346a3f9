package upstream

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// Body is the JSON of one request. A conversation may take megabytes, and net/http holds on to a
// request for as long as its answer lasts: the bytes are let go as soon as they are sent.
type Body struct {
	mu   sync.Mutex
	data []byte // guarded by mu; nil once an answer began
}

// Encode makes the JSON of v. Its characters stand as they are: tokens are counted by text, yet
// "<" for each < makes code six times as long on the way.
func Encode(v any) (*Body, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	var err error
	Aside(func() { err = enc.Encode(v) }) // the blocks of a conversation are three lists deep
	if err != nil {
		return nil, fmt.Errorf("encode model request: %w", err)
	}
	return &Body{data: bytes.TrimSuffix(buf.Bytes(), []byte{'\n'})}, nil
}

// open returns a new reader from the start, for http.Request.GetBody.
func (b *Body) open() (io.ReadCloser, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.data == nil {
		return nil, errReleased
	}
	return &reader{rest: b.data}, nil
}

func (b *Body) size() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return int64(len(b.data))
}

// release leaves readers that are still being sent from alone.
func (b *Body) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.data = nil
}

type reader struct {
	mu   sync.Mutex // a transport may close in the middle of a read
	rest []byte     // guarded by mu
}

func (r *reader) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.rest) == 0 {
		r.rest = nil
		return 0, io.EOF
	}
	n := copy(p, r.rest)
	if r.rest = r.rest[n:]; len(r.rest) == 0 {
		r.rest = nil
	}
	return n, nil
}

func (r *reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rest = nil
	return nil
}
