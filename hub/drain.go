package hub

import (
	"context"
	"fmt"
	"net/http"
	"sync"
)

// requests counts those that are being answered.
type requests struct {
	mu   sync.Mutex // guards all below
	n    int
	idle chan struct{} // not nil when someone waits: closed when n gets to 0
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

// wait waits until no request is being answered.
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
		return fmt.Errorf("wait for requests, %d of which are being answered: %w", r.n, context.Cause(ctx))
	}
}

// ServeHTTP answers a request of the API.
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.requests.begin()
	defer h.requests.end()
	h.handler.ServeHTTP(w, r)
}

// Drain has GET /health/ready answer 503, so that no new requests are sent here, and waits until no request is being
// answered, or ctx ends. The hub goes on answering meanwhile.
func (h *Hub) Drain(ctx context.Context) error {
	h.draining.Store(true)
	return h.requests.wait(ctx)
}
