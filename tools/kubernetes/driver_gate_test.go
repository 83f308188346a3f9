package kubernetes_test

import (
	"net/http"
	"sync"

	"github.com/seed93082962/agenthost/hub/deploy/kubernetes"
)

// gate stops a driver at its first write.
type gate struct {
	next             http.RoundTripper
	once             *sync.Once
	reached, release chan struct{}
}

func newGate() *gate {
	return &gate{once: new(sync.Once), reached: make(chan struct{}), release: make(chan struct{})}
}

// in puts the gate in front of the API server.
func (g *gate) in(cfg *kubernetes.Config) {
	cfg.REST.WrapTransport = func(next http.RoundTripper) http.RoundTripper { return gate{next, g.once, g.reached, g.release} }
}

func (g gate) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		g.once.Do(func() {
			close(g.reached)
			<-g.release
		})
	}
	return g.next.RoundTrip(r)
}
