package catalog

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/seed93082962/agenthost/hub/db"
)

// storedDigest is the digest of an MCP server or a knowledge set as it is stored, and of a tool or a
// skill that of its file.
type storedDigest struct {
	bound

	version int64
	text    string
}

// readDigests returns the digests of the components that an agent is bound to, or of all components
// of a tenant for "". It computes those that are not stored or are those of another version of the
// row, and returns them in addition.
func (s *Service) readDigests(ctx context.Context, q db.Querier, tenantID, agentID string) (all digests, outdated []storedDigest, err error) {
	parts := make([]string, len(bindings))
	for i, b := range bindings {
		parts[i] = `SELECT '` + string(b.kind) + `', c.name, c.version, ` + b.digest + ` FROM ` + b.table + ` c WHERE c.tenant_id = $1`
		if agentID != "" {
			parts[i] += ` AND c.name IN (SELECT b.name FROM agent_bindings b WHERE b.tenant_id = $1 AND b.agent_id = $2 AND b.kind = '` + string(b.kind) + `')`
		}
	}
	args := []any{tenantID, agentID}
	if agentID == "" {
		args = args[:1]
	}
	rows, err := db.Collect(ctx, q, "read digests", func(row db.Scanner) (d storedDigest, err error) {
		err = row.Scan(&d.kind, &d.name, &d.version, &d.text)
		return d, err
	}, strings.Join(parts, ` UNION ALL `), args...)
	all = digests{}
	for _, d := range rows {
		text, current := strings.CutPrefix(d.text, strconv.FormatInt(d.version, 10)+" ")
		switch {
		case d.kind == kindMCP && !current:
			d.text, err = freshDigest(ctx, q, s.MCPs, tenantID, d.name)
		case d.kind == kindKnowledge && !current:
			d.text, err = freshDigest(ctx, q, s.Knowledge, tenantID, d.name)
		default:
			all[d.bound] = text
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		_, all[d.bound], _ = strings.Cut(d.text, " ")
		outdated = append(outdated, d)
	}
	return all, outdated, err
}

// freshDigest computes the digest of a component from its row.
func freshDigest[T any, In input[T], P component[T]](ctx context.Context, q db.Querier, c *Components[T, In, P], tenantID, name string) (string, error) {
	v, err := c.named(ctx, q, tenantID, name)
	if err != nil {
		return "", err
	}
	return c.digest(v)
}

// storeDigests stores digests of rows that have not changed in the meantime.
func storeDigests(ctx context.Context, q db.Querier, tenantID string, all []storedDigest) error {
	for _, d := range all {
		i := slices.IndexFunc(bindings, func(b binding) bool { return b.kind == d.kind })
		_, err := db.Affected(ctx, q, "store digest", `UPDATE `+bindings[i].table+` SET digest = $1 WHERE tenant_id = $2 AND name = $3 AND version = $4`,
			d.text, tenantID, d.name, d.version)
		if err != nil {
			return err
		}
	}
	return nil
}
