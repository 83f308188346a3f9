package user

import (
	"context"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/store"

	"github.com/seed93082962/agenthost/internal/db"
)

// The rows of the instance table belong to the whole hub: they have no tenant.

// setupRequired reports whether there is no user with a password yet.
func setupRequired(ctx context.Context, q db.Querier) (bool, error) {
	return db.Value[bool](ctx, q, "read members", `SELECT NOT EXISTS (SELECT 1 FROM members WHERE tenant_id = $1 AND auth_source = $2)`,
		api.DefaultTenant, sourceBuiltin)
}

// deleteGivenTokens deletes the setup tokens of other configurations.
func deleteGivenTokens(ctx context.Context, tx *store.Tx, except string) error {
	return db.Exec(ctx, tx, "delete setup tokens",
		`DELETE FROM instance WHERE substr(name, 1, 18) = $1 AND name <> $2`, givenTokenRow, except)
}

// insertSetupToken stores a setup token, or extends it.
func insertSetupToken(ctx context.Context, tx *store.Tx, row string, expires time.Time) error {
	return db.Exec(ctx, tx, "insert setup token",
		`INSERT INTO instance (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value`, row, setupExpiry(expires))
}

// renewSetupToken extends a setup token if it is still stored, and deletes the expired ones. A call
// that was delayed does not shorten what a later one has extended.
func renewSetupToken(ctx context.Context, q db.Querier, row string, now time.Time) error {
	err := db.Exec(ctx, q, "renew setup token", `UPDATE instance SET value = $1 WHERE name = $2 AND value < $1`, setupExpiry(now.Add(setupTokenLife)), row)
	if err != nil {
		return err
	}

	return db.Exec(ctx, q, "delete setup tokens",
		`DELETE FROM instance WHERE substr(name, 1, 12) = $1 AND value <= $2`, setupTokenRow, setupExpiry(now))
}

// deleteSetupTokens deletes all setup tokens.
func deleteSetupTokens(ctx context.Context, tx *store.Tx) error {
	return db.Exec(ctx, tx, "delete setup tokens", `DELETE FROM instance WHERE substr(name, 1, 12) = $1`, setupTokenRow)
}

// setupTokenKnown reports whether a setup token is stored and has not expired.
func setupTokenKnown(ctx context.Context, q db.Querier, raw string, now time.Time) (bool, error) {
	return db.Value[bool](ctx, q, "read setup tokens", `SELECT EXISTS (SELECT 1 FROM instance WHERE name IN ($1, $2) AND value > $3)`,
		setupRow(setupTokenRow, raw), setupRow(givenTokenRow, raw), setupExpiry(now))
}

// deleteInvites deletes the invites of all tenants that ended before a time.
func deleteInvites(ctx context.Context, q db.Querier, before time.Time) error {
	return db.Exec(ctx, q, "delete invites",
		`DELETE FROM invites WHERE expires_at < $1 OR used_at < $1 OR revoked_at < $1`, db.Micros(before))
}
