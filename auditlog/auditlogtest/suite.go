// Package auditlogtest tests implementations of [auditlog.Store]:
//
//	func TestStore(t *testing.T) {
//		auditlogtest.Run(t, func(t testing.TB) auditlog.Store { return open(t) })
//	}
//
// If the clock of the store can be set, [RunClock] tests more.
package auditlogtest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
)

// Run tests a store. Open returns a store that works until the end of the test and then releases
// its resources. It may return the same store each time, and the store may contain logs of tenants
// whose names do not begin with "suite-". No other writer may append or prune during the test.
func Run(t *testing.T, open func(t testing.TB) auditlog.Store) {
	t.Helper()
	for _, part := range []struct {
		name string
		test func(*testing.T, auditlog.Store)
	}{
		{"nothing written", nothing},
		{"append", appending},
		{"all or none", allOrNone},
		{"texts", texts},
		{"tenants", tenants},
		{"bytes of pages", bytesOfPages},
		{"entries", entries},
		{"ownership", ownership},
		{"context", contexts},
		{"many writers", manyWriters},
		{"many pruners", manyPruners},
		{"random", func(t *testing.T, s auditlog.Store) { random(t, s, nil) }},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(t, open(t)) })
	}
}

// lastTenant numbers the tenants, so that each test has its own log in any store.
var lastTenant atomic.Int64

func tenant() string { return fmt.Sprintf("suite-%d", lastTenant.Add(1)) }

type (
	rename struct {
		Name auditlog.Change[string] `json:"name"`
	}
	sizes struct {
		Text  string   `json:"text"`
		Count int64    `json:"count"`
		Ratio float64  `json:"ratio"`
		On    bool     `json:"on"`
		List  []string `json:"list"`
		Maybe *string  `json:"maybe,omitempty"`
	}
)

// What the suite records: three categories, one of which begins like another.
type actions struct {
	login, logout, fail auditlog.Action[auditlog.None]
	rename              auditlog.Action[rename]
	sizes               auditlog.Action[sizes]
	prune               auditlog.Action[auditlog.Pruning]
}

func declared() actions {
	return actions{
		login:  auditlog.Define[auditlog.None]("auth.login"),
		logout: auditlog.Define[auditlog.None]("auth.logout"),
		fail:   auditlog.Define[auditlog.None]("auth_x.login"),
		rename: auditlog.Define[rename]("user.rename"),
		sizes:  auditlog.Define[sizes]("user.sizes"),
		prune:  auditlog.Define[auditlog.Pruning]("auth.prune_audit"),
	}
}

func event(tenant, id, name string) auditlog.Event {
	return auditlog.Event{
		TenantID: tenant, UserID: id, UserName: name, TargetType: "user", TargetID: "t-" + id, TargetName: "target of " + name,
		RemoteIP: "2001:db8::1", UserAgent: "suite/1.0 (test)",
	}
}

func logins(tenant string, n int) []auditlog.Record {
	records, do := make([]auditlog.Record, n), declared()
	for i := range records {
		records[i] = do.login.Record(event(tenant, fmt.Sprint(i+1), "alice"), auditlog.None{})
	}

	return records
}

func mustAppend(t *testing.T, s auditlog.Store, records ...auditlog.Record) {
	t.Helper()
	require.NoError(t, s.Append(t.Context(), records...))
}

// pruned prunes a log, and returns the number of entries that were deleted.
func pruned(t *testing.T, s auditlog.Store, tenant string, retention time.Duration) uint64 {
	t.Helper()
	n, err := s.Prune(t.Context(), tenant, retention, declared().prune)
	require.NoError(t, err)
	return n
}

func query(t *testing.T, s auditlog.Store, q auditlog.Query) auditlog.Page {
	t.Helper()
	p, err := s.Query(t.Context(), q)
	require.NoError(t, err)
	return p
}

// all reads a log through Entries, oldest first.
func all(t *testing.T, s auditlog.Store, tenant string, f auditlog.Filter, snapshot *uint64) []auditlog.Entry {
	t.Helper()
	found, err := collect(t.Context(), s, tenant, f, snapshot)
	require.NoError(t, err)
	return found
}

func collect(ctx context.Context, s auditlog.Store, tenant string, f auditlog.Filter, snapshot *uint64) ([]auditlog.Entry, error) {
	var found []auditlog.Entry
	for e, err := range s.Entries(ctx, tenant, f, snapshot) {
		if err != nil {
			return found, err
		}

		found = append(found, e)
	}

	return found, nil
}

func ids(entries []auditlog.Entry) []uint64 {
	list := make([]uint64, len(entries))
	for i, e := range entries {
		list[i] = e.ID
	}

	return list
}

// verified requires that the chain of a log is intact.
func verified(t *testing.T, s auditlog.Store, tenant string, noted ...auditlog.Head) auditlog.Verification {
	t.Helper()
	v, err := auditlog.Verify(t.Context(), s, tenant, noted...)
	require.NoError(t, err)
	require.True(t, v.OK, "%+v", v)
	return v
}
