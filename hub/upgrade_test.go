package hub_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub"
	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/deploytest"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/db/pgtest"
	"github.com/seed93082962/agenthost/internal/secret"
)

// formerSeries returns the migrations of a former version: those with at most the number, without
// the series that this version did not have.
func formerSeries(t *testing.T, number int, without string) (all []db.Series) {
	t.Helper()
	for _, series := range hub.Migrations() {
		files := fstest.MapFS{}
		require.NoError(t, fs.WalkDir(series.Files, ".", func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			if numberOf(t, name) > number {
				return nil
			}
			text, err := fs.ReadFile(series.Files, name)
			files[name] = &fstest.MapFile{Data: text}
			return err
		}))
		if series.Name != without {
			all = append(all, db.Series{Name: series.Name, Files: files})
		}
	}
	return all
}

// numberOf returns the number of a migration.
func numberOf(t *testing.T, file string) int {
	t.Helper()
	n, err := strconv.Atoi(path.Base(file)[:4])
	require.NoError(t, err)
	return n
}

// migrations returns the number of the newest migration of a series.
func migrations(t *testing.T, series db.Series) (newest int) {
	t.Helper()
	require.NoError(t, fs.WalkDir(series.Files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			newest = max(newest, numberOf(t, name))
		}
		return err
	}))
	return newest
}

// rows are the rows of tables, by the names of their columns.
type rows map[string][]map[string]any

// readRows reads all tables of the hub.
func readRows(t *testing.T, d *db.DB) rows {
	t.Helper()
	list := `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'`
	if d.Engine() == db.PostgreSQL {
		list = `SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()`
	}
	names, err := db.Values[string](t.Context(), d.Read(), "list tables", list)
	require.NoError(t, err)
	all := rows{}
	for _, name := range names {
		if name == "agenthost_migrations" {
			continue
		}
		found, err := d.Read().QueryContext(t.Context(), "SELECT * FROM "+name)
		require.NoError(t, err)
		columns, err := found.Columns()
		require.NoError(t, err)
		all[name] = nil
		for found.Next() {
			values := make([]any, len(columns))
			row := map[string]any{}
			pointers := make([]any, len(columns))
			for i := range values {
				pointers[i] = &values[i]
			}
			require.NoError(t, found.Scan(pointers...))
			for i, column := range columns {
				row[column] = values[i]
				if empty, ok := values[i].([]byte); ok && len(empty) == 0 {
					row[column] = []byte{} // not NULL
				}
			}
			all[name] = append(all[name], row)
		}
		require.NoError(t, found.Err())
		require.NoError(t, found.Close())
	}
	return all
}

// columnsOf returns the columns of a table.
func columnsOf(t *testing.T, d *db.DB, table string) []string {
	t.Helper()
	found, err := d.Read().QueryContext(t.Context(), "SELECT * FROM "+table+" LIMIT 0")
	require.NoError(t, err)
	defer found.Close()
	columns, err := found.Columns()
	require.NoError(t, err)
	return columns
}

// parents are the tables that others refer to, in their order.
var parents = []string{"tenants", "members", "sessions", "audit_heads", "agents", "chat_sessions", "deployment_revisions"}

// insert inserts the rows of the tables that a former version has, with the columns that it has.
func (all rows) insert(t *testing.T, d *db.DB) {
	t.Helper()
	others := slices.Sorted(maps.Keys(all))
	names := append(slices.Clone(parents), slices.DeleteFunc(others, func(name string) bool { return slices.Contains(parents, name) })...)
	former := readRows(t, d)
	require.NoError(t, d.Tx(t.Context(), func(tx *sql.Tx) error {
		for _, name := range names {
			if _, found := former[name]; !found {
				continue
			}
			if _, err := tx.Exec("DELETE FROM " + name); err != nil {
				return err
			}
			columns := columnsOf(t, d, name)
			for _, row := range all[name] {
				var present []string
				var values []any
				for _, column := range columns {
					if value, ok := row[column]; ok {
						present, values = append(present, column), append(values, value)
					}
				}
				_, err := tx.Exec("INSERT INTO "+name+" ("+strings.Join(present, ", ")+") VALUES "+db.Rows(1, 1, len(present)), values...)
				if err != nil {
					return fmt.Errorf("insert into %s: %w", name, err)
				}
			}
		}
		if d.Engine() == db.SQLite {
			return nil
		}
		_, err := tx.Exec(`SELECT setval(pg_get_serial_sequence('audit_heads', 'tenant'), (SELECT MAX(tenant) FROM audit_heads)),
			setval(pg_get_serial_sequence('audit_keys', 'key'), (SELECT MAX(key) FROM audit_keys))`)
		return err
	}))
}

// former returns the rows as a version with migrations up to a number had them.
func (all rows) former(t *testing.T, number int, keys *secret.Keyring) rows {
	t.Helper()
	out := rows{}
	for name, list := range all {
		for _, row := range list {
			out[name] = append(out[name], maps.Clone(row))
		}
	}
	for _, d := range out["deployments"] {
		d["purge"] = false
	}
	out["deployment_fence"] = []map[string]any{{"value": int64(1), "owner": all["deployment_owner"][0]["owner"]}}
	if number >= 3 {
		return out
	}
	// An entry referred to an actor: a user within one category.
	actors := map[string]int64{}
	positions := map[int64]int64{}
	next := int64(1 << 20)
	for _, entry := range out["audit_entries"] {
		name := fmt.Sprint(entry["user_key"], " ", entry["category"])
		actor, found := actors[name]
		if !found {
			next++
			actor = next
			actors[name] = actor
			if entry["user_key"] != int64(0) {
				out["audit_keys"] = append(out["audit_keys"], map[string]any{
					"key": actor, "tenant": entry["tenant"], "kind": int64(3), "digest": "actor " + name, "category": entry["category"],
					"owner": entry["user_key"], "name": "",
				})
			}
		}
		positions[actor]++
		entry["actor"], entry["actor_pos"] = actor, positions[actor]
	}
	// The sealed part of a deployment had the request.
	requests := map[string]json.RawMessage{}
	for _, r := range all["deployment_revisions"] {
		id, tenant := r["id"].(string), r["tenant_id"].(string)
		text, err := keys.Open(r["sealed"].([]byte), secret.AAD("deployment_revisions", "sealed", id, tenant))
		require.NoError(t, err)
		requests[fmt.Sprint(r["key"], r["revision"])] = text
	}
	for _, d := range out["deployments"] {
		place := secret.AAD("deployments", "sealed", d["key"].(string), d["tenant_id"].(string))
		text, err := keys.Open(d["sealed"].([]byte), place)
		require.NoError(t, err)
		var content map[string]any
		require.NoError(t, json.Unmarshal(text, &content))
		content["request"] = requests[fmt.Sprint(d["key"], d["revision"])]
		text, err = json.Marshal(content)
		require.NoError(t, err)
		d["sealed"] = keys.Seal(text, place)
	}
	return out
}

// texts returns columns of rows in an order.
func texts(list []map[string]any, columns []string) (all []string) {
	for _, row := range list {
		var line strings.Builder
		for _, column := range columns {
			fmt.Fprintf(&line, "%s=%v ", column, row[column])
		}
		all = append(all, line.String())
	}
	slices.Sort(all)
	return all
}

// kept returns what an organization reads that no upgrade changes.
func (o *org) kept() map[string]string {
	o.t.Helper()
	all := map[string]string{}
	for _, path := range []string{
		agents + "/same/export", agents + "/only-alpha", providers, mcps, knowledge, tools, skills, scenes, users, "/api/v1/cli/tokens",
		"/api/v1/admin/aigc/config", "/api/v1/admin/chat/sessions", "/api/v1/agents/same/chat/sessions",
	} {
		a := o.send(http.MethodGet, path, o.admin, "")
		require.Equal(o.t, http.StatusOK, a.status, "%s: %s", path, a.text)
		text := strings.ReplaceAll(a.text, `,"waiting":true`, "") // an earlier version has none
		all[path] = contentHash.ReplaceAllString(changing.ReplaceAllString(text, ""), "")
	}
	return all
}

// works uses what was stored: tokens, secrets, the audit log, deployments, files and chats.
func (o *org) works(files bool) {
	o.t.Helper()
	require.Equal(o.t, "ada", o.call("GET", "/auth/userinfo", o.admin, "").want(200)["username"])
	require.Equal(o.t, true, o.call("GET", "/api/v1/admin/audit-logs/verify", o.admin, "").want(200)["ok"])
	require.Equal(o.t, "key-"+o.name, o.call("POST", providers+"/"+o.ids[0]+"/reveal-key", o.admin, "").want(200)["apiKey"])
	require.Equal(o.t, true, o.call("POST", "/api/v1/admin/aigc/verify", o.admin, o.label).want(200)["valid"])
	if files {
		require.Contains(o.t, o.call("GET", tools+"/same/download", o.admin, "").text, "tool of "+o.name)
	}
	for _, chat := range o.call("GET", "/api/v1/agents/same/chat/sessions", o.admin, "").want(200)["items"].([]any) {
		id := chat.(map[string]any)["id"].(string)
		if chat.(map[string]any)["source"] == "hub" {
			var answer response
			require.Eventually(o.t, func() bool { // the agent is deployed again after a start
				answer = o.call("POST", "/api/v1/agents/same/chat/sessions/"+id+"/messages", o.admin, `{"message":"again"}`)
				return answer.status != http.StatusServiceUnavailable
			}, time.Minute, 20*time.Millisecond)
			require.Contains(o.t, answer.text, `"status":"completed"`)
		}
	}
	n, err := o.Rekey(o.t.Context())
	require.NoError(o.t, err, "every secret can be opened")
	require.Zero(o.t, n)
	require.Equal(o.t, true, o.call("GET", "/api/v1/admin/audit-logs/verify", o.admin, "").want(200)["ok"])
}

// The hub of this version migrates the database of each former one, and works with its data.
// Version 0 is that before the counts of tokens, and has all other migrations.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		key := secret.Generate()
		keys, err := secret.Parse(key)
		require.NoError(t, err)
		files := folder(t)
		same := func(cfg *hub.Config) { cfg.EncryptionKeys, cfg.Artifacts = []string{key}, files }
		orgs := openOrgs(t, url, same)
		o := orgs[0]
		o.ids = o.ids[:0]
		for _, p := range o.send("GET", providers, o.admin, "").want(200)["items"].([]any) {
			if p.(map[string]any)["name"] == "same" {
				o.ids = append(o.ids, p.(map[string]any)["id"].(string))
			}
		}
		before := o.kept()
		orgs[1].send("PUT", providers+"/openai/key", orgs[1].admin, `{"apiKey":"key-of-openai"}`).want(200)
		o.close()
		source := dbtest.Open(t, url)
		all := readRows(t, source)
		all.further()
		for name, list := range all {
			require.NotEmpty(t, list, name)
		}
		newest := 0
		for _, series := range hub.Migrations() {
			newest = max(newest, migrations(t, series))
		}
		for version := range newest {
			t.Run(fmt.Sprint("version ", version), func(t *testing.T) {
				number, without := version, ""
				if version == 0 {
					number, without = newest, "usage"
				}
				url := dbtest.SQLite(t)
				if source.Engine() == db.PostgreSQL {
					url = pgtest.URL(t)
				}
				d := dbtest.Open(t, url, formerSeries(t, number, without)...)
				all.former(t, number, keys).insert(t, d)
				stored, columns := readRows(t, d), map[string][]string{}
				for name, list := range stored {
					require.NotEmpty(t, list, name)
					columns[name] = columnsOf(t, d, name)
				}
				actor := func(key map[string]any) bool { return fmt.Sprint(key["kind"]) == "3" }
				stored["audit_keys"] = slices.DeleteFunc(stored["audit_keys"], actor)
				require.NoError(t, d.Migrate(t.Context(), hub.Migrations()...))
				migrated := readRows(t, d)
				for name, former := range columns {
					if _, found := migrated[name]; !found {
						continue
					}
					kept := slices.DeleteFunc(former, func(column string) bool { return !slices.Contains(columnsOf(t, d, name), column) })
					require.Equal(t, texts(stored[name], kept), texts(migrated[name], kept), name)
				}
				driver := &deploytest.Memory{Serve: func(req deploy.Request) (http.Handler, error) { return runtimeWithFile(t, req) }}
				t.Cleanup(driver.Close)
				upgraded := *o
				upgraded.server = open(t, url, same, func(cfg *hub.Config) { cfg.External, cfg.OpsKey, cfg.Deployer = true, opsKey, driver })
				want, got := maps.Clone(before), upgraded.kept()
				for path, table := range map[string]string{tools: "tools", skills: "skills"} {
					if columns[table] == nil { // that version had none
						delete(want, path)
						delete(got, path)
					}
				}
				require.Equal(t, want, got)
				upgraded.works(columns["tools"] != nil)
			})
		}
	})
}

// A hub does not serve a database that a newer one has migrated.
func TestADatabaseOfANewerVersion(t *testing.T) {
	t.Parallel()
	url := sqlite(t)
	d := dbtest.Open(t, url)
	_, err := d.Write().Exec(`INSERT INTO agenthost_migrations (series, version, name, checksum, applied_at) VALUES ('usage', 99, '0099_later.sql', 'x', 0)`)
	require.NoError(t, err)
	_, err = hub.New(t.Context(), hub.Config{DatabaseURL: url, EncryptionKeys: []string{secret.Generate()}, PublicURL: "http://hub.example"})
	require.ErrorIs(t, err, db.ErrNewer)
	require.ErrorContains(t, err, `it has migration 0099 of "usage"`)
	require.ErrorContains(t, err, "run the program that applied it, or a newer one")
}
