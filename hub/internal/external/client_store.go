package external

import (
	"context"
	"errors"

	"github.com/seed93082962/agenthost/hub/internal/store"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/internal/db"
)

// errNoClient is returned by lookups without a result.
var errNoClient = errors.New("no such client")

const clientColumns = `org, provider, issuer, client_id, client_secret_enc, cert_enc, is_default, required_claim, role_claim, groups_claim, logout_revokes_tokens,
	created_at, updated_at`

func scanClient(row db.Scanner) (client, error) {
	var c client
	err := row.Scan(&c.Org, &c.Provider, &c.Issuer, &c.ClientID, &c.secretEnc, &c.certEnc, &c.IsDefault,
		db.JSON{V: &c.RequiredClaim}, db.JSON{V: &c.RoleClaim}, &c.GroupsClaim, &c.LogoutRevokesTokens, &c.CreatedAt, &c.UpdatedAt)
	return c, err
}

func oneClient(row db.Scanner) (client, error) {
	c, err := scanClient(row)
	return c, db.WrapOne("read tenant client", err, errNoClient)
}

// lockClients makes the transaction wait for all others that change clients.
func lockClients(ctx context.Context, tx *store.Tx) error {
	return db.Exec(ctx, tx, "lock tenant clients", `UPDATE tenant_client_changes SET version = version + 1 WHERE id = 1`)
}

func clientOf(ctx context.Context, q db.Querier, org string) (client, error) {
	return oneClient(q.QueryRowContext(ctx, `SELECT `+clientColumns+` FROM tenant_clients WHERE org = $1`, org))
}

// lockClient is clientOf for a transaction that relies on the row: changes wait for it.
func lockClient(ctx context.Context, tx *store.Tx, org string) (client, error) {
	return oneClient(tx.QueryRowContext(ctx, `UPDATE tenant_clients SET updated_at = updated_at WHERE org = $1 RETURNING `+clientColumns, org))
}

func defaultClient(ctx context.Context, q db.Querier) (client, error) {
	return oneClient(q.QueryRowContext(ctx, `SELECT `+clientColumns+` FROM tenant_clients WHERE is_default`))
}

// clientsOf returns a page of all organizations, by name, and their number.
func clientsOf(ctx context.Context, q db.Querier, page api.Page) ([]client, int, error) {
	part := db.Page{Order: `org`, Limit: page.Size, Offset: page.Offset()}
	return db.List(ctx, q, "list tenant clients", scanClient, part, `SELECT `+clientColumns+` FROM tenant_clients`)
}

// clientsByID returns the clients of all organizations with that client id at the issuer.
func clientsByID(ctx context.Context, q db.Querier, issuer, id string) ([]client, error) {
	return db.Collect(ctx, q, "list tenant clients", scanClient, `SELECT `+clientColumns+` FROM tenant_clients
		WHERE client_id = $1 AND issuer = $2 ORDER BY org`, id, issuer)
}

// otherClients reports whether another organization is registered.
func otherClients(ctx context.Context, q db.Querier, org string) (bool, error) {
	return db.Value[bool](ctx, q, "read tenant clients", `SELECT EXISTS (SELECT 1 FROM tenant_clients WHERE org <> $1)`, org)
}

// clearDefault makes the organization no longer the default.
func clearDefault(ctx context.Context, tx *store.Tx, org string) error {
	return db.Exec(ctx, tx, "update tenant client",
		`UPDATE tenant_clients SET is_default = FALSE, updated_at = $1 WHERE org = $2`, db.Micros(tx.Now), org)
}

// putClient inserts or replaces a client.
func putClient(ctx context.Context, tx *store.Tx, c client) error {
	return db.Exec(ctx, tx, "store tenant client",
		`INSERT INTO tenant_clients (`+clientColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
		ON CONFLICT (org) DO UPDATE SET provider = excluded.provider, issuer = excluded.issuer, client_id = excluded.client_id,
			client_secret_enc = excluded.client_secret_enc, cert_enc = excluded.cert_enc, is_default = excluded.is_default,
			required_claim = excluded.required_claim, role_claim = excluded.role_claim, groups_claim = excluded.groups_claim,
			logout_revokes_tokens = excluded.logout_revokes_tokens,
			updated_at = excluded.updated_at`,
		c.Org, c.Provider, c.Issuer, c.ClientID, c.secretEnc, c.certEnc, c.IsDefault,
		db.JSON{V: &c.RequiredClaim, Zero: ""}, db.JSON{V: &c.RoleClaim, Zero: ""}, c.GroupsClaim, c.LogoutRevokesTokens, c.CreatedAt, c.UpdatedAt)
}

func deleteClient(ctx context.Context, tx *store.Tx, org string) error {
	return db.Exec(ctx, tx, "delete tenant client", `DELETE FROM tenant_clients WHERE org = $1`, org)
}

// owner is the client that the data of an organization belongs to. It remains when the client is
// deleted.
type owner struct{ issuer, clientID string }

// ownerOf returns the zero owner if the organization was never registered.
func ownerOf(ctx context.Context, q db.Querier, org string) (owner, error) {
	var o owner
	err := q.QueryRowContext(ctx, `SELECT issuer, client_id FROM org_owners WHERE org = $1`, org).Scan(&o.issuer, &o.clientID)
	return o, db.WrapOne("read owner of organization", err, nil)
}

func putOwner(ctx context.Context, tx *store.Tx, c client) error {
	return db.Exec(ctx, tx, "store owner of organization", `INSERT INTO org_owners (org, issuer, client_id) VALUES ($1, $2, $3)
		ON CONFLICT (org) DO UPDATE SET issuer = excluded.issuer, client_id = excluded.client_id`, c.Org, c.Issuer, c.ClientID)
}
