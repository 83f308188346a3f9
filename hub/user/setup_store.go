package user

import (
	"context"
	"time"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/store"

	"github.com/seed93082962/agenthost/hub/db"
)

// The rows of the instance table belong to the whole hub: they have no tenant.

// setupRequired reports whether there is no user with a password yet.
func setupRequired(ctx context.Context, q db.Querier) (required bool, err error) {
	err = q.QueryRowContext(ctx, `SELECT NOT EXISTS (SELECT 1 FROM members WHERE tenant_id = $1 AND auth_source = $2)`,
		api.DefaultTenant, sourceBuiltin).Scan(&required)
	return required, db.Wrap("read members", err)
}

// deleteGivenTokens deletes the setup tokens of other configurations.
func deleteGivenTokens(ctx context.Context, tx *store.Tx, except string) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM instance WHERE substr(name, 1, 18) = $1 AND name <> $2`, givenTokenRow, except)
	return err
}

// insertSetupToken stores a setup token, or extends it.
func insertSetupToken(ctx context.Context, tx *store.Tx, row string, expires time.Time) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO instance (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value`,
		row, setupExpiry(expires))
	return err
}

// renewSetupToken extends a setup token if it is still stored, and deletes the expired ones.
func renewSetupToken(ctx context.Context, q db.Querier, row string, now time.Time) error {
	_, err := q.ExecContext(ctx, `UPDATE instance SET value = $1 WHERE name = $2`, setupExpiry(now.Add(setupTokenLife)), row)
	if err != nil {
		return db.Wrap("renew setup token", err)
	}
	_, err = q.ExecContext(ctx, `DELETE FROM instance WHERE substr(name, 1, 12) = $1 AND value <= $2`, setupTokenRow, setupExpiry(now))
	return db.Wrap("delete setup tokens", err)
}

// deleteSetupTokens deletes all setup tokens.
func deleteSetupTokens(ctx context.Context, tx *store.Tx) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM instance WHERE substr(name, 1, 12) = $1`, setupTokenRow)
	return db.Wrap("delete setup tokens", err)
}

// setupTokenKnown reports whether a setup token is stored and has not expired.
func setupTokenKnown(ctx context.Context, q db.Querier, raw string, now time.Time) (known bool, err error) {
	err = q.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM instance WHERE name IN ($1, $2) AND value > $3)`,
		setupRow(setupTokenRow, raw), setupRow(givenTokenRow, raw), setupExpiry(now)).Scan(&known)
	return known, db.Wrap("read setup tokens", err)
}

// deleteInvites deletes the invites of all tenants that ended before a time.
func deleteInvites(ctx context.Context, q db.Querier, before time.Time) error {
	_, err := q.ExecContext(ctx, `DELETE FROM invites WHERE expires_at < $1 OR used_at < $1 OR revoked_at < $1`, db.Micros(before))
	return db.Wrap("delete invites", err)
}
