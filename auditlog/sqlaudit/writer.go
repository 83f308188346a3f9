package sqlaudit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/seed93082962/agenthost/auditlog"
)

// writer writes batches, one at a time, and remembers where it left the logs.
type writer struct {
	store  *Store
	chains map[string]*chain
	cool   int // batches to go before it is bold again
}

// write writes the records in one transaction, again where that failed for no fault of its own.
func (w *writer) write(ctx context.Context, records []auditlog.Record) error {
	all := groups(records)
	for attempt := 0; ; attempt++ {
		err := w.try(ctx, all)
		if err == nil {
			return nil
		}
		for _, g := range all {
			delete(w.chains, g.tenantID)
		}
		if !transient(err) || attempt == attempts {
			return err
		}
		if err := pause(ctx, attempt); err != nil {
			return err
		}
	}
}

func (w *writer) try(ctx context.Context, all []group) error {
	if len(all) == 1 && w.cool == 0 && len(all[0].records) <= piece {
		err := w.bold(ctx, w.store.write, all[0])
		if !errors.Is(err, errMoved) {
			if err != nil && !answered(err) {
				return unknown(err)
			}
			return err
		}
	}
	w.cool = max(w.cool-1, 0)
	tx, err := w.store.write.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	for _, g := range all {
		if err := w.careful(ctx, tx, g); err != nil {
			_ = tx.Rollback()
			return err
		}
	}
	if err := tx.Commit(); err != nil {
		if !answered(err) || errors.Is(err, sql.ErrTxDone) {
			err = unknown(err)
		}
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// bold writes without a lock where nobody else has written since, which one statement finds out; else errMoved.
func (w *writer) bold(ctx context.Context, q querier, g group) error {
	c := w.chains[g.tenantID]
	if c == nil || !w.store.sql.swap {
		return errMoved
	}
	d, missing, err := c.draft(g.records, w.store.now())
	if err != nil {
		return err
	}
	if missing != nil {
		return errMoved
	}
	if err := w.store.sql.insert(ctx, q, d); err != nil {
		if errors.Is(err, errMoved) {
			w.cool = 16 // others write too: expect it for a while
		}
		return err
	}
	d.committed()
	return nil
}

// careful locks first.
func (w *writer) careful(ctx context.Context, q querier, g group) error {
	c := w.chains[g.tenantID]
	if c == nil {
		if len(w.chains) >= maxChains {
			clear(w.chains)
		}
		c = newChain(log{})
		w.chains[g.tenantID] = c
	}
	return w.store.appendTo(ctx, q, c, g.tenantID, g.records)
}

// unknown words an error after which the records may or may not be there.
func unknown(err error) error {
	return fmt.Errorf("it is not known whether the entries were written: %w", err)
}
