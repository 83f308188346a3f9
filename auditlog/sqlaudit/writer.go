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

// draft adds records to a draft, or begins one. It gives nil where these are not of one log whose end is known, hold names that
// are not, or are too much for one statement.
func (w *writer) draft(d *draft, records []auditlog.Record) *draft {
	if d == nil {
		c := w.chains[records[0].TenantID()]
		if c == nil || w.cool > 0 || !w.store.sql.swap {
			return nil
		}
		d = c.begin(w.store.sql)
	}
	now := w.store.now()
	for _, r := range records {
		if d.full() || w.chains[r.TenantID()] != d.chain || d.add(r, now) != nil || len(d.missing) > 0 {
			return nil
		}
	}
	return d
}

// bold writes without a lock where nobody else has written since, which one statement finds out; else errMoved.
func (w *writer) bold(ctx context.Context, d *draft) error {
	err := w.store.sql.insert(ctx, w.store.write, d)
	if err != nil && !answered(err) {
		return unknown(err)
	}
	return err
}

// forget drops a chain that went wrong: how it stands is to be asked again.
func (w *writer) forget(d *draft, err error) {
	for name, c := range w.chains {
		if c == d.chain {
			delete(w.chains, name)
		}
	}
	if errors.Is(err, errMoved) {
		w.cool = 16 // others write too: expect it for a while
	}
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
