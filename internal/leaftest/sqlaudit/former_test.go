package sqlaudit_test

import (
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/auditlog/memaudit"
	"github.com/seed93082962/agenthost/auditlog/sqlaudit"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
)

// writeFormer writes the log that a former version has stored in testdata/former.sql: 40 entries of
// two categories by four users, and by some users of one entry, the pruning of the first 15, and an
// entry of another tenant.
func writeFormer(t *testing.T, s auditlog.Store, now *time.Time) {
	t.Helper()
	for i := range 40 {
		*now = benchStart.Add(time.Duration(i/5) * time.Second)
		r := login("former", i%4)
		switch {
		case i%3 == 0:
			r = promote("former", i%4)
		case i%7 == 0:
			r = login("former", 100+i)
		}
		require.NoError(t, s.Append(t.Context(), r))
	}
	*now = benchStart.Add(time.Minute)
	_, err := s.Prune(t.Context(), "former", now.Sub(second(3)), pruneAudit)
	require.NoError(t, err)
	require.NoError(t, s.Append(t.Context(), login("other", 1)))
}

// formerDatabase is a database whose schema is that of the first two migrations.
func formerDatabase(t *testing.T, url string) *db.DB {
	t.Helper()
	former := fstest.MapFS{}
	for _, name := range []string{"postgres/0001_auditlog.sql", "sqlite/0001_auditlog.sql", "all/0002_actor_mark.sql"} {
		text, err := fs.ReadFile(sqlaudit.Migrations(), name)
		require.NoError(t, err)
		former[name] = &fstest.MapFile{Data: text}
	}
	d := dbtest.Open(t, url, db.Series{Name: "auditlog", Files: former})
	rows, err := os.ReadFile("testdata/former.sql")
	require.NoError(t, err)
	inserts := string(rows)
	if d.Engine() == db.PostgreSQL {
		inserts = strings.ReplaceAll(inserts, " x'", ` '\x`) + `
			SELECT setval(pg_get_serial_sequence('audit_heads', 'tenant'), 100);
			SELECT setval(pg_get_serial_sequence('audit_keys', 'key'), 100);`
	}
	_, err = d.Write().Exec(inserts)
	require.NoError(t, err)
	return d
}

// A database of a former version is migrated. It has the same entries, hashes and pages as before,
// and the log continues.
func TestMigrateFormerVersion(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		d := formerDatabase(t, url)
		require.NoError(t, d.Migrate(t.Context(), db.Series{Name: "auditlog", Files: sqlaudit.Migrations()}))
		var now time.Time
		memory := &memaudit.Store{Now: func() time.Time { return now }}
		writeFormer(t, memory, &now)
		s := clocked(t, d, &now)
		w := &twin{tenant: "former", memory: memory}
		same := func() {
			for _, f := range twinFilters {
				for _, snapshot := range []*uint64{nil, new(uint64(33)), new(uint64(16)), new(uint64(3))} {
					for _, offset := range []uint64{0, 1, 9, 20} {
						q := auditlog.Query{TenantID: "former", Filter: f, Offset: offset, Limit: 7, Snapshot: snapshot}
						require.Equal(t, w.answer(t, memory, q), w.answer(t, s, q), "%+v", q)
					}
					require.Equal(t, w.entries(t, memory, f, snapshot), w.entries(t, s, f, snapshot), "%+v", f)
				}
			}
			require.Equal(t, verified(t, memory, "former"), verified(t, s, "former"))
			require.Equal(t, verified(t, memory, "other"), verified(t, s, "other"))
		}
		same()
		for _, both := range []auditlog.Store{memory, s} {
			require.NoError(t, both.Append(t.Context(), login("former", 1), promote("former", 7), login("other", 1)))
			_, err := both.Prune(t.Context(), "former", now.Sub(second(5)), pruneAudit)
			require.NoError(t, err)
		}
		same()
	})
}

// A former log that was changed is found to be changed after the migration too.
func TestMigrateFormerVersionWithDamage(t *testing.T) {
	t.Parallel()
	const actor = "(SELECT e.actor FROM audit_entries e WHERE e.tenant = 1 AND e.id = 20)"
	for name, damage := range map[string]string{
		"an actor is missing":              "DELETE FROM audit_keys WHERE key = " + actor,
		"an actor has another user":        "UPDATE audit_keys SET owner = 3 WHERE key = " + actor,
		"an entry has another actor":       "UPDATE audit_entries SET actor = 4 WHERE tenant = 1 AND id = 20",
		"an entry has a category as actor": "UPDATE audit_entries SET actor = 5 WHERE tenant = 1 AND id = 20",
	} {
		t.Run(name, func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, url string) {
				d := formerDatabase(t, url)
				_, err := d.Write().Exec(damage)
				require.NoError(t, err)
				require.NoError(t, d.Migrate(t.Context(), db.Series{Name: "auditlog", Files: sqlaudit.Migrations()}))
				v, err := auditlog.Verify(t.Context(), store(t, d), "former")
				require.NoError(t, err)
				require.False(t, v.OK)
			})
		})
	}
}
