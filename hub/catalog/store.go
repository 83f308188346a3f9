package catalog

import (
	"context"
	"database/sql"
	"errors"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
)

// count runs a SELECT COUNT(*).
func count(ctx context.Context, q db.Querier, what, query string, args ...any) (n int, err error) {
	err = q.QueryRowContext(ctx, query, args...).Scan(&n)
	return n, db.Wrap(what, err)
}

// found reports whether a SELECT COUNT(*) finds a row.
func found(ctx context.Context, q db.Querier, what, query string, args ...any) (bool, error) {
	n, err := count(ctx, q, what, query, args...)
	return n > 0, err
}

// missing returns the error of reading one row: none if there is no row.
func missing(err error, what string, none *api.Error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return none
	}
	return db.Wrap(what, err)
}

// taken returns the error of an INSERT: api.NameTaken if there is a row of that name.
func taken(err error, what string) error {
	if db.UniqueViolation(err) {
		return api.NameTaken
	}
	return db.Wrap(what, err)
}

func scanText(row db.Scanner) (text string, err error) {
	err = row.Scan(&text)
	return text, err
}

// scanPair reads a name and a text.
func scanPair(row db.Scanner) (pair [2]string, err error) {
	err = row.Scan(&pair[0], &pair[1])
	return pair, err
}
