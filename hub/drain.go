package hub

import (
	"context"
	"fmt"
	"net/http"
	"sync"
)

// requests counts the requests in progress.
type requests struct {
	mu   sync.Mutex // guards the fields below
	n    int
	idle chan struct{} // closed when n is 0; nil if no caller waits
}

func (r *requests) begin() {
	r.mu.Lock()
	r.n++
	r.mu.Unlock()
}

func (r *requests) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n--; r.n == 0 && r.idle != nil {
		close(r.idle)
		r.idle = nil
	}
}

// wait waits until no request is in progress.
func (r *requests) wait(ctx context.Context) error {
	r.mu.Lock()
	if r.n == 0 {
		r.mu.Unlock()
		return nil
	}
	if r.idle == nil {
		r.idle = make(chan struct{})
	}
	idle := r.idle
	r.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		r.mu.Lock()
		defer r.mu.Unlock()
		return fmt.Errorf("wait for requests, %d of which are in progress: %w", r.n, context.Cause(ctx))
	}
}

// ServeHTTP serves a request of the API.
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.requests.begin()
	defer h.requests.end()
	h.handler.ServeHTTP(w, r)
}

// Drain makes GET /health/ready respond with 503, so that load balancers send no new requests, and
// waits until no request is in progress or ctx ends. The hub continues to serve requests.
func (h *Hub) Drain(ctx context.Context) error {
	h.draining.Store(true)
	return h.requests.wait(ctx)
}
