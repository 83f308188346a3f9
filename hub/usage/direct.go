package usage

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
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

const (
	storeWithin = 10 * time.Second       // until the end of a run is stored, or added to those that are stored later
	storePause  = 200 * time.Millisecond // between two attempts
)

// Direct is a run outside of chats, which has no user. The caller calls End.
type Direct struct {
	service *Service
	run     Run  // its id is also that of the reserve
	held    bool // the run perhaps has a reserve
	counts  bool // the tokens are to be counted
}

// BeginDirect begins a run outside of chats. If the agent has a hard limit, the run holds a reserve
// in the database until End, which counts for all hubs as an answer in progress does. It fails with
// api.RateLimited. If the agent has none, it changes nothing in the database.
func (s *Service) BeginDirect(ctx context.Context, tenantID, agentName string) (*Direct, error) {
	// A caller chooses the id of a run in the runtime.
	d := &Direct{service: s, run: Run{ID: "runtime " + ids.New(), TenantID: tenantID, AgentName: agentName}}
	limited, err := isLimited(ctx, s.store.Read(), tenantID, agentName)
	if err != nil || !limited {
		return d, err
	}
	s.direct.enter()
	err = s.store.DB.Tx(ctx, func(tx *sql.Tx) error {
		d.held = false
		locked, err := s.Lock(ctx, tx, d.run, lockKey(d.run))
		if err != nil || len(locked) == 0 { // the budget was deleted just now
			return err
		}
		d.held, err = s.insertReserve(ctx, tx, d.run, locked)
		if err != nil || d.held {
			return err
		}
		return s.refuseDirect(ctx, tx, d.run)
	})
	switch {
	case err != nil && d.held: // the outcome of the COMMIT may be unknown
		s.direct.retry(d)
	case !d.held:
		s.direct.leave()
	}
	return d, err
}

// refuseDirect returns the error of a run that has no reserve.
func (s *Service) refuseDirect(ctx context.Context, tx *sql.Tx, r Run) error {
	answers, err := s.countAnswers(ctx, tx, r)
	if err == nil {
		err = s.Refusal(ctx, tx, r, answers, 0)
	}
	if err == nil { // a period or a lease has ended in between
		err = &api.Error{Code: api.RateLimited, RetryAfter: reservedFor, Limit: api.LimitBudget}
	}
	return err
}

// End counts the run and releases its reserve, in one transaction. started reports whether the
// runtime has accepted the run, and report is the value of wire.UsageHeader, or "" if the runtime
// has reported no tokens: a run that was started counts without tokens then. While the database is
// unavailable, End waits for up to 10 s. Later, RenewReserves stores the end.
func (d *Direct) End(ctx context.Context, started bool, report string) {
	d.counts = started || report != ""
	if err := d.read(report); err != nil {
		d.log(err)
	}
	if d.counts {
		d.service.Observe(d.run)
	}
	d.end(ctx)
}

// read sets the tokens to those of a report.
func (d *Direct) read(report string) error {
	var in wire.RunUsage
	if report == "" {
		return nil
	}
	if len(report) > maxReport {
		return fmt.Errorf("the runtime reported its tokens in %d bytes", len(report))
	}
	if err := json.Unmarshal([]byte(report), &in); err != nil {
		return fmt.Errorf("read tokens: %w", err)
	}
	clean := func(name string) string {
		return strings.ReplaceAll(strings.ToValidUTF8(excerpt.Head(name, maxModel), "\uFFFD"), "\x00", "\uFFFD")
	}
	d.run.Model, d.run.Tokens, d.run.Others = clean(in.Model), in.Usage, map[string]wire.Usage{}
	for model, tokens := range in.Others {
		if model = clean(model); len(d.run.Others) < maxModels {
			d.run.Others[model] = d.run.Others[model].Add(tokens)
		}
	}
	return nil
}

// end stores the end of the run, and reports whether that has succeeded. Otherwise it is stored
// later, unless nothing of it can be stored.
func (d *Direct) end(ctx context.Context) (stored bool) {
	if !d.held && !d.counts {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, storeWithin)
	defer cancel()
	err := d.store(ctx)
	for db.Unavailable(err) && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(storePause):
			err = d.store(ctx)
		}
	}
	if err == nil {
		if d.held {
			d.service.direct.leave()
		}
		return true
	}
	d.log(err)
	// Counts that the database has rejected would be rejected again.
	d.counts = d.counts && (ctx.Err() != nil || db.Unavailable(err))
	if d.held || d.counts {
		d.service.direct.retry(d)
	}
	return false
}

// store stores the end of the run in one transaction.
func (d *Direct) store(ctx context.Context) error {
	return d.service.store.DB.Tx(ctx, func(tx *sql.Tx) error {
		if d.held {
			if err := deleteReserve(ctx, tx, d.run); err != nil {
				return err
			}
		}
		if !d.counts {
			return nil
		}
		_, err := d.service.Record(ctx, tx, d.run)
		return err
	})
}

func (d *Direct) log(err error) {
	d.service.store.Logger.Error("count run outside of chats", "err", err, "tenant", d.run.TenantID, "agent", d.run.AgentName)
}
