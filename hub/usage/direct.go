package usage

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"

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

// AdmitDirect checks the hard limit of an agent for a run outside of chats. Such runs have
// no user and hold no reserve: one begins while the limit has a reserve left. It fails with
// api.RateLimited.
func (s *Service) AdmitDirect(ctx context.Context, tenantID, agentName string) error {
	now := s.store.Now()
	budgets, err := budgetsOf(ctx, s.store.Read(), Run{TenantID: tenantID, AgentName: agentName}, now)
	if err != nil {
		return err
	}
	for _, b := range budgets {
		if err := b.admit(0, now); err != nil {
			return err
		}
	}
	return nil
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
