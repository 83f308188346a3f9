package hub_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sharedTables are the tables without tenants, with the reason.
var sharedTables = map[string]string{
	"instance": "facts of the hub", "hubs": "of the database", "signing_keys": "of the hub", "deployment_owner": "of the database", "deployment_tombstones": "of all deployments", "tenant_client_changes": "one counter",
	"tenants":        "the key is the tenant",
	"tenant_clients": "the key is the tenant; the operations interface lists all of them",
	"org_owners":     "the key is the tenant",
	"login_attempts": "the key contains the tenant", "login_accounts": "the key contains the tenant", "login_networks": "networks are those of all tenants",
	"refresh_tokens": "by the hash of a token, or by the session that was found with it",
	"login_flows":    "by the hash of a random value", "login_codes": "by the hash of a random value", "logout_tokens": "by the hash of a random value",
}

// allTenants are other statements that name no tenant, by package and beginning, with the reason.
var allTenants = map[string]string{
	"catalog: SELECT 'tools/' || hash":                                  "tenants share the files of tools and skills, and the sweep is for all of them",
	"usage: SELECT DISTINCT model FROM usage_days":                      "an operator checks the prices of all tenants",
	"usage: SELECT ? AS answers":                                        "the expression names its tenant",
	"usage: SELECT EXISTS (SELECT 1 FROM usage_reserves WHERE ":         "the reserves of hubs that have ended are those of all tenants",
	"usage: SELECT COUNT(*) FROM usage_budgets":                         "doctor reports for all tenants",
	"db: SELECT pg_backend_pid()":                                       "the version of the server, and whether a pooler is in front of it",
	"db: SELECT set_config":                                             "the limits of a transaction",
	"catalog: SELECT CAST(SUM(number) AS BIGINT)":                       "each of the tables is restricted to the tenant",
	"db: SELECT data FROM sqlite_dbpage":                                "a dump has the data of all tenants",
	"db: SELECT pg_export_snapshot":                                     "a dump has the data of all tenants",
	".: SELECT CAST(EXTRACT":                                            "the clock of the server",
	".: SELECT COALESCE(MAX(at), 0) FROM audit_heads":                   "the clocks of all tenants",
	".: SELECT COUNT(*) FROM deployments WHERE machine":                 "an operator checks the deployments of all tenants",
	"db: SELECT COUNT(*) FROM pg_class":                                 "whether a database is empty",
	"db: SELECT COUNT(*) FROM (?":                                       "the query of a list names its tenant",
	"password: INSERT INTO ?":                                           "the keys of accounts contain the tenant; networks are those of all tenants",
	"user: SELECT ? FROM invites":                                       "by the hash of a token: the caller has no tenant yet",
	"user: UPDATE invites SET used_at":                                  "by the hash of a token: the caller has no tenant yet",
	"session: UPDATE sessions SET last_used_at":                         "a batch of sessions that were authenticated before",
	"clitoken: UPDATE cli_tokens SET last_used_at":                      "a batch of tokens that were authenticated before",
	"session: DELETE FROM sessions WHERE expires_at":                    "the sweep is for all tenants",
	"clitoken: DELETE FROM cli_tokens WHERE expires_at":                 "the sweep is for all tenants",
	"user: DELETE FROM invites WHERE expires_at":                        "the sweep is for all tenants",
	"store: SELECT hub FROM ? AS owner":                                 "the row of the hub",
	"store: SELECT ? FROM ? WHERE ? > $1 AND ? IS NOT NULL":             "the secrets of all tenants are sealed again",
	"store: UPDATE ? SET ? = $1 WHERE ? = $2 AND ? = $3":                "the secrets of all tenants are sealed again",
	"chat: SELECT ? FROM chat_sessions WHERE ?":                         "the first condition is the tenant",
	"deployment: SELECT key, edition, hub_id":                           "the reconciler works for all tenants",
	"deployment: SELECT key FROM deployments":                           "the reconciler works for all tenants",
	"deployment: UPDATE deployments SET hub_id":                         "a hub controls deployments of all tenants",
	"deployment: SELECT ? FROM deployments WHERE key_digest":            "by the hash of a random value, before the tenant is known",
	"chat/relay: SELECT pg_advisory_xact_lock":                          "the argument contains the tenant and the user",
	"chat/relay: SELECT run_id, cancel, followed FROM chat_runs":        "a hub has runs of all tenants",
	"chat/relay: DELETE FROM chat_runs WHERE run_id IN":                 "of a hub, by ids that are unique in all tenants",
	"chat/relay: UPDATE chat_runs SET followed":                         "a hub follows answers of all tenants",
	"chat/relay: SELECT ? FROM chat_runs WHERE hub_id":                  "the sweep is for all tenants",
	"chat/relay: SELECT EXISTS (SELECT 1 FROM chat_sessions WHERE ephe": "the sweep is for all tenants",
	"chat/relay: DELETE FROM chat_transcripts WHERE keep_until":         "the sweep is for all tenants",
	"deployment: SELECT EXISTS (SELECT 1 FROM deployments WHERE key":    "whether any tenant has a key that the platform has",
	"deployment: SELECT runtime_url FROM deployments WHERE key":         "by the key of a deployment that the caller may use",

	"deployment: SELECT ? FROM deployments WHERE key = $1 AND hub_id": "of a hub, by a key that is unique in all tenants",
	"deployment: UPDATE deployments SET state = $1":                   "of a hub, by a key that is unique in all tenants",
	"deployment: DELETE FROM deployments WHERE key = $1 AND hub_id":   "of a hub, by a key that is unique in all tenants",
	"deployment: UPDATE deployments SET rotation":                     "of a hub, by a key that is unique in all tenants",
	"deployment: SELECT uid FROM deployments WHERE key":               "by the key of a deployment that the caller may use",

	"deployment: UPDATE deployments SET edition = edition WHERE key_digest IS NULL": "the reconciler works for all tenants",
	"deployment: SELECT EXISTS (SELECT 1 FROM deployments WHERE machine":            "whether any tenant has a deployment on another machine",
	"deployment: UPDATE deployments SET machine":                                    "an operator adopts the deployments of all tenants",
	"deployment: INSERT INTO deployment_files":                                      "of a revision, which names its tenant",
	"deployment: SELECT DISTINCT artifact":                                          "tenants share the files of tools and skills, and the sweep is for all of them",
}

var (
	statement = regexp.MustCompile(`^\s*(SELECT|INSERT INTO|UPDATE|DELETE FROM|WITH)\s`)
	tableName = regexp.MustCompile(`(?:FROM|INTO|UPDATE|JOIN) ([a-z_]+)`)
)

// Every statement is restricted to a tenant, so that no request reads or changes the rows of
// another one.
func TestEveryStatementNamesItsTenant(t *testing.T) {
	t.Parallel()
	found, used := 0, map[string]bool{}
	for dir, files := range packages(t) {
		constants := constantsOf(files)
		for _, file := range files {
			ast.Inspect(file, func(n ast.Node) bool {
				e, ok := n.(ast.Expr)
				if !ok {
					return true
				}
				sql, ok := textOf(e, nil)
				if !ok || !statement.MatchString(sql) {
					return true
				}
				found++
				if full, _ := textOf(e, constants); strings.HasPrefix(strings.TrimSpace(sql), "INSERT") {
					sql = full
				} else if !strings.Contains(sql, "tenant_id") {
					sql, _ = textOf(e, clauses(constants))
				}
				if !strings.Contains(sql, "tenant_id") && !shared(sql) {
					used[exempt(t, dir, sql)] = true
				}
				return false
			})
		}
	}
	require.Greater(t, found, 150)
	for name := range allTenants {
		require.True(t, used[name], "%s: there is no such statement without a tenant", name)
	}
}

// shared reports whether all tables of a statement are shared.
func shared(sql string) bool {
	tables := tableName.FindAllStringSubmatch(sql, -1)
	for _, table := range tables {
		if sharedTables[table[1]] == "" {
			return false
		}
	}
	return len(tables) > 0
}

// clauses returns the constants that restrict a statement, and not those that list columns.
func clauses(constants map[string]string) map[string]string {
	all := maps.Clone(constants)
	maps.DeleteFunc(all, func(_, text string) bool { return !strings.Contains(text, "$1") })
	return all
}

// exempt returns the row of allTenants for a statement.
func exempt(t *testing.T, dir, sql string) string {
	t.Helper()
	text := dir + ": " + strings.Join(strings.Fields(sql), " ")
	for name := range allTenants {
		if strings.HasPrefix(text, name) {
			return name
		}
	}
	t.Errorf("the statement names no tenant_id: %s", text)
	return ""
}

// packages returns the files of the packages with statements that are not tests, by directory below
// an internal one.
func packages(t *testing.T) map[string][]*ast.File {
	t.Helper()
	all := map[string][]*ast.File{}
	for _, root := range []string{".", "../internal/db"} {
		require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			dir := filepath.ToSlash(filepath.Dir(path))
			if !strings.HasSuffix(dir, "test") { // packages for tests
				if _, below, ok := strings.Cut(dir, "internal/"); ok {
					dir = below
				}
				all[dir] = append(all[dir], file)
			}
			return err
		}))
	}
	return all
}

// constantsOf returns the text constants of a package.
func constantsOf(files []*ast.File) map[string]string {
	all := map[string]string{}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Names) == len(spec.Values) {
				for i, name := range spec.Names {
					if value, ok := textOf(spec.Values[i], nil); ok {
						all[name.Name] = value
					}
				}
			}
			return true
		})
	}
	return all
}

// textOf returns the text of a literal or a sum with literals, and whether e is one. Other parts of
// a sum are "?" unless they are constants.
func textOf(e ast.Expr, constants map[string]string) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		return text(e), e.Kind == token.STRING
	case *ast.BinaryExpr:
		if e.Op != token.ADD {
			return "", false
		}
		left, ok1 := textOf(e.X, constants)
		right, ok2 := textOf(e.Y, constants)
		return left + right, ok1 || ok2
	case *ast.Ident:
		if value, ok := constants[e.Name]; ok {
			return value, false
		}
	}
	return "?", false
}
