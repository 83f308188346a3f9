package engine

import (
	"slices"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/runtime/model"
)

// settleWarning is after how long a run that only waits for its tools to stop says so: ten seconds
// after the cancel, of which calls have had one.
const settleWarning = 10*time.Second - cancelGrace

// calls are the tool calls that are under way.
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

// names tells which tools are being called.
func (c *calls) names() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var names []string
	for _, call := range c.running {
		names = append(names, call.Name)
	}
	return names
}

// settle waits until nothing of the run runs any more.
func (r *Run) settle() {
	_ = r.kept() // of a run that has been given up, or failed for another reason
	warn := time.AfterFunc(settleWarning, func() {
		r.engine.cfg.Logger.Warn("run is held up by tool calls that do not stop", "runId", r.in.RunID, "tools", r.calls.names())
	})
	defer warn.Stop()
	r.calls.wait.Wait()
}
