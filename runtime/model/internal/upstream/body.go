package upstream

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// Body is the JSON of one request. A conversation may have megabytes, and net/http keeps a request
// until its response ends: the bytes are released as soon as they are sent.
type Body struct {
	tools []byte // shared by many requests
	at    int    // their position in data

	mu   sync.Mutex
	data []byte // guarded by mu; nil after the response has begun
}

// Encode returns the JSON of v.
func Encode(v any) (*Body, error) { return encode(v, nil) }

// encode returns the JSON of v, or of an object with the fields of v and those of more. It does not
// escape < > &: source code would become much longer.
func encode(v, more any) (*Body, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	var err error
	at := 0
	Aside(func() { // the blocks of a conversation are three lists deep
		if err = enc.Encode(v); err == nil && more != nil {
			at = buf.Len() - len("}\n")
			buf.Truncate(at)
			err = enc.Encode(more)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("encode model request: %w", err)
	}
	data := bytes.TrimSuffix(buf.Bytes(), []byte{'\n'})
	if more != nil {
		data[at] = ','
	}
	return &Body{data: data, at: at}, nil
}

// open returns a new reader from the start, for http.Request.GetBody.
func (b *Body) open() (io.ReadCloser, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.data == nil {
		return nil, errReleased
	}
	return &reader{rest: [...][]byte{b.data[:b.at], b.tools, b.data[b.at:]}}, nil
}

func (b *Body) size() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return int64(len(b.tools) + len(b.data))
}

// release releases the bytes. Readers that are still in use keep theirs.
func (b *Body) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.data = nil
}

type reader struct {
	mu   sync.Mutex // a transport may close during a read
	rest [3][]byte  // guarded by mu
}

func (r *reader) Read(p []byte) (n int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	left := 0
	for i, part := range r.rest {
		m := copy(p[n:], part)
		if n += m; m == len(part) {
			r.rest[i] = nil
			continue
		}
		r.rest[i] = part[m:]
		left += len(part) - m
	}
	if n == 0 && left == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (r *reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.rest[:])
	return nil
}
