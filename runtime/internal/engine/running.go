package engine

import (
	"slices"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/runtime/model"
)

// stopWarning is how long a stopped run waits for its tools before it logs their names. The warning
// is logged ten seconds after the cancel, because the run has already waited for cancelGrace.
const stopWarning = 10*time.Second - cancelGrace

// calls are the running tool calls.
type calls struct {
	wait sync.WaitGroup

	mu      sync.Mutex // guards running
	running []*model.Block
}

func (c *calls) add(call *model.Block) {
	c.wait.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = append(c.running, call)
}

func (c *calls) done(call *model.Block) {
	c.mu.Lock()
	c.running = slices.DeleteFunc(c.running, func(b *model.Block) bool { return b == call })
	c.mu.Unlock()
	c.wait.Done()
}

// names returns the names of the tools that are running.
func (c *calls) names() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var names []string
	for _, call := range c.running {
		names = append(names, call.Name)
	}

	return names
}

// awaitCalls waits for all tool calls of the run and for the first append to the session. It
// returns the error of the append, which a run that waits again has not seen.
func (r *runState) awaitCalls() error {
	warn := time.AfterFunc(stopWarning, func() {
		r.engine.cfg.Logger.Warn("run waits for tool calls that do not stop", "run_id", r.in.RunID, "tools", r.calls.names())
	})
	defer warn.Stop()
	r.calls.wait.Wait()
	return r.awaitFirstAppend()
}
