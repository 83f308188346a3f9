package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/hub/store"
)

const mcpColumns = `id, name, title, description, transport, command, args, env, cwd, sandbox, url, headers, enabled, version, created_at, updated_at`

// scanMCP reads a server with sealed values.
func scanMCP(row db.Scanner) (v MCP, err error) {
	var (
		args, env, headers, sandbox string
		created, updated            int64
	)
	err = row.Scan(&v.ID, &v.Name, &v.Title, &v.Description, &v.Transport, &v.Command, &args, &env, &v.CWD, &sandbox, &v.URL, &headers, &v.Enabled,
		&v.Version, &created, &updated)
	if err != nil {
		return v, err
	}
	v.CreatedAt, v.UpdatedAt = api.Time(db.Time(created)), api.Time(db.Time(updated))
	return v, errors.Join(json.Unmarshal([]byte(args), &v.Args), json.Unmarshal([]byte(env), &v.Env), json.Unmarshal([]byte(headers), &v.Headers),
		decodeSandbox(sandbox, &v.Sandbox))
}

func mcpsOf(ctx context.Context, q db.Querier, tenantID string, page api.Page) (list api.List[MCP], err error) {
	list.Total, err = count(ctx, q, "count MCP servers", `SELECT COUNT(*) FROM mcps WHERE tenant_id = $1 AND search LIKE $2 ESCAPE '\'`,
		tenantID, searchPattern(page.Query))
	if err != nil {
		return list, err
	}
	list.Items, err = db.Collect(ctx, q, "list MCP servers", scanMCP, `SELECT `+mcpColumns+` FROM mcps
		WHERE tenant_id = $1 AND search LIKE $2 ESCAPE '\' ORDER BY name LIMIT $3 OFFSET $4`,
		tenantID, searchPattern(page.Query), page.Size, page.Offset())
	return list, err
}

func mcpByName(ctx context.Context, q db.Querier, tenantID, name string) (MCP, error) {
	v, err := scanMCP(q.QueryRowContext(ctx, `SELECT `+mcpColumns+` FROM mcps WHERE tenant_id = $1 AND name = $2`, tenantID, name))
	return v, missing(err, "read MCP server", errNoMCP)
}

func mcpExists(ctx context.Context, q db.Querier, tenantID, name string) (bool, error) {
	return found(ctx, q, "read MCP server", `SELECT COUNT(*) FROM mcps WHERE tenant_id = $1 AND name = $2`, tenantID, name)
}

// digest returns the text of the content without its values. A server without cwd and sandbox has
// the digest of versions that do not have the fields.
func (v MCP) digest() (string, error) {
	content := []any{v.Transport, v.Command, v.Args, v.URL, names(v.Env), names(v.Headers), v.Enabled}
	sandbox, err := encodeSandbox(v.Sandbox)
	if err != nil {
		return "", err
	}
	switch {
	case sandbox != "":
		content = append(content, v.CWD, sandbox)
	case v.CWD != "":
		content = append(content, v.CWD)
	}
	return versioned(v.Version, content)
}

// pairs returns the JSON of args, env, headers and sandbox.
func (v MCP) pairs() (args, env, headers, sandbox string, err error) {
	a, err1 := json.Marshal(v.Args)
	e, err2 := json.Marshal(v.Env)
	h, err3 := json.Marshal(v.Headers)
	s, err4 := encodeSandbox(v.Sandbox)
	return string(a), string(e), string(h), s, errors.Join(err1, err2, err3, err4)
}

func insertMCP(ctx context.Context, tx *store.Tx, tenantID string, v MCP) error {
	args, env, headers, sandbox, err := v.pairs()
	if err != nil {
		return db.Wrap("encode MCP server", err)
	}
	digest, err := v.digest()
	if err != nil {
		return db.Wrap("encode MCP server", err)
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO mcps (tenant_id, `+mcpColumns+`, search, digest)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)`,
		tenantID, v.ID, v.Name, v.Title, v.Description, v.Transport, v.Command, args, env, v.CWD, sandbox, v.URL, headers, v.Enabled, v.Version,
		db.Micros(time.Time(v.CreatedAt)), db.Micros(time.Time(v.UpdatedAt)), searchText(v.Name, v.Title), digest)
	return taken(err, "insert MCP server")
}

func updateMCP(ctx context.Context, tx *store.Tx, tenantID string, v MCP) error {
	args, env, headers, sandbox, err := v.pairs()
	if err != nil {
		return db.Wrap("encode MCP server", err)
	}
	digest, err := v.digest()
	if err != nil {
		return db.Wrap("encode MCP server", err)
	}
	_, err = tx.ExecContext(ctx, `UPDATE mcps SET title = $3, description = $4, transport = $5, command = $6, args = $7, env = $8, cwd = $9, sandbox = $10, url = $11,
			headers = $12, enabled = $13, version = $14, updated_at = $15, search = $16, digest = $17
		WHERE tenant_id = $1 AND id = $2`,
		tenantID, v.ID, v.Title, v.Description, v.Transport, v.Command, args, env, v.CWD, sandbox, v.URL, headers, v.Enabled, v.Version,
		db.Micros(time.Time(v.UpdatedAt)), searchText(v.Name, v.Title), digest)
	return db.Wrap("update MCP server", err)
}

func deleteMCP(ctx context.Context, tx *store.Tx, tenantID, id string) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM mcps WHERE tenant_id = $1 AND id = $2`, tenantID, id)
	return db.Wrap("delete MCP server", err)
}
