package runtime

import (
	"io"
	"net/http"

	"github.com/seed93082962/agenthost/internal/httpapi"
	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// errMemory is the error of a request for which Limits.MaxMemoryBytes has no room.
var errMemory = &Error{http.StatusServiceUnavailable, wire.ErrorBody{
	Error: "Out of memory", Reason: "the requests and runs of this runtime together have reached maxMemoryBytes: try again later",
}}

// reserve reserves memory of a run, or releases it if bytes is negative. All runs share
// Limits.MaxMemoryBytes.
func (rt *Runtime) reserve(bytes int) error {
	if sum := rt.reserved.Add(int64(bytes)); bytes > 0 && sum > rt.cfg.Limits.MaxMemoryBytes {
		rt.reserved.Add(int64(-bytes))
		return &model.Error{Code: runvalue.ErrorTypeOverloaded, Message: "the runs of this runtime together use too much memory (maxMemoryBytes): try again later"}
	}

	return nil
}

// reserveListing reserves memory of a listing of files, or releases it.
func (rt *Runtime) reserveListing(bytes int) error {
	if rt.reserve(bytes) != nil {
		return errMemory
	}

	return nil
}

const (
	// freeRequest is not reserved: requests of ordinary size are accepted when others have used up
	// the memory.
	freeRequest = 32 << 10
	// valueBytes is the estimated memory of a decoded JSON value without its text.
	valueBytes = 128
	// sessionCopies is how often a stored session is in memory when it is read, at most.
	sessionCopies = 3
)

// reservation is the memory of a request.
type reservation struct {
	rt    *Runtime
	bytes int // that are reserved
}

// hold reserves memory, or releases it, so that the request has bytes in total.
func (m *reservation) hold(bytes int) error {
	need := max(0, bytes-freeRequest)
	if err := m.rt.reserve(need - m.bytes); err != nil {
		return errMemory
	}

	m.bytes = need
	return nil
}

// release releases everything.
func (m *reservation) release() { _ = m.hold(0) }

// readRun decodes the body of a run request. The caller releases the reservation.
func (rt *Runtime) readRun(w http.ResponseWriter, r *http.Request, m *reservation) (wire.RunRequest, error) {
	body := &reservedBody{ReadCloser: r.Body, memory: m}
	r.Body = body
	data, err := httpapi.ReadBody(w, r, rt.cfg.Limits.MaxMessageBytes)
	var req wire.RunRequest
	if body.err != nil {
		return req, body.err
	}

	if err != nil {
		return req, err
	}

	values, err := jsonlimit.Limit{Values: len(data)}.Count(data)
	if err != nil {
		err = httpapi.ParseJSON(data, &req) // which describes the error
		return req, err
	}

	if err := m.hold(2*len(data) + valueBytes*values); err != nil {
		return req, err
	}

	err = httpapi.ParseJSON(data, &req)
	return req, err
}

// reservedBody reserves memory for a body while it is read. A body that is not complete has memory
// too.
type reservedBody struct {
	io.ReadCloser
	memory *reservation
	read   int
	err    error // of memory
}

// Read implements io.Reader.
func (b *reservedBody) Read(p []byte) (int, error) {
	const step = 64 << 10
	if b.err = b.memory.hold(2 * (b.read + min(len(p), step))); b.err != nil {
		return 0, b.err
	}

	n, err := b.ReadCloser.Read(p[:min(len(p), step)])
	b.read += n
	return n, err
}
