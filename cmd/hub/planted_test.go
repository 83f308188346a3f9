package main_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/secret"
)

// planted has the secrets of a test by name.
type planted map[string]plant

type plant struct {
	forms   []string
	allowed []string // the places that have it
}

// add adds a secret and returns it.
func (s planted) add(name, text string, allowed ...string) string {
	quoted, _ := json.Marshal(text)      // as the log has bytes, too
	part := []byte(text[:len(text)/3*3]) // whose base64 is a part of that of a longer text
	s[name] = plant{[]string{
		text, string(quoted[1 : len(quoted)-1]), hex.EncodeToString([]byte(text)),
		base64.StdEncoding.EncodeToString(part), base64.URLEncoding.EncodeToString(part),
	}, allowed}
	return text
}

// check fails if the content of a place has a secret that it may not have. The content must have
// control, which shows that the search would find something.
func (s planted) check(t *testing.T, place, content, control string) {
	t.Helper()
	require.Contains(t, content, control, place)
	for name, p := range s {
		for i, form := range p.forms {
			if !slices.Contains(p.allowed, place) && strings.Contains(content, form) {
				require.Fail(t, "a secret is disclosed", "the %s is in the %s, in form %d", name, place, i)
			}
		}
	}
}

// addSealed adds the keys that the hub has generated and sealed in its database.
func (s planted) addSealed(t *testing.T, url, encryptionKey string) {
	t.Helper()
	ring, err := secret.Parse(encryptionKey)
	require.NoError(t, err)
	for _, of := range []struct{ table, id, tenant, column string }{
		{table: "signing_keys", id: "id", tenant: "''", column: "private_sealed"},
		{table: "aigc_keys", id: "kid", tenant: "tenant_id", column: "secret_enc"},
	} {
		type row struct {
			id     string
			tenant string
			sealed []byte
		}
		rows, err := db.Collect(t.Context(), dbtest.Open(t, url).Read(), "read keys", func(from db.Scanner) (r row, err error) {
			err = from.Scan(&r.id, &r.tenant, &r.sealed)
			return r, err
		}, "SELECT "+of.id+", "+of.tenant+", "+of.column+" FROM "+of.table)
		require.NoError(t, err)
		require.NotEmpty(t, rows, of.table)
		for _, r := range rows {
			place := secret.AAD(of.table, of.column, r.id)
			if r.tenant != "" {
				place = secret.AAD(of.table, of.column, r.id, r.tenant)
			}
			plain, err := ring.Open(r.sealed, place)
			require.NoError(t, err)
			s.add("key of "+of.table+" "+r.id, string(plain))
		}
	}
}

// databaseContent returns all rows of all tables, or the files of SQLite.
func databaseContent(t *testing.T, url string) string {
	t.Helper()
	if path, ok := strings.CutPrefix(url, "sqlite://"); ok {
		return files(t, filepath.Dir(path), "")
	}
	text := func(from db.Scanner) (s string, err error) {
		err = from.Scan(&s)
		return s, err
	}
	q := dbtest.Open(t, url).Read()
	tables, err := db.Collect(t.Context(), q, "list tables", text, `SELECT format('%I.%I', schemaname, tablename) FROM pg_tables
		WHERE schemaname NOT IN ('pg_catalog', 'information_schema')`)
	require.NoError(t, err)
	var all strings.Builder
	for _, table := range tables {
		rows, err := db.Collect(t.Context(), q, "read table", text, "SELECT CAST(row AS TEXT) FROM "+table+" row")
		require.NoError(t, err)
		all.WriteString(strings.Join(rows, "\n"))
	}
	return all.String()
}

// files returns the content of all files in a directory except those in another one.
func files(t *testing.T, dir, except string) string {
	t.Helper()
	var all strings.Builder
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path == except {
			return filepath.SkipDir
		}
		if d.Type().IsRegular() {
			data, err := os.ReadFile(path)
			all.Write(data)
			return err
		}
		return nil
	}))
	return all.String()
}
