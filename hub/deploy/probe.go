package deploy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/client"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// A runtime is not trusted: a probe takes at most probeTimeout, and maxProbe bounds each response
// in bytes. The list of agents has one agent, and takes a hundred times its size when it is
// decoded.
const (
	probeTimeout = 3 * time.Second
	maxProbe     = 64 << 10
)

// probe returns an error if a runtime is not ready. With an API key, it also checks that the runtime
// accepts the key, hosts the agent of the deployment, and could resolve the agent.
func (w *worker) probe(ctx context.Context, d deployment, url string, key agent.Secret) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	runtime, err := client.New(client.Config{BaseURL: url, APIKey: string(key), HTTPClient: w.s.client})
	if err != nil {
		return err
	}
	if err := runtime.Ready(ctx); err != nil {
		return fmt.Errorf("the runtime is not ready: %w", err)
	}
	if key == "" {
		return nil
	}
	agents, err := runtime.Agents(ctx)
	if err != nil {
		return fmt.Errorf("the runtime does not list its agents: %w", err)
	}
	for _, a := range agents {
		switch {
		case a.ID != d.AgentName:
		case a.Status != wire.StatusReady:
			return errors.New("the agent is unavailable: the log of the runtime has the reason")
		default:
			return nil
		}
	}
	return errors.New("another runtime responds at this address")
}
