package sqlaudit

import (
	"context"
	"sync"

	"github.com/seed93082962/agenthost/auditlog"
)

// tails remembers where AppendTx left the logs, so that it need not ask for keys and positions each time. Nobody tells it
// what became of those transactions: a tail that the log does not go on from is dropped, see catchUp.
type tails struct {
	mu    sync.Mutex // guards known
	known map[string]*tail
}

type tail struct {
	turn  chan struct{} // holds a token while somebody uses chain
	chain *chain
}

func (t *tails) of(tenantID string) *tail {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil || len(t.known) >= maxChains {
		t.known = map[string]*tail{}
	}
	found := t.known[tenantID]
	if found == nil {
		found = &tail{turn: make(chan struct{}, 1), chain: newChain(log{})}
		t.known[tenantID] = found
	}
	return found
}

// appendTx locks the log before it takes the tail, whose turn is then short: nobody else can write.
func (s *Store) appendTx(ctx context.Context, q querier, g group) error {
	l, err := s.lock(ctx, q, g.tenantID)
	if err != nil {
		return err
	}
	t := s.tails.of(g.tenantID)
	select {
	case t.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-t.turn }()
	if err := s.appendLocked(ctx, q, t.chain, l, g.records); err != nil {
		t.chain = newChain(log{})
		return err
	}
	t.chain.unlearn()
	return nil
}

// appendTo writes the records behind the log's head, which it locks until the transaction ends. Whatever becomes of that,
// the chain takes it for committed: it is to be thrown away if it was not.
func (s *Store) appendTo(ctx context.Context, q querier, c *chain, tenantID string, records []auditlog.Record) error {
	l, err := s.lock(ctx, q, tenantID)
	if err != nil {
		return err
	}
	if err := s.appendLocked(ctx, q, c, l, records); err != nil {
		return err
	}
	c.made = nil
	return nil
}
