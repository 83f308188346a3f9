package external

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
)

// errNoClient is returned by lookups without a result.
var errNoClient = errors.New("no such client")

const clientColumns = `org, provider, issuer, client_id, client_secret_enc, cert_enc, is_default, created_at, updated_at`

func scanClient(row db.Scanner) (c client, err error) {
	var created, updated int64
	err = row.Scan(&c.Org, &c.Provider, &c.Issuer, &c.ClientID, &c.SecretEnc, &c.CertEnc, &c.IsDefault, &created, &updated)
	c.CreatedAt, c.UpdatedAt = db.Time(created), db.Time(updated)
	return c, err
}

func oneClient(row db.Scanner) (client, error) {
	c, err := scanClient(row)
	if errors.Is(err, sql.ErrNoRows) {
		return client{}, errNoClient
	}
	return c, db.Wrap("read tenant client", err)
}

// lockClients makes the transaction wait for all others that change clients.
func lockClients(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, `UPDATE tenant_client_changes SET version = version + 1 WHERE id = 1`)
	return db.Wrap("lock tenant clients", err)
}

func clientOf(ctx context.Context, q db.Querier, org string) (client, error) {
	return oneClient(q.QueryRowContext(ctx, `SELECT `+clientColumns+` FROM tenant_clients WHERE org = $1`, org))
}

func defaultClient(ctx context.Context, q db.Querier) (client, error) {
	return oneClient(q.QueryRowContext(ctx, `SELECT `+clientColumns+` FROM tenant_clients WHERE is_default`))
}

// clientsOf returns a page of all organizations, by name, and their number.
func clientsOf(ctx context.Context, q db.Querier, page api.Page) ([]client, int, error) {
	var total int
	if err := q.QueryRowContext(ctx, `SELECT COUNT(*) FROM tenant_clients`).Scan(&total); err != nil {
		return nil, 0, db.Wrap("count tenant clients", err)
	}
	all, err := db.Collect(ctx, q, "list tenant clients", scanClient, `SELECT `+clientColumns+` FROM tenant_clients ORDER BY org LIMIT $1 OFFSET $2`,
		page.Size, page.Offset())
	return all, total, err
}

func everyClient(ctx context.Context, q db.Querier) ([]client, error) {
	return db.Collect(ctx, q, "list tenant clients", scanClient, `SELECT `+clientColumns+` FROM tenant_clients ORDER BY org`)
}

// clientsByID returns the clients of all organizations with that client id at the issuer.
func clientsByID(ctx context.Context, q db.Querier, issuer, id string) ([]client, error) {
	return db.Collect(ctx, q, "list tenant clients", scanClient, `SELECT `+clientColumns+` FROM tenant_clients
		WHERE client_id = $1 AND issuer = $2 ORDER BY org`, id, issuer)
}

// otherClients reports whether another organization is registered.
func otherClients(ctx context.Context, q db.Querier, org string) (some bool, err error) {
	err = q.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM tenant_clients WHERE org <> $1)`, org).Scan(&some)
	return some, db.Wrap("read tenant clients", err)
}

// clearDefault makes the organization no longer the default.
func clearDefault(ctx context.Context, tx *sql.Tx, org string, now time.Time) error {
	_, err := tx.ExecContext(ctx, `UPDATE tenant_clients SET is_default = FALSE, updated_at = $1 WHERE org = $2`, db.Micros(now), org)
	return db.Wrap("update tenant client", err)
}

// putClient inserts or replaces a client.
func putClient(ctx context.Context, tx *sql.Tx, c client) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO tenant_clients (`+clientColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
		ON CONFLICT (org) DO UPDATE SET provider = excluded.provider, issuer = excluded.issuer, client_id = excluded.client_id,
			client_secret_enc = excluded.client_secret_enc, cert_enc = excluded.cert_enc, is_default = excluded.is_default,
			updated_at = excluded.updated_at`,
		c.Org, c.Provider, c.Issuer, c.ClientID, c.SecretEnc, c.CertEnc, c.IsDefault, db.Micros(c.CreatedAt), db.Micros(c.UpdatedAt))
	return db.Wrap("store tenant client", err)
}

func deleteClient(ctx context.Context, tx *sql.Tx, org string) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM tenant_clients WHERE org = $1`, org)
	return db.Wrap("delete tenant client", err)
}
