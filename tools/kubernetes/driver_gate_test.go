package kubernetes_test

import (
	"net/http"
	"strings"
	"sync"

	"github.com/seed93082962/agenthost/hub/deploy/kubernetes"
)

// gate stops a driver at its first write of a resource, or of any one.
type gate struct {
	resource         string
	next             http.RoundTripper
	once             *sync.Once
	reached, release chan struct{}
}

func newGate(resource string) *gate {
	return &gate{resource: resource, once: new(sync.Once), reached: make(chan struct{}), release: make(chan struct{})}
}

// in puts the gate in front of the API server.
func (g *gate) in(cfg *kubernetes.Config) {
	cfg.REST.WrapTransport = func(next http.RoundTripper) http.RoundTripper {
		return gate{g.resource, next, g.once, g.reached, g.release}
	}
}

func (g gate) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet && strings.Contains(r.URL.Path, g.resource) {
		g.once.Do(func() {
			close(g.reached)
			<-g.release
		})
	}
	return g.next.RoundTrip(r)
}
