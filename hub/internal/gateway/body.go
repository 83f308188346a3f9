package gateway

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/seed93082962/agenthost/hub/wire"
)

// maxBodies is the number of requests of a deployment that begin runs and are not complete. They
// may have 16 MiB each, and take a minute.
const maxBodies = 128

var errBodies = &wire.Error{
	Code: wire.RateLimited, RetryAfter: cancelWait,
	Message: "Too many requests of the deployment are not complete: send the whole body faster, or try again.",
}

// errOver is the error of a request whose response has ended before its body.
var errOver = errors.New("the response has ended before the request")

// awaitBody begins a run whose request has no body. Otherwise, it waits for a place for the request
// until its body is complete, when runRequest begins the run.
func (run *directRun) awaitBody(r *http.Request, of caller) error {
	client := r.Context()
	run.received = func() {}
	run.begin = func() error {
		run.begins.Lock()
		defer run.begins.Unlock()
		if run.over {
			return errOver
		}

		return run.direct.Begin(client)
	}
	if r.ContentLength == 0 {
		return run.begin()
	}

	ctx, cancel := context.WithTimeoutCause(client, cancelWait, errBodies)
	defer cancel()
	release, err := run.service.bodies.take(ctx, of, maxBodies)
	if err != nil {
		return err
	}

	run.received = sync.OnceFunc(release)
	return nil
}

// end counts the run. A runtime may end the response before the request is complete.
func (run *directRun) end(ctx context.Context, started bool, report string) {
	run.begins.Lock()
	defer run.begins.Unlock()
	run.over = true
	run.direct.End(ctx, started, report)
}

// runRequest is the body of a request that begins a run. Its last byte is returned after the run
// has begun, so that a request that is not complete holds no reserve, and no run begins without
// one.
type runRequest struct {
	io.Closer
	body     *bufio.Reader
	run      *directRun
	complete bool
}

// Read implements io.Reader.
func (b *runRequest) Read(p []byte) (int, error) {
	if b.complete {
		return b.body.Read(p)
	}

	_, err := b.body.Peek(2) // one to return, and one to hold
	if err == nil {
		return b.body.Read(p[:min(len(p), b.body.Buffered()-1)])
	}

	if err != io.EOF { //nolint:errorlint // bufio returns it unwrapped
		return 0, err
	}

	b.run.received()
	if err := b.run.begin(); err != nil {
		return 0, err
	}

	b.run.mu.Lock()
	b.run.sent = true
	b.run.mu.Unlock()
	b.complete = true
	return b.body.Read(p)
}
