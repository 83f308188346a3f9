package identity

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/seed93082962/agenthost/hub/db"
)

// scanner is a row, querier a pool or a transaction.
type (
	scanner interface{ Scan(dest ...any) error }
	querier interface {
		ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
		QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
		QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	}
)

// fault wraps err with the operation that failed. The result wraps [db.ErrUnavailable] if the
// database was unavailable: the response is then 503 and never 401.
func fault(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case db.Unavailable(err) && !errors.Is(err, db.ErrUnavailable):
		return fmt.Errorf("%s: %w: %w", what, db.ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// affected runs a statement and returns the number of changed rows.
func affected(ctx context.Context, q querier, what, query string, args ...any) (int64, error) {
	res, err := q.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, fault(what, err)
	}
	n, err := res.RowsAffected()
	return n, fault(what, err)
}

// timeOf and microsOf convert between a column that may be NULL and a time. NULL is the zero time.
func timeOf(n sql.NullInt64) time.Time {
	if !n.Valid {
		return time.Time{}
	}
	return db.Time(n.Int64)
}

func microsOf(t time.Time) sql.NullInt64 {
	if t.IsZero() {
		return sql.NullInt64{}
	}
	return sql.NullInt64{Int64: db.Micros(t), Valid: true}
}

// now returns the current time in microseconds, as it is stored.
func (s *Service) now() time.Time { return s.cfg.Now().UTC().Truncate(time.Microsecond) }

// newToken returns a token of 256 random bits, and the hash that is stored.
func newToken(prefix string) (raw string, hash []byte) {
	var b [32]byte
	rand.Read(b[:])
	raw = prefix + hex.EncodeToString(b[:])
	return raw, hashToken(raw)
}

// hashToken returns the form in which a token is stored. It needs no salt and no stretching: a
// token has 256 bits.
func hashToken(raw string) []byte {
	h := sha256.Sum256([]byte(raw))
	return h[:]
}
