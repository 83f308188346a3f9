package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"
)

const (
	maxAttempts = 10
	maxRetrying = 5 * time.Second // since the first attempt began; no attempt begins later
	firstPause  = 2 * time.Millisecond
	maxPause    = 250 * time.Millisecond
	commitGrace = 10 * time.Second
)

// Tx runs do in a transaction on [DB.Write]: READ COMMITTED on PostgreSQL, alone in the database on SQLite. It commits
// when do answers nil; else, or when do panics, it rolls back, and do's error comes back so that errors.Is and errors.As
// find it. When the engine undoes the transaction because of others beside it (serialization failures, deadlocks, a
// locked file), do is run again, after a pause and at most 10 times in 5 s: what it does outside the transaction it may
// do several times. An error of that kind must therefore come back from do, wrapped or bare. Do does not commit, and
// does not keep tx.
//
// When ctx ends, do's statements end with it, and Tx answers the cause of that end. A COMMIT under way is then let come to
// its end, for up to 10 s. When the connection is lost during COMMIT, nobody knows whether the transaction was made: it is
// not run again, and the error, which is [ErrUnavailable], says so.
func (d *DB) Tx(ctx context.Context, do func(tx *sql.Tx) error) error {
	began, pause := time.Now(), firstPause
	for attempt := 1; ; attempt++ {
		again, err := d.attempt(ctx, do)
		if err == nil {
			return nil
		}
		if !again || attempt == maxAttempts || time.Since(began) > maxRetrying {
			return ended(ctx, err)
		}
		d.logger.LogAttrs(ctx, slog.LevelDebug, "transaction runs again", slog.Int("attempt", attempt), slog.Any("error", err))
		if !wait(ctx, pause/2+rand.N(pause)) { //nolint:gosec // a jitter is no secret
			return ended(ctx, err)
		}
		pause = min(2*pause, maxPause)
	}
}

// attempt tells with the error whether another attempt is safe and may help.
func (d *DB) attempt(ctx context.Context, do func(tx *sql.Tx) error) (again bool, err error) {
	// The transaction ends with ctx until its COMMIT begins, which the client's leaving must not make a riddle.
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	detach := context.AfterFunc(ctx, cancel)
	defer detach()
	tx, err := d.write.BeginTx(inner, nil)
	if err != nil {
		return retryable(err) || lost(err), fmt.Errorf("begin transaction: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // on a panic or runtime.Goexit of do; else it is done already
	if err := do(tx); err != nil {
		_ = tx.Rollback() // do's error tells more
		return retryable(err), err
	}
	if !detach() && ctx.Err() != nil {
		return false, fmt.Errorf("commit transaction: %w", context.Cause(ctx))
	}
	defer time.AfterFunc(commitGrace, cancel).Stop()
	err = tx.Commit()
	switch {
	case err == nil:
		return false, nil
	case refused(err):
		return retryable(err), fmt.Errorf("commit transaction: %w", err)
	default:
		return false, unavailable(fmt.Errorf("commit transaction, which may have been made: %w", err))
	}
}

// ended gives the reason for which ctx ended, where it did, beside the error that this led to.
func ended(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return classify(ctx, err)
	}
	if cause := context.Cause(ctx); !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
