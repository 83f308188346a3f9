package catalog

import (
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"reflect"
	"strconv"
	"strings"

	"github.com/seed93082962/agenthost/hub/internal/provider"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
)

// column is a column of a table with the pointer to the field that it is read into and written
// from. A field of another type than that of the column is a sql.Scanner and a driver.Valuer.
type column struct {
	name  string
	field any
}

// hashField is stored in hex, without the name of the function.
type hashField struct{ *string }

const hashPrefix = "sha256:"

func (f hashField) Value() (driver.Value, error) {
	return strings.TrimPrefix(*f.string, hashPrefix), nil
}

func (f hashField) Scan(src any) error {
	var text sql.NullString
	err := text.Scan(src)
	*f.string = hashPrefix + text.String
	return err
}

// namesOf returns the names of the columns for a SELECT.
func namesOf(columns []column) string {
	all := make([]string, len(columns))
	for i, c := range columns {
		all[i] = c.name
	}

	return strings.Join(all, ", ")
}

func scanRow(row db.Scanner, columns []column) error {
	dest := make([]any, len(columns))
	for i, c := range columns {
		dest[i] = c.field
	}

	return row.Scan(dest...)
}

// values returns the values of the columns after the first ones.
func values(columns []column, first ...any) []any {
	for _, c := range columns {
		if _, ok := c.field.(driver.Valuer); ok {
			first = append(first, c.field)
		} else {
			first = append(first, reflect.ValueOf(c.field).Elem().Interface())
		}
	}

	return first
}

// insertRow inserts a row of the tenant. It fails with wire.NameTaken if there is a row of its
// name.
func insertRow(ctx context.Context, tx *store.Tx, table string, columns []column) error {
	marks := make([]string, len(columns))
	for i := range marks {
		marks[i] = "$" + strconv.Itoa(i+2)
	}

	_, err := tx.ExecContext(ctx, `INSERT INTO `+table+` (tenant_id, `+namesOf(columns)+`) VALUES ($1, `+strings.Join(marks, ", ")+`)`,
		values(columns, tx.Caller.TenantID)...)
	if db.UniqueViolation(err) {
		return wire.NameTaken
	}

	return db.Wrap("insert into "+table, err)
}

// updateRow writes all columns of the row with the id that is the first column.
func updateRow(ctx context.Context, tx *store.Tx, table string, columns []column) error {
	set := make([]string, len(columns)-1)
	for i, c := range columns[1:] {
		set[i] = c.name + " = $" + strconv.Itoa(i+3)
	}

	return db.Exec(ctx, tx, "update "+table, `UPDATE `+table+` SET `+strings.Join(set, ", ")+` WHERE tenant_id = $1 AND id = $2`,
		values(columns, tx.Caller.TenantID)...)
}

func deleteRow(ctx context.Context, tx *store.Tx, table, id string) error {
	return db.Exec(ctx, tx, "delete from "+table, `DELETE FROM `+table+` WHERE tenant_id = $1 AND id = $2`, tx.Caller.TenantID, id)
}

// exists reports whether the tenant has a row of that name.
func exists(ctx context.Context, q db.Querier, table, tenantID, name string) (bool, error) {
	return db.Value[bool](ctx, q, "find in "+table,
		`SELECT EXISTS (SELECT 1 FROM `+table+` WHERE tenant_id = $1 AND name = $2)`, tenantID, name)
}

// searchText returns the value of a search column, with which a query is compared.
func searchText(name, title string) string { return strings.ToLower(name + "\n" + title) }

// lockHead increments the version of a tenant, which locks its row: other changes of the tenant
// wait. It is the first statement of each transaction that changes something.
func lockHead(ctx context.Context, tx *sql.Tx, tenantID string) error {
	return db.Exec(ctx, tx, "lock catalog", `INSERT INTO catalog_heads (tenant_id, version) VALUES ($1, 1)
		ON CONFLICT (tenant_id) DO UPDATE SET version = catalog_heads.version + 1`, tenantID)
}

// headVersion returns the version of a tenant. It is 0 if the tenant has no catalog.
func headVersion(ctx context.Context, q db.Querier, tenantID string) (int64, error) {
	return db.Value[int64](ctx, q, "read catalog version",
		`SELECT COALESCE((SELECT version FROM catalog_heads WHERE tenant_id = $1), 0)`, tenantID)
}

const readHashKey = `SELECT COALESCE((SELECT hash_key FROM catalog_heads WHERE tenant_id = $1), '')`

// hashKey returns the key of the content hashes of a tenant, which it makes for a catalog that has
// none.
func hashKey(ctx context.Context, q db.Querier, tenantID string) (string, error) {
	key, err := db.Value[string](ctx, q, "read hash key", readHashKey, tenantID)
	if err != nil || key != "" {
		return key, err
	}

	_, err = db.Affected(ctx, q, "make hash key", `UPDATE catalog_heads SET hash_key = $2 WHERE tenant_id = $1 AND hash_key = ''`, tenantID, rand.Text()+rand.Text())
	if err != nil {
		return "", err
	}

	return db.Value[string](ctx, q, "read hash key", readHashKey, tenantID)
}

// HasData reports whether something was ever stored in the catalog of the tenant.
func (s *Service) HasData(ctx context.Context, tx *sql.Tx, tenantID string) (bool, error) {
	version, err := headVersion(ctx, tx, tenantID)
	return version > 0, err
}

// rowBytes is the number of bytes that a row counts in addition to its values.
const rowBytes = 1 << 10

// room returns what the tenant has of its quota.
func (s *Service) room(ctx context.Context, tx *sql.Tx, tenantID string) (provider.Room, error) {
	all, err := s.cfg.Providers.Room(ctx, tx, tenantID)
	if err != nil {
		return all, err
	}

	parts := []string{`SELECT COUNT(*) AS number, COALESCE(SUM(bytes), 0) AS size FROM agents WHERE tenant_id = $1`}
	for _, table := range []struct {
		name    string
		columns []column
	}{
		{s.Tools.table, s.Tools.all(new(wire.Tool))}, {s.Skills.table, s.Skills.all(new(wire.Skill))}, {s.MCPs.table, s.MCPs.all(new(MCP))},
		{s.Knowledge.table, s.Knowledge.all(new(wire.Knowledge))}, {s.Scenes.table, s.Scenes.all(new(wire.Scene))},
	} {
		sizes := []string{strconv.Itoa(rowBytes)}
		for _, c := range table.columns {
			sizes = append(sizes, `COALESCE(octet_length(CAST(`+c.name+` AS TEXT)), 0)`)
		}

		parts = append(parts, `SELECT COUNT(*), COALESCE(SUM(`+strings.Join(sizes, " + ")+`), 0) FROM `+table.name+` WHERE tenant_id = $1`)
	}

	var own provider.Room
	err = tx.QueryRowContext(ctx, `SELECT CAST(SUM(number) AS BIGINT), CAST(SUM(size) AS BIGINT) FROM (`+strings.Join(parts, ` UNION ALL `)+`) AS tables`, tenantID).
		Scan(&own.Rows, &own.Bytes)
	return provider.Room{Rows: all.Rows + own.Rows, Bytes: all.Bytes + own.Bytes}, db.Wrap("measure catalog", err)
}

// grown reports whether the values of a row have more bytes than before.
func grown(before, after []column) (bool, error) {
	size := func(columns []column) (sum int, err error) {
		for _, v := range values(columns) {
			if to, ok := v.(driver.Valuer); ok {
				if v, err = to.Value(); err != nil {
					return 0, err
				}
			}

			switch v := v.(type) {
			case string:
				sum += len(v)
			case []byte:
				sum += len(v)
			}
		}

		return sum, nil
	}
	former, err := size(before)
	if err != nil {
		return false, err
	}

	now, err := size(after)
	return now > former, err
}
