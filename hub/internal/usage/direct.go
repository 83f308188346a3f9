package usage

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/internal/runvalue"
	runtimewire "github.com/seed93082962/agenthost/runtime/wire"
)

const (
	storeWithin = 10 * time.Second       // until the end of a run is stored, or added to those that are stored later
	storePause  = 200 * time.Millisecond // between two attempts
	storeBatch  = 100                    // ends of one transaction
	maxEnded    = 10_000                 // ends that are stored later; each has up to 8 KiB
)

// Direct is a run outside of chats, which has no user. The caller calls End.
type Direct struct {
	service *Service
	run     CountedRun // its id is also that of the reserve
	held    bool       // the run perhaps has a reserve
	counts  bool       // the tokens are to be counted
}

// NewDirect returns a run of an agent outside of chats.
func (s *Service) NewDirect(tenantID, agentName string) *Direct {
	// A caller chooses the id of a run in the runtime.
	return &Direct{service: s, run: CountedRun{ID: "runtime " + ids.New(), TenantID: tenantID, AgentName: agentName}}
}

// Begin begins the run. It holds a reserve in the database until End: if the hub is killed, another
// one counts it. If the agent has a hard limit, the reserve counts for all hubs as an answer in
// progress does, and Begin fails with wire.RateLimited. It fails with wire.Unavailable while too
// many ends of runs wait for the database.
func (d *Direct) Begin(ctx context.Context) error {
	s := d.service
	if s.direct.full() {
		return &wire.Error{Code: wire.Unavailable, RetryAfter: settleEvery, Message: "The database takes no tokens of runs at present: try again."}
	}

	err := s.store.DB.Tx(ctx, func(tx *sql.Tx) error {
		d.held = false
		err := s.store.Own(ctx, tx)
		if err == nil {
			err = s.lockAgent(ctx, tx, d.run)
		}

		if err != nil {
			return err
		}

		d.held, err = s.insertReserve(ctx, tx, d.run)
		if err != nil || d.held {
			return err
		}

		if d.run.Free, err = s.Free(ctx, tx, d.run); err != nil {
			return err
		}

		if d.run.Free {
			d.held, err = s.insertReserve(ctx, tx, d.run)
		}

		if err != nil || d.held {
			return err
		}

		return s.refuseDirect(ctx, tx, d.run)
	})
	if err != nil && d.held { // the outcome of the COMMIT may be unknown
		s.direct.retry(d)
	}

	return err
}

// refuseDirect returns the error of a run that has no reserve.
func (s *Service) refuseDirect(ctx context.Context, tx *sql.Tx, r CountedRun) error {
	answers, err := s.countAnswers(ctx, tx, r)
	if err == nil {
		err = s.Refusal(ctx, tx, r, answers, 0)
	}

	if err == nil { // a period or a run has ended in between
		err = &api.Refusal{Err: &wire.Error{Code: wire.RateLimited, RetryAfter: reservedFor}, Limit: api.LimitBudget}
	}

	return err
}

// End counts the run and releases its reserve, in one transaction. started reports whether the
// runtime has accepted the run, and report is the value of runvalue.UsageHeader, or "" if the
// runtime has reported no tokens: see [Service.Record]. While the database is unavailable, End
// waits for up to 10 s. Later, Settle stores the end.
func (d *Direct) End(ctx context.Context, started bool, report string) {
	d.counts = started || report != ""
	err := d.read(report)
	d.run.Unreported = err != nil
	if report != "" && err != nil {
		d.log(err)
	}

	d.end(ctx)
}

// read sets the tokens to those of a report.
func (d *Direct) read(report string) error {
	var in runtimewire.RunUsage
	if len(report) > runvalue.MaxUsage {
		return fmt.Errorf("the runtime reported its tokens in %d bytes", len(report))
	}

	if err := jsonlimit.Unmarshal([]byte(report), &in); err != nil {
		return fmt.Errorf("read tokens: %w", err)
	}

	d.run.Model, d.run.Tokens, d.run.Others = cleanModel(in.Model), in.Usage, OfModels(in.Others)
	return nil
}

// end stores the end of the run. If that fails, it is stored later, unless nothing of it can be
// stored.
func (d *Direct) end(ctx context.Context) {
	if !d.held && !d.counts {
		return
	}

	ctx, cancel := context.WithTimeout(ctx, storeWithin)
	defer cancel()
	err := d.service.storeEnds(ctx, d)
	for db.Unavailable(err) && pause(ctx) {
		err = d.service.storeEnds(ctx, d)
	}

	if err == nil {
		return
	}

	d.log(err)
	// Counts that the database has rejected would be rejected again.
	d.counts = d.counts && (ctx.Err() != nil || db.Unavailable(err))
	if d.held || d.counts {
		d.service.direct.retry(d)
	}
}

// pause waits for the next attempt, and reports whether ctx has not ended.
func pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(storePause):
		return true
	}
}

// storeEnds stores the ends of runs in one transaction.
func (s *Service) storeEnds(ctx context.Context, all ...*Direct) error {
	var runs []CountedRun
	for _, d := range all {
		if d.counts {
			runs = append(runs, d.run)
		}
	}

	var counted []CountedRun
	err := s.store.DB.Tx(ctx, func(tx *sql.Tx) (err error) {
		for _, d := range all {
			if !d.held {
				continue
			}

			if err := deleteReserve(ctx, tx, d.run); err != nil {
				return err
			}
		}

		if len(runs) > 0 {
			counted, _, err = s.Record(ctx, tx, runs...)
		}

		return err
	})
	if err != nil {
		return err
	}

	s.Observe(counted...)
	return nil
}

func (d *Direct) log(err error) {
	d.service.store.Logger.Error("count run outside of chats", "err", err, "tenant", d.run.TenantID, "agent", d.run.AgentName)
}
