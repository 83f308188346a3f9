package hub_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/url"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/auditlog/sqlaudit"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
)

const logs = "/api/v1/admin/audit-logs"

// unrecorded are actions of which nothing can happen yet, and why.
var unrecorded = map[string]string{
	"auth.external_login": "external mode has its own hub in the walk", "auth.backchannel_logout": "as above",
	"auth.upsert_tenant_client": "as above", "auth.delete_tenant_client": "as above",
	"agent.adopt":     "recorded in the tenant system, which no route exposes",
	"auth.retire_key": "commands of the operator: cmd/hub, TestCommandsAreRecorded", "auth.rekey": "as above", "auth.backup": "as above",
}

// recordActions holds every entry of the audit log against the schema of its action.
func (c *contract) recordActions() {
	admin, _ := c.enter("admin")
	first := c.ok(200, "GET", logs+"?page_size=100", admin, "")
	query := logs + "?page_size=100&snapshotId=" + first["snapshotId"].(string) + "&page="
	for page := 1; page <= int(first["total"].(float64)+99)/100; page++ {
		for _, item := range c.ok(200, "GET", query+fmt.Sprint(page), admin, "")["items"].([]any) {
			c.entry("AuditEntry", item.(map[string]any))
			c.actions[item.(map[string]any)["action"].(string)] = true
		}
	}
}

// auditLog reads an audit log in all ways.
func (c *contract) auditLog(admin string) {
	c.ok(200, "GET", settings, admin, "")
	c.newcomer(admin, "ada", "member")
	c.auditQueries(admin)
	first := c.ok(200, "GET", logs+"?page_size=100", admin, "")
	lines := c.send("GET", logs+"/export?snapshotId="+first["snapshotId"].(string), admin, "")
	require.Equal(c.t, first["snapshotId"], lines.header.Get("Audit-Snapshot-Id"))
	n := 0
	for line := range strings.Lines(lines.text) {
		var entry map[string]any
		require.NoError(c.t, json.Unmarshal([]byte(line), &entry), line)
		c.entry("AuditLine", entry)
		n++
	}
	require.EqualValues(c.t, first["total"], n)
	table, err := csv.NewReader(strings.NewReader(c.send("GET", logs+"/export?format=csv&category=user", admin, "").text)).ReadAll()
	require.NoError(c.t, err)
	require.ElementsMatch(c.t, c.schema("AuditLine").Required, table[0])

	verified := c.ok(200, "GET", logs+"/verify", admin, "")
	require.Equal(c.t, true, verified["ok"])
	c.prunedLog(admin)
}

func (c *contract) auditQueries(admin string) {
	c.unpaged(logs, admin)
	bad := []string{
		"from=yesterday", "to=2026-01-01", "from=2026-01-01T00:00:00", "to=2026-01-01T00:00:00%2B8", "snapshotId=-1", "snapshotId=0x10", "snapshotId=1.0",
		"snapshotId=18446744073709551616", "user=%zz",
	}
	for _, query := range bad {
		c.reject(400, wire.InvalidRequest, "GET", logs+"?"+query, admin, "")
		c.reject(400, wire.InvalidRequest, "GET", logs+"/export?"+query, admin, "")
	}
	c.reject(400, wire.InvalidRequest, "GET", logs+"/export?format=xml", admin, "")
	for _, query := range []string{
		"category=&action=&user=&from=&to=&snapshotId=", "category=user&action=user.create&user=ADM", "category=none", "user=" + url.QueryEscape(`%_\`),
		"from=2026-01-01T00:00:00.000000001Z&to=2100-01-01t00:00:00%2B08:00", "from=2100-01-01T00:00:00Z&to=2000-01-01T00:00:00Z", "snapshotId=0",
		"snapshotId=007", "snapshotId=18446744073709551615",
	} {
		c.ok(200, "GET", logs+"?"+query, admin, "")
		require.Equal(c.t, 200, c.send("GET", logs+"/export?format=&"+query, admin, "").status, query)
	}
}

// prunedLog takes the entries away, as retention does, and then changes one that came later.
func (c *contract) prunedLog(admin string) {
	d := dbtest.Open(c.t, c.database)
	store, err := sqlaudit.New(sqlaudit.Config{Write: d.Write(), Read: d.Read(), Engine: string(d.Engine())})
	require.NoError(c.t, err)
	_, err = store.Prune(c.t.Context(), "default", 0, auditlog.Define[auditlog.Pruning]("auth.prune_audit"))
	require.NoError(c.t, err)
	require.NotEmpty(c.t, c.send("GET", logs+"/export", admin, "").header.Get("Audit-Checkpoint"))
	c.entry("AuditEntry", c.ok(200, "GET", logs+"?action=auth.prune_audit", admin, "")["items"].([]any)[0].(map[string]any))
	c.enter("admin")
	verified := c.ok(200, "GET", logs+"/verify", admin, "")
	require.Equal(c.t, true, verified["ok"])
	require.Contains(c.t, verified, "checkpoint")
	head := fmt.Sprint(verified["headId"], ":", verified["headHash"])
	require.Equal(c.t, true, c.ok(200, "GET", logs+"/verify?head="+head, admin, "")["ok"])
	require.Equal(c.t, "head_in_future", c.ok(200, "GET", logs+"/verify?head=9"+head, admin, "")["reason"])
	require.Equal(c.t, "head_pruned", c.ok(200, "GET", logs+"/verify?head=1:"+fmt.Sprint(verified["headHash"]), admin, "")["reason"])
	c.reject(400, wire.InvalidRequest, "GET", logs+"/verify?head=1", admin, "")
	_, err = d.Write().ExecContext(c.t.Context(), `UPDATE audit_entries SET remote_ip = '203.0.113.9'`)
	require.NoError(c.t, err)
	require.Equal(c.t, false, c.ok(200, "GET", logs+"/verify", admin, "")["ok"])
}

// details are the schemas of details, by action.
func (c *contract) details() map[string]any {
	c.t.Helper()
	details, ok := c.schema("AuditEntry").Extensions["x-details"].(map[string]any)
	require.True(c.t, ok, "the document tells the details")
	require.Equal(c.t, details, c.schema("AuditLine").Extensions["x-details"])
	return details
}

// entry checks an entry against its schema, and its detail against that of its action.
func (c *contract) entry(schema string, entry map[string]any) {
	c.t.Helper()
	require.NoError(c.t, c.doc.Fits(schema, entry), "%v", entry)
	action := entry["action"].(string)
	require.Equal(c.t, entry["category"], strings.Split(action, ".")[0])
	ref, ok := c.details()[action].(string)
	require.True(c.t, ok, "the document does not know %s", action)
	require.NoError(c.t, c.doc.Fits(ref, entry["detail"]), "%v", entry)
}

// The schemas have each field of the details that the hub declares, and no other, whether they were
// recorded or not.
func TestEveryActionHasTheSchemaOfItsDetail(t *testing.T) {
	c := newContract(t, sqlite(t))
	documented := c.details()
	declared := map[string]bool{}
	for _, a := range declaredActions(t) {
		require.False(t, declared[a.name], "%s is declared twice", a.name)
		declared[a.name] = true
		require.Equal(t, "#/components/schemas/detail."+a.name, documented[a.name], "the document has no detail of %s", a.name)
		schema := c.schema("detail." + a.name)
		if a.detail == nil {
			require.True(t, schema.Type.Is("null"), a.name)
			continue
		}
		require.False(t, *schema.AdditionalProperties.Has, a.name)
		require.ElementsMatch(t, slices.Collect(maps.Keys(a.detail)), slices.Collect(maps.Keys(schema.Properties)), a.name)
		for field, optional := range a.detail {
			require.Equal(t, !optional, slices.Contains(schema.Required, field), "%s: is %s always there?", a.name, field)
		}
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(declared)), slices.Collect(maps.Keys(documented)))
}

// declaration is an action with the fields of its detail, which are true where they may be left
// out; nil for none.
type declaration struct {
	name   string
	detail map[string]bool
}

// declaredActions reads the calls of auditlog.Define in the packages of the hub. In one that makes
// an action for each category, the name is `category + ".verb"`.
func declaredActions(t *testing.T) (all []declaration) {
	t.Helper()
	for _, pattern := range []string{"*.go", "internal/*/*.go"} {
		paths, err := filepath.Glob(pattern)
		require.NoError(t, err)
		details, calls := map[string]*ast.StructType{}, map[string][]*ast.CallExpr{} // both by directory
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			dir := filepath.Dir(path) + "."
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.TypeSpec:
					if s, ok := n.Type.(*ast.StructType); ok {
						details[dir+n.Name.Name] = s
					}
				case *ast.CallExpr:
					if index, ok := n.Fun.(*ast.IndexExpr); ok && text(index.X) == "auditlog.Define" {
						calls[dir] = append(calls[dir], n)
					}
				}
				return true
			})
		}
		for dir, calls := range calls {
			for _, call := range calls {
				detail := text(call.Fun.(*ast.IndexExpr).Index)
				declared, ok := details[dir+detail]
				fields := map[string]bool(nil)
				if ok {
					fields = fieldsOfStruct(declared, dir, details)
				}
				if detail == "auditlog.Pruning" {
					fields, ok = map[string]bool{"entries": false, "before": false, "retentionSeconds": false, "checkpoint": false}, true
				}
				require.True(t, ok || detail == "auditlog.None", "%s: the detail %s is no struct of the package", dir, detail)
				for _, name := range namesOf(t, call.Args[0]) {
					all = append(all, declaration{name, fields})
				}
			}
		}
	}
	require.NotEmpty(t, all)
	return all
}

func namesOf(t *testing.T, arg ast.Expr) (names []string) {
	t.Helper()
	if sum, ok := arg.(*ast.BinaryExpr); ok {
		require.Equal(t, "category", text(sum.X))
		for _, category := range []string{"auth", "user", "invite", "provider", "agent", "token", "aigc"} {
			names = append(names, category+text(sum.Y))
		}
		return names
	}
	return []string{text(arg)}
}

// fieldsOfStruct are the names in JSON of the fields of a struct and of its embedded structs, and
// whether each may be left out.
func fieldsOfStruct(s *ast.StructType, dir string, structs map[string]*ast.StructType) map[string]bool {
	fields := map[string]bool{}
	for _, f := range s.Fields.List {
		if f.Tag != nil {
			name, options, _ := strings.Cut(reflect.StructTag(text(f.Tag)).Get("json"), ",")
			fields[name] = strings.HasPrefix(options, "omit")
		} else if embedded, ok := structs[dir+text(f.Type)]; ok && len(f.Names) == 0 {
			maps.Copy(fields, fieldsOfStruct(embedded, dir, structs))
		}
	}
	return fields
}

// text is a literal's value, or the name that an expression is.
func text(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		value, _ := strconv.Unquote(e.Value)
		return value
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return text(e.X) + "." + e.Sel.Name
	}
	return ""
}
