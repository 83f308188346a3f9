package catalog

import (
	"context"
	"fmt"
	"strings"

	"github.com/seed93082962/agenthost/hub/db"
)

// storedDigest is the digest of an MCP server or a knowledge set as it is stored, and of a tool or a
// skill that of its file.
type storedDigest struct {
	component

	version int64
	text    string
}

func scanDigest(row db.Scanner) (d storedDigest, err error) {
	err = row.Scan(&d.kind, &d.name, &d.version, &d.text)
	return d, err
}

// readDigests returns the digests of all components of a tenant, and those that are not stored.
func readDigests(ctx context.Context, q db.Querier, tenantID string) (digests, []storedDigest, error) {
	rows, err := db.Collect(ctx, q, "read digests", scanDigest, `SELECT 'tool', name, version, hash || '/' || file_name FROM tools WHERE tenant_id = $1
		UNION ALL SELECT 'skill', name, version, hash FROM skills WHERE tenant_id = $1
		UNION ALL SELECT 'mcp', name, version, digest FROM mcps WHERE tenant_id = $1
		UNION ALL SELECT 'knowledge', name, version, digest FROM knowledge WHERE tenant_id = $1`, tenantID)
	if err != nil {
		return nil, nil, err
	}
	return currentDigests(ctx, q, tenantID, rows)
}

// boundDigests is readDigests for the components that an agent is bound to.
func boundDigests(ctx context.Context, q db.Querier, tenantID, agentID string) (digests, []storedDigest, error) {
	rows, err := db.Collect(ctx, q, "read digests", scanDigest, `SELECT b.kind, c.name, c.version, c.hash || '/' || c.file_name
			FROM agent_bindings b JOIN tools c ON c.tenant_id = b.tenant_id AND c.name = b.name WHERE b.tenant_id = $1 AND b.agent_id = $2 AND b.kind = 'tool'
		UNION ALL SELECT b.kind, c.name, c.version, c.hash
			FROM agent_bindings b JOIN skills c ON c.tenant_id = b.tenant_id AND c.name = b.name WHERE b.tenant_id = $1 AND b.agent_id = $2 AND b.kind = 'skill'
		UNION ALL SELECT b.kind, c.name, c.version, c.digest
			FROM agent_bindings b JOIN mcps c ON c.tenant_id = b.tenant_id AND c.name = b.name WHERE b.tenant_id = $1 AND b.agent_id = $2 AND b.kind = 'mcp'
		UNION ALL SELECT b.kind, c.name, c.version, c.digest
			FROM agent_bindings b JOIN knowledge c ON c.tenant_id = b.tenant_id AND c.name = b.name WHERE b.tenant_id = $1 AND b.agent_id = $2 AND b.kind = 'knowledge'`,
		tenantID, agentID)
	if err != nil {
		return nil, nil, err
	}
	return currentDigests(ctx, q, tenantID, rows)
}

// currentDigests returns the digests of rows. It computes those that are not stored or are those of
// another version of the row, and returns them in addition.
func currentDigests(ctx context.Context, q db.Querier, tenantID string, rows []storedDigest) (all digests, outdated []storedDigest, err error) {
	all = digests{}
	for _, d := range rows {
		if d.kind != kindMCP && d.kind != kindKnowledge {
			all[d.component] = d.text
			continue
		}
		text, ok := strings.CutPrefix(d.text, fmt.Sprint(d.version, " "))
		if !ok {
			if d.text, err = readDigest(ctx, q, tenantID, d.component); err != nil {
				return nil, nil, err
			}
			_, text, _ = strings.Cut(d.text, " ")
			outdated = append(outdated, d)
		}
		all[d.component] = text
	}
	return all, outdated, nil
}

// readDigest computes the digest of a component from its row.
func readDigest(ctx context.Context, q db.Querier, tenantID string, c component) (string, error) {
	if c.kind == kindMCP {
		v, err := mcpByName(ctx, q, tenantID, c.name)
		if err != nil {
			return "", err
		}
		return v.digest()
	}
	v, err := knowledgeByName(ctx, q, tenantID, c.name)
	if err != nil {
		return "", err
	}
	return v.digest()
}

// storeDigests stores digests of rows that have not changed in the meantime.
func storeDigests(ctx context.Context, q db.Querier, tenantID string, all []storedDigest) error {
	for _, d := range all {
		statement := `UPDATE mcps SET digest = $1 WHERE tenant_id = $2 AND name = $3 AND version = $4`
		if d.kind == kindKnowledge {
			statement = `UPDATE knowledge SET digest = $1 WHERE tenant_id = $2 AND name = $3 AND version = $4`
		}
		if _, err := db.Affected(ctx, q, "store digest", statement, d.text, tenantID, d.name, d.version); err != nil {
			return err
		}
	}
	return nil
}
