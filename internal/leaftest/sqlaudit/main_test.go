package sqlaudit_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/auditlog/sqlaudit"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/db/pgtest"
)

var present = db.Series{Name: "auditlog", Files: sqlaudit.Migrations()}

// each runs a test on both engines, with the schema.
func each(t *testing.T, test func(t *testing.T, url string)) {
	t.Helper()
	dbtest.Each(t, test, present)
}

// database is an empty one with the schema.
func database(t testing.TB, url string) *db.DB {
	t.Helper()
	return dbtest.Open(t, url, present)
}

func store(t testing.TB, d *db.DB) *sqlaudit.Store {
	t.Helper()
	s, err := sqlaudit.New(sqlaudit.Config{Write: d.Write(), Read: d.Read(), Engine: string(d.Engine())})
	require.NoError(t, err)
	return s
}

// clocked returns a store with a clock that the test sets.
func clocked(t testing.TB, d *db.DB, now *time.Time) *sqlaudit.Store {
	t.Helper()
	s, err := sqlaudit.New(sqlaudit.Config{
		Write: d.Write(), Read: d.Read(), Engine: string(d.Engine()), Now: func() time.Time { return *now },
	})
	require.NoError(t, err)
	return s
}

type roleChange struct {
	Role auditlog.Change[string] `json:"role"`
}

// event is of the nth user of a tenant.
func event(tenant string, n int) auditlog.Event {
	return auditlog.Event{
		TenantID: tenant, UserID: fmt.Sprintf("id-%d", n), UserName: fmt.Sprintf("User%03d", n), TargetType: "user",
		TargetID: "0190c2a4-7b1c-7def-8123-456789abcdef", TargetName: "Zoë \"Z\" \\ {x,y}", RemoteIP: "192.0.2.1",
		UserAgent: "Mozilla/5.0 (X11; Linux x86_64)",
	}
}

func login(tenant string, n int) auditlog.Record {
	return auditlog.Define[auditlog.None]("auth.login").Record(event(tenant, n), auditlog.None{})
}

func promote(tenant string, n int) auditlog.Record {
	return auditlog.Define[roleChange]("user.update_role").Record(event(tenant, n),
		roleChange{auditlog.Change[string]{From: "member", To: "admin"}})
}

var pruneAudit = auditlog.Define[auditlog.Pruning]("auth.prune_audit")

func verified(t *testing.T, s auditlog.Store, tenant string) auditlog.Verification {
	t.Helper()
	v, err := auditlog.Verify(t.Context(), s, tenant)
	require.NoError(t, err)
	require.True(t, v.OK, "%+v", v)
	return v
}

func dbURL(t *testing.T) string { return pgtest.URL(t) }
