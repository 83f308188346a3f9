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
	maxRetrying = 5 * time.Second // after the start of the first attempt; later, no attempt starts
	firstPause  = 2 * time.Millisecond
	maxPause    = 250 * time.Millisecond
	commitGrace = 10 * time.Second
)

// Tx runs do in a transaction on [DB.Write]: READ COMMITTED on PostgreSQL, exclusive on SQLite. It
// commits if do returns nil. Otherwise, or if do panics, it rolls back, and the returned error
// wraps that of do. If the engine rolls the transaction back because of concurrent ones
// (serialization failures, deadlocks, a locked file, a full disk), Tx runs do again after a pause,
// at most 10 times in 5 s: effects of do outside of the transaction may be repeated. do must return
// errors of that kind, wrapped or not. It must not commit, and must not use tx after it returns.
//
// If ctx has a check, see [WithCheck], it runs after do.
//
// When ctx ends, the statements of do end, and Tx returns the cause. A COMMIT in progress is
// completed, for up to 10 s. If the connection is lost during COMMIT, the outcome is unknown: Tx
// does not repeat the transaction, and its [ErrUnavailable] says so.
func (d *DB) Tx(ctx context.Context, do func(tx *sql.Tx) error) (err error) {
	began := time.Now()
	ctx, span := d.startSpan(ctx)
	defer func() {
		d.metrics.ended(began, err)
		endSpan(span, err)
	}()
	err = d.repeat(ctx, checked(ctx, do), began)
	if err == nil && d.log != nil {
		d.log.truncate(ctx, d.write)
	}

	return err
}

// repeat runs a transaction until an attempt succeeds or must not be repeated.
func (d *DB) repeat(ctx context.Context, do func(tx *sql.Tx) error, began time.Time) error {
	pause := firstPause
	for attempt := 1; ; attempt++ {
		again, err := d.attempt(ctx, do)
		if err == nil {
			return nil
		}

		if !again || attempt == maxAttempts || time.Since(began) > maxRetrying {
			return ended(ctx, err)
		}

		d.metrics.retries.Add(ctx, 1)
		d.logger.LogAttrs(ctx, slog.LevelDebug, "repeat transaction", slog.Int("attempt", attempt), slog.Any("err", err))
		if !wait(ctx, pause/2+rand.N(pause)) { // jitter needs no secure randomness
			return ended(ctx, err)
		}

		pause = min(2*pause, maxPause)
	}
}

type checkKey struct{}

// A Check decides whether a transaction may commit.
type Check func(ctx context.Context, tx *sql.Tx) error

// WithCheck returns a context whose calls of [DB.Tx] run check at the end of each transaction. If
// it fails, the transaction is rolled back, and Tx returns its error. It replaces the check of ctx;
// nil removes it.
func WithCheck(ctx context.Context, check Check) context.Context {
	return context.WithValue(ctx, checkKey{}, check)
}

func checked(ctx context.Context, do func(*sql.Tx) error) func(*sql.Tx) error {
	check, _ := ctx.Value(checkKey{}).(Check)
	if check == nil {
		return do
	}

	return func(tx *sql.Tx) error {
		if err := do(tx); err != nil {
			return err
		}

		return check(ctx, tx)
	}
}

// attempt runs the transaction once. It reports whether another attempt is safe and may succeed.
func (d *DB) attempt(ctx context.Context, do func(tx *sql.Tx) error) (bool, error) {
	// The transaction ends with ctx until its COMMIT starts: a disconnect of the client must not
	// leave the outcome unknown.
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	detach := context.AfterFunc(ctx, cancel)
	defer detach()
	tx, err := d.write.BeginTx(inner, nil)
	if err != nil {
		return retryable(err) || lost(err), fmt.Errorf("begin transaction: %w", err)
	}

	defer func() { _ = tx.Rollback() }() // for a panic or runtime.Goexit in do; otherwise a no-op
	if err := d.limitTx(inner, tx); err != nil {
		return retryable(err) || lost(err), err
	}

	if err := do(tx); err != nil {
		_ = tx.Rollback() // the error of do is more specific
		return retryable(err), err
	}

	if !detach() && ctx.Err() != nil {
		return false, fmt.Errorf("commit transaction: %w", context.Cause(ctx))
	}

	defer time.AfterFunc(commitGrace, cancel).Stop()
	err = d.metrics.commit(tx)
	switch {
	case err == nil:
		return false, nil
	case rolledBack(err):
		return retryable(err), fmt.Errorf("commit transaction: %w", err)
	default:
		return false, unavailable(fmt.Errorf("commit transaction, with unknown outcome: %w", err))
	}
}

// ended adds the cause of ctx to err if ctx has ended.
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
