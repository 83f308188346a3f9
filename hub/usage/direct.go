package usage

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// Bounds of the report of a runtime, which is not trusted.
const (
	maxReport = 4 << 10 // bytes
	maxModels = 16      // of subagents; the tokens of further ones count for the model of the agent
	maxModel  = 200     // bytes of a name
)

// direct counts the runs in progress outside of chats.
type direct struct {
	mu      sync.Mutex // guards running
	running map[directAgent]int64
}

type directAgent struct{ tenantID, name string }

// enter adds a run of an agent until leave is called, and returns the number of the others.
func (d *direct) enter(agent directAgent) (others int64, leave func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	others = d.running[agent]
	d.running[agent]++
	return others, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.running[agent]--; d.running[agent] == 0 {
			delete(d.running, agent)
		}
	}
}

// AdmitDirect checks the hard limit of an agent for a run outside of chats, which has no user. The
// run holds a reserve until release is called, after RecordDirect. Only runs outside of chats in
// this process see the reserve. It fails with api.RateLimited.
func (s *Service) AdmitDirect(ctx context.Context, tenantID, agentName string) (release func(), err error) {
	others, release := s.direct.enter(directAgent{tenantID, agentName}) // before what others have used is read
	now := s.store.Now()
	budgets, err := budgetsOf(ctx, s.store.Read(), Run{TenantID: tenantID, AgentName: agentName}, now)
	for _, b := range budgets {
		if err == nil {
			err = b.admit(others, now)
		}
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// RecordDirect counts a run outside of chats. report is the value of wire.UsageHeader. The
// run has an id of its own, because its caller has chosen that of the runtime.
func (s *Service) RecordDirect(ctx context.Context, tenantID, agentName, report string) error {
	var in wire.RunUsage
	if len(report) > maxReport {
		return fmt.Errorf("count run: the runtime reported its tokens in %d bytes", len(report))
	}
	if err := json.Unmarshal([]byte(report), &in); err != nil {
		return fmt.Errorf("count run: %w", err)
	}
	clean := func(name string) string {
		return strings.ReplaceAll(strings.ToValidUTF8(excerpt.Head(name, maxModel), "\uFFFD"), "\x00", "\uFFFD")
	}
	run := Run{
		ID: "runtime " + ids.New(), TenantID: tenantID, AgentName: agentName, Model: clean(in.Model), Tokens: in.Usage, Others: map[string]wire.Usage{},
	}
	for model, tokens := range in.Others {
		if model = clean(model); len(run.Others) < maxModels {
			run.Others[model] = run.Others[model].Add(tokens)
		}
	}
	return s.store.DB.Tx(ctx, func(tx *sql.Tx) error {
		_, err := s.Record(ctx, tx, run)
		return err
	})
}
