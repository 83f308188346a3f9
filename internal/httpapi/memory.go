package httpapi

import (
	"io"
	"net/http"

	"github.com/seed93082962/agenthost/internal/jsonlimit"
)

const (
	// freeRequest is not reserved: requests of ordinary size are accepted when others have used up
	// the memory.
	freeRequest = 32 << 10
	// valueBytes is the estimated memory of a decoded JSON value without its text.
	valueBytes = 128
)

// Memory is the memory of a request, a part of that of all requests. It is not safe for concurrent
// use.
type Memory struct {
	// Reserve reserves memory, or releases it if bytes is negative. Its error is that of the request.
	Reserve func(bytes int) error

	held  int // in total
	bytes int // that are reserved
}

// Hold reserves memory, or releases it, so that the request has bytes in total.
func (m *Memory) Hold(bytes int) error {
	need := max(0, bytes-freeRequest)
	if err := m.Reserve(need - m.bytes); err != nil {
		return err
	}

	m.held, m.bytes = bytes, need
	return nil
}

// Add reserves bytes in addition.
func (m *Memory) Add(bytes int) error { return m.Hold(m.held + bytes) }

// Release releases everything.
func (m *Memory) Release() { _ = m.Hold(0) }

// ReadJSON is [ReadJSON] with memory for the body and for v.
func (m *Memory) ReadJSON(w http.ResponseWriter, r *http.Request, limit int64, v any) error {
	data, err := m.ReadBody(w, r, limit)
	if err != nil {
		return err
	}

	return m.ParseJSON(data, v)
}

// ReadBody is [ReadBody] with memory for the body.
func (m *Memory) ReadBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	body := &reservedBody{ReadCloser: r.Body, memory: m}
	r.Body = body
	data, err := ReadBody(w, r, limit)
	if body.err != nil {
		return nil, body.err
	}

	return data, err
}

// ParseJSON is [ParseJSON] with memory for the body and for v.
func (m *Memory) ParseJSON(data []byte, v any) error {
	values, err := jsonlimit.Limit{Values: len(data)}.Count(data)
	if err != nil {
		return ParseJSON(data, v) // which describes the error
	}

	if err := m.Hold(2*len(data) + valueBytes*values); err != nil {
		return err
	}

	return ParseJSON(data, v)
}

// reservedBody reserves memory for a body while it is read. A body that is not complete has memory
// too.
type reservedBody struct {
	io.ReadCloser
	memory *Memory
	read   int
	err    error // of memory
}

// Read implements io.Reader.
func (b *reservedBody) Read(p []byte) (int, error) {
	const step = 64 << 10
	if b.err = b.memory.Hold(2 * (b.read + min(len(p), step))); b.err != nil {
		return 0, b.err
	}

	n, err := b.ReadCloser.Read(p[:min(len(p), step)])
	b.read += n
	return n, err
}
