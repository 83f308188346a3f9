package provider

import (
	"context"
	"database/sql"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
)

// sealedKey is the column of the keys. A key is bound to its tenant and its base URL: it is not
// sent to another address because someone changed the row.
var sealedKey = store.Sealed{
	Table: "providers", Column: "api_key_enc", ID: "id", Bound: []string{"tenant_id", "base_url"}, Unbound: true,
	Advice: "enter the key of the provider again, or delete the provider",
}

// sealedSettings is the column of the settings without a column of their own. It is bound as a key.
var sealedSettings = store.Sealed{
	Table: "providers", Column: "settings_enc", ID: "id", Bound: []string{"tenant_id", "base_url"},
	Advice: "enter the headers, the query and the body of the provider again, or delete the provider",
}

// sharedKey is the column of the keys that tenants have given to built-in providers.
var sharedKey = store.Sealed{
	Table: "shared_provider_keys", Column: "api_key_enc", ID: "id", Bound: []string{"tenant_id"},
	Advice: "enter the key of the provider again",
}

// sharedKeyID returns the id of the row with the key of a tenant for a built-in provider.
func sharedKeyID(tenantID, providerID string) string { return tenantID + "/" + providerID }

// Sealed returns the sealed columns of this package.
func Sealed() []store.Sealed { return []store.Sealed{sealedKey, sealedSettings, sharedKey} }

// columns are the columns that scanProvider reads, in its order.
const columns = `id, tenant_id, name, protocol, auth_style, base_url, api_key_enc, settings_enc, models, enabled, version, created_at, updated_at`

func scanProvider(from db.Scanner) (row, error) {
	var p row
	err := from.Scan(&p.ID, &p.tenantID, &p.Name, &p.Protocol, &p.AuthStyle, &p.BaseURL, &p.sealedKey, &p.sealedSettings,
		db.JSON{V: &p.Models}, &p.Enabled, &p.Version, &p.CreatedAt, &p.UpdatedAt)
	return p, err
}

// fold returns the form in which names are compared and searched.
func fold(name string) string { return strings.ToLower(name) }

// providersOf returns the providers of a tenant whose name contains the folded text, by name, and
// their number without limit and offset. Disabled ones are included if all is true.
func providersOf(ctx context.Context, q db.Querier, tenantID, text string, all bool, limit, offset int) ([]row, int, error) {
	part := db.Page{Order: `name_fold`, Limit: limit, Offset: offset}
	return db.List(ctx, q, "list providers", scanProvider, part, `SELECT `+columns+` FROM providers
		WHERE tenant_id = $1 AND name_fold LIKE $2 ESCAPE '\' AND (enabled OR $3)`, tenantID, db.Containing(text), all)
}

// maxMatched bounds the providers at one address that a match compares.
const maxMatched = 100

// eachProviderAt calls do with the enabled providers of a tenant with a protocol and a base URL,
// which has no query, the oldest first, up to 100. It holds one of them in memory.
func eachProviderAt(ctx context.Context, q db.Querier, tenantID, protocol, baseURL string, do func(row)) error {
	_, err := db.Collect(ctx, q, "match provider", func(from db.Scanner) (struct{}, error) {
		p, err := scanProvider(from)
		if err == nil {
			do(p)
		}

		return struct{}{}, err
	}, `SELECT `+columns+` FROM providers
		WHERE tenant_id = $1 AND protocol = $2 AND base_url = $3 AND enabled ORDER BY created_at, id LIMIT $4`, tenantID, protocol, baseURL, maxMatched)
	return err
}

// Room is what rows need of the quota of a tenant.
type Room struct{ Rows, Bytes int }

// Room returns what the providers of a tenant need.
func (s *Service) Room(ctx context.Context, tx *sql.Tx, tenantID string) (Room, error) {
	var r Room
	err := tx.QueryRowContext(ctx, `SELECT COUNT(*), CAST(COALESCE(SUM(1024 + octet_length(name) + octet_length(base_url) + octet_length(models)
			+ COALESCE(octet_length(api_key_enc), 0) + COALESCE(octet_length(settings_enc), 0)), 0) AS BIGINT)
		FROM providers WHERE tenant_id = $1`, tenantID).Scan(&r.Rows, &r.Bytes)
	return r, db.Wrap("measure providers", err)
}

// providerByID returns a provider of the tenant, or wire.NotFound.
func providerByID(ctx context.Context, q db.Querier, tenantID, id string) (row, error) {
	return oneProvider(q.QueryRowContext(ctx, `SELECT `+columns+` FROM providers WHERE tenant_id = $1 AND id = $2`, tenantID, id))
}

// lockProvider returns a provider of the tenant, or wire.NotFound. Until the transaction ends, no
// other one changes or deletes it.
func lockProvider(ctx context.Context, q db.Querier, tenantID, id string) (row, error) {
	return oneProvider(q.QueryRowContext(ctx, `UPDATE providers SET version = version WHERE tenant_id = $1 AND id = $2 RETURNING `+columns, tenantID, id))
}

// deleteProvider deletes a provider of the tenant and returns it, or wire.NotFound.
func deleteProvider(ctx context.Context, q db.Querier, tenantID, id string) (row, error) {
	return oneProvider(q.QueryRowContext(ctx, `DELETE FROM providers WHERE tenant_id = $1 AND id = $2 RETURNING `+columns, tenantID, id))
}

// readSharedKeys sets the keys that the tenant has given to built-in providers.
func readSharedKeys(ctx context.Context, q db.Querier, tenantID string, shared []row) error {
	_, err := db.Collect(ctx, q, "read keys of built-in providers", func(from db.Scanner) (struct{}, error) {
		key := row{tenantID: tenantID}
		err := from.Scan(&key.ID, &key.sealedKey, &key.Version, &key.UpdatedAt)
		if i := slices.IndexFunc(shared, func(p row) bool { return p.ID == key.ID }); i >= 0 {
			p := &shared[i]
			p.tenantID, p.sealedKey = tenantID, key.sealedKey
			p.Version, p.UpdatedAt = key.Version, key.UpdatedAt
		}

		return struct{}{}, err
	}, `SELECT provider_id, api_key_enc, version, updated_at FROM shared_provider_keys WHERE tenant_id = $1`, tenantID)
	return err
}

// writeSharedKey writes the key of a tenant for a built-in provider. A key that was removed is a
// row without one, so that versions grow.
func writeSharedKey(ctx context.Context, q db.Querier, p row) error {
	_, err := q.ExecContext(ctx, `INSERT INTO shared_provider_keys (id, tenant_id, provider_id, api_key_enc, version, updated_at)
			VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (id) DO UPDATE SET api_key_enc = excluded.api_key_enc, version = excluded.version, updated_at = excluded.updated_at`,
		sharedKeyID(p.tenantID, p.ID), p.tenantID, p.ID, p.sealedKey, p.Version, p.UpdatedAt)
	return db.Wrap("write key of built-in provider", err)
}

func oneProvider(from db.Scanner) (row, error) {
	p, err := scanProvider(from)
	return p, db.WrapOne("read provider", err, wire.NotFound.New("There is no such provider."))
}

func insertProvider(ctx context.Context, q db.Querier, p row) error {
	_, err := q.ExecContext(ctx, `INSERT INTO providers (`+columns+`, name_fold) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`,
		p.ID, p.tenantID, p.Name, p.Protocol, p.AuthStyle, p.BaseURL, p.sealedKey, p.sealedSettings, db.JSON{V: &p.Models, Zero: "[]"}, p.Enabled, p.Version,
		p.CreatedAt, p.UpdatedAt, fold(p.Name))
	return written("insert provider", err)
}

func updateProvider(ctx context.Context, q db.Querier, p row) error {
	_, err := q.ExecContext(ctx, `UPDATE providers SET name = $1, name_fold = $2, protocol = $3, auth_style = $4, base_url = $5, api_key_enc = $6,
			settings_enc = $7, models = $8, enabled = $9, version = $10, updated_at = $11 WHERE tenant_id = $12 AND id = $13`,
		p.Name, fold(p.Name), p.Protocol, p.AuthStyle, p.BaseURL, p.sealedKey, p.sealedSettings, db.JSON{V: &p.Models, Zero: "[]"}, p.Enabled, p.Version,
		p.UpdatedAt, p.tenantID, p.ID)
	return written("update provider", err)
}

func written(what string, err error) error {
	if db.UniqueViolation(err) {
		return &wire.Error{Code: wire.NameTaken, Message: "Another provider has this name, in this or another letter case: choose another.", Cause: err}
	}

	return db.Wrap(what, err)
}

// HasData reports whether the tenant has providers or keys of its own.
func (s *Service) HasData(ctx context.Context, tx *sql.Tx, tenantID string) (bool, error) {
	return db.Value[bool](ctx, tx, "read providers", `SELECT EXISTS (SELECT 1 FROM providers WHERE tenant_id = $1)
		OR EXISTS (SELECT 1 FROM shared_provider_keys WHERE tenant_id = $1 AND api_key_enc IS NOT NULL)`, tenantID)
}
