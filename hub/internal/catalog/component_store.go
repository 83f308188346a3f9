package catalog

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/seed93082962/agenthost/internal/db"
)

// all returns the columns of a component, which are those of its kind after the common ones.
func (c *Components[T, In]) all(v *T) []column {
	common := c.common(v)
	return append([]column{
		{"id", &common.ID}, {"name", &common.Name}, {"title", &common.Title}, {"description", &common.Description},
		{"version", &common.Version}, {"created_at", &common.CreatedAt}, {"updated_at", &common.UpdatedAt},
	}, c.columns(v)...)
}

// written returns the columns of a component with those that are only written.
func (c *Components[T, In]) written(v *T) ([]column, error) {
	common := c.common(v)
	search := searchText(common.Name, common.Title)
	columns := append(c.all(v), column{"search", &search})
	if c.content == nil {
		return columns, nil
	}

	digest, err := c.digest(*v)
	return append(columns, column{"digest", &digest}), err
}

// Conditions of a list.
const (
	ofType      = ` AND type = $3`
	usableScene = ` AND enabled AND EXISTS (SELECT 1 FROM agents a WHERE a.tenant_id = $1 AND a.name = agent_name AND a.enabled)`
	ofDataset   = ` AND dataset_id = $3`
)

// withoutAgents adds to a condition that the agent is none of the names.
func withoutAgents(and string, args []any, names []string) (string, []any) {
	if len(names) == 0 {
		return and, args
	}

	marks := make([]string, len(names))
	for i, name := range names {
		args = append(args, name)
		marks[i] = "$" + strconv.Itoa(2+len(args)) // after the tenant and the query
	}

	return and + ` AND agent_name NOT IN (` + strings.Join(marks, ", ") + `)`, args
}

func (c *Components[T, In]) scan(row db.Scanner) (T, error) {
	var v T
	err := scanRow(row, c.all(&v))
	return v, err
}

// page returns a part of the components that a query and a condition find, and the number of all of
// them. The parameters of the condition begin with $3. Texts of the column c.long are cut.
func (c *Components[T, In]) page(ctx context.Context, tenantID, query string, limit, offset int, and string, args ...any) ([]T, int, error) {
	columns := c.all(new(T))
	for i := range columns {
		if columns[i].name == c.long {
			columns[i].name = "SUBSTR(" + c.long + ", 1, " + strconv.Itoa(maxListedPrompt+1) + ")"
		}
	}

	args = append([]any{tenantID, db.Containing(strings.ToLower(query))}, args...)
	part := db.Page{Order: c.order, Limit: limit, Offset: offset}
	return db.List(ctx, c.s.store.Read(), "list "+c.table, c.scan, part, `SELECT `+namesOf(columns)+` FROM `+c.table+`
		WHERE tenant_id = $1 AND search LIKE $2 ESCAPE '\'`+and, args...)
}

// named returns the component of that name, or api.NotFound.
func (c *Components[T, In]) named(ctx context.Context, q db.Querier, tenantID, name string) (T, error) {
	v, err := c.scan(q.QueryRowContext(ctx, `SELECT `+namesOf(c.all(new(T)))+` FROM `+c.table+` WHERE tenant_id = $1 AND name = $2`, tenantID, name))
	return v, db.WrapOne("read from "+c.table, err, c.none)
}

// boundTo returns the components that an agent is bound to, sorted by name.
func (c *Components[T, In]) boundTo(ctx context.Context, q db.Querier, tenantID string, a Agent) ([]T, error) {
	bound := func(b binding) bool { return b.kind == c.kind && len(b.refs(&a)) > 0 }
	if !slices.ContainsFunc(bindings, bound) {
		return nil, nil
	}

	all, err := db.Collect(ctx, q, "read "+c.table+" of agent", c.scan, `SELECT `+namesOf(c.all(new(T)))+` FROM `+c.table+`
		WHERE tenant_id = $1 AND name IN (SELECT b.name FROM agent_bindings b WHERE b.tenant_id = $1 AND b.kind = $2 AND b.agent_id = $3)`,
		tenantID, string(c.kind), a.ID)
	// The order of the database depends on its locale.
	slices.SortFunc(all, func(a, b T) int { return strings.Compare(c.common(&a).Name, c.common(&b).Name) })
	return all, err
}

// usedKeys returns those of the keys of blobs that rows of any tenant name.
func usedKeys(ctx context.Context, q db.Querier, keys []string) ([]string, error) {
	args := make([]any, len(keys))
	marks := make([]string, len(keys))
	for i, key := range keys {
		_, rest, _ := strings.Cut(key, "/")
		hash, _, _ := strings.Cut(rest, "/")
		args[i], marks[i] = hash, "$"+strconv.Itoa(i+1)
	}

	in := strings.Join(marks, ", ")
	return db.Values[string](ctx, q, "find used artifacts", `SELECT 'tools/' || hash || '/' || file_name FROM tools WHERE hash IN (`+in+`)
		UNION SELECT 'skills/' || hash || '/' || name || '.zip' FROM skills WHERE hash IN (`+in+`)`, args...)
}

// ArtifactKeys returns the keys of all blobs that rows of any tenant name.
func ArtifactKeys(ctx context.Context, q db.Querier) ([]string, error) {
	return db.Values[string](ctx, q, "list artifacts", `SELECT 'tools/' || hash || '/' || file_name FROM tools
		UNION SELECT 'skills/' || hash || '/' || name || '.zip' FROM skills`)
}

// storedDigest is the digest of an MCP server or a knowledge set as it is stored, and of a tool or
// a skill that of its file.
type storedDigest struct {
	bound

	version int64
	text    string
}

// readDigests returns the digests of the components that an agent is bound to, or of all components
// of a tenant for "". It computes those that are not stored or are those of another version of the
// row, and returns them in addition.
func (s *Service) readDigests(ctx context.Context, q db.Querier, tenantID, agentID string) (digests, []storedDigest, error) {
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
	all := digests{}
	var outdated []storedDigest
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
func freshDigest[T, In any](ctx context.Context, q db.Querier, c *Components[T, In], tenantID, name string) (string, error) {
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
