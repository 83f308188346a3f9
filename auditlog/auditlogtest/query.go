package auditlogtest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
)

// requireFound requires that Query and Entries return the entries with the ids of want, oldest
// first.
func requireFound(t *testing.T, s auditlog.Store, tenant string, f auditlog.Filter, want ...uint64) {
	t.Helper()
	require.Equal(t, want, nilIfNone(ids(all(t, s, tenant, f, nil))))
	p := query(t, s, auditlog.Query{TenantID: tenant, Filter: f, Limit: 100})
	got := ids(p.Items)
	slices.Reverse(got)
	require.Equal(t, want, nilIfNone(got))
	require.Equal(t, uint64(len(want)), p.Total)
}

func nilIfNone(ids []uint64) []uint64 {
	if len(ids) == 0 {
		return nil
	}
	return ids
}

func filters(t *testing.T, s auditlog.Store) {
	name, do := tenant(), declared()
	alice, bob := event(name, "1", "alice"), event(name, "2", "bob")
	mustAppend(t, s,
		do.login.Record(alice, auditlog.None{}),
		do.rename.Record(alice, rename{}),
		do.login.Record(bob, auditlog.None{}),
		do.fail.Record(bob, auditlog.None{}),
		do.logout.Record(alice, auditlog.None{}),
		do.sizes.Record(bob, sizes{}),
		do.login.Record(alice, auditlog.None{}),
	)
	for _, row := range []struct {
		name   string
		filter auditlog.Filter
		want   []uint64
	}{
		{"none", auditlog.Filter{}, []uint64{1, 2, 3, 4, 5, 6, 7}},
		{"category", auditlog.Filter{Category: "auth"}, []uint64{1, 3, 5, 7}},
		{"category that begins with another", auditlog.Filter{Category: "auth_x"}, []uint64{4}},
		{"part of a category", auditlog.Filter{Category: "aut"}, nil},
		{"category in capitals", auditlog.Filter{Category: "Auth"}, nil},
		{"unknown category", auditlog.Filter{Category: "nothing"}, nil},
		{"category as a pattern", auditlog.Filter{Category: "%"}, nil},
		{"category with a space", auditlog.Filter{Category: "auth "}, nil},
		{"action", auditlog.Filter{Action: "auth.login"}, []uint64{1, 3, 7}},
		{"action of a category that begins with another", auditlog.Filter{Action: "auth_x.login"}, []uint64{4}},
		{"part of an action", auditlog.Filter{Action: "auth.log"}, nil},
		{"action in capitals", auditlog.Filter{Action: "AUTH.LOGIN"}, nil},
		{"unknown action", auditlog.Filter{Action: "auth.nothing"}, nil},
		{"category as an action", auditlog.Filter{Action: "auth"}, nil},
		{"action as a category", auditlog.Filter{Category: "auth.login"}, nil},
		{"category and its action", auditlog.Filter{Category: "auth", Action: "auth.login"}, []uint64{1, 3, 7}},
		{"category and another's action", auditlog.Filter{Category: "user", Action: "auth.login"}, nil},
		{"action of the category that begins alike", auditlog.Filter{Category: "auth", Action: "auth_x.login"}, nil},
		{"user", auditlog.Filter{User: "bob"}, []uint64{3, 4, 6}},
		{"user and category", auditlog.Filter{User: "lic", Category: "auth"}, []uint64{1, 5, 7}},
		{"user and action", auditlog.Filter{User: "bob", Action: "auth.login"}, []uint64{3}},
		{"user, category and action", auditlog.Filter{User: "alice", Category: "user", Action: "user.rename"}, []uint64{2}},
		{"all of it and nothing", auditlog.Filter{User: "bob", Category: "user", Action: "user.rename"}, nil},
		{"NUL in the category", auditlog.Filter{Category: "auth\x00"}, nil},
		{"no UTF-8 in the category", auditlog.Filter{Category: "auth\xff"}, nil},
		{"NUL in the action", auditlog.Filter{Action: "\x00"}, nil},
		{"no UTF-8 in the action", auditlog.Filter{Action: "\xff"}, nil},
		{"an endless category", auditlog.Filter{Category: strings.Repeat("a", 1<<20)}, nil},
		{"an endless action", auditlog.Filter{Action: strings.Repeat("a", 1<<20)}, nil},
	} {
		t.Run(row.name, func(t *testing.T) { requireFound(t, s, name, row.filter, row.want...) })
	}
}

func users(t *testing.T, s auditlog.Store) {
	name, do := tenant(), declared()
	for _, u := range [][2]string{
		{"u-1", "Alice"}, {"u-2", "BOB alison"}, {"ALI-3", "carol"}, {"u_4", "100% sure"}, {"u-5", `back\slash`}, {"u-6", "王小明"},
		{"u-7", "ÄRGER"}, {"u-8", "İstanbul ß K"}, {"", ""}, {"u-10", "x'y\"z"}, {"u-11", "[a-z]*?"}, {"abc", "def"},
	} {
		mustAppend(t, s, do.login.Record(event(name, u[0], u[1]), auditlog.None{}))
	}
	for _, row := range []struct {
		user string
		want []uint64
	}{
		{"alice", []uint64{1}},
		{"ALICE", []uint64{1}},
		{"ali", []uint64{1, 2, 3}},
		{"aLi", []uint64{1, 2, 3}},
		{"l", []uint64{1, 2, 3, 5, 8}},
		{"u-", []uint64{1, 2, 5, 6, 7, 8, 10, 11}},
		{"U-1", []uint64{1, 10, 11}},
		{"%", []uint64{4}},
		{"%%", nil},
		{"0%", []uint64{4}},
		{"_", []uint64{4}},
		{"u_", []uint64{4}},
		{`\`, []uint64{5}},
		{`\\`, nil},
		{`\%`, nil},
		{`k\s`, []uint64{5}},
		{"小", []uint64{6}},
		{"王小明", []uint64{6}},
		{"王明", nil},
		{"\xe7", nil},
		{"Ärger", []uint64{7}},
		{"ärger", nil},
		{"rGeR", []uint64{7}},
		{"ISTANBUL", nil},
		{"sTaNbUl", []uint64{8}},
		{"ß k", []uint64{8}},
		{"SS", nil},
		{"\u212a", nil}, // the Kelvin sign, which is a K to Unicode
		{" ", []uint64{2, 4, 8}},
		{"'", []uint64{10}},
		{`"`, []uint64{10}},
		{"[a-z]", []uint64{11}},
		{"*", []uint64{11}},
		{"?", []uint64{11}},
		{"cdef", nil}, // across id and name
		{"cd", nil},
		{"\x00", nil},
		{"a\xff", nil},
		{strings.Repeat("a", 1<<20), nil},
	} {
		t.Run(fmt.Sprintf("%.20q", row.user), func(t *testing.T) {
			requireFound(t, s, name, auditlog.Filter{User: row.user}, row.want...)
		})
	}
}

func snapshots(t *testing.T, s auditlog.Store) {
	name := tenant()
	mustAppend(t, s, logins(name, 5)...)
	first := query(t, s, auditlog.Query{TenantID: name, Limit: 2})
	require.Equal(t, uint64(5), first.Snapshot)
	for _, row := range []struct {
		name               string
		snapshot           *uint64
		used, total, first uint64
	}{
		{"omitted", nil, 5, 5, 5},
		{"none", new(uint64(0)), 0, 0, 0},
		{"the first", new(uint64(1)), 1, 1, 1},
		{"one between", new(uint64(3)), 3, 3, 3},
		{"the last", new(uint64(5)), 5, 5, 5},
		{"above", new(uint64(6)), 5, 5, 5},
		{"above what an int64 holds", new(uint64(math.MaxInt64 + 1)), 5, 5, 5},
		{"the largest", new(uint64(math.MaxUint64)), 5, 5, 5},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, f := range []auditlog.Filter{{}, {Category: "auth"}, {Action: "auth.login"}, {User: "ALICE"}} {
				p := query(t, s, auditlog.Query{TenantID: name, Filter: f, Snapshot: row.snapshot, Limit: 1})
				require.Equal(t, row.used, p.Snapshot)
				require.Equal(t, row.total, p.Total)
				if row.total > 0 {
					require.Equal(t, []uint64{row.first}, ids(p.Items))
				} else {
					require.Empty(t, p.Items)
				}
				require.Equal(t, row.total, uint64(len(all(t, s, name, f, row.snapshot))))
			}
			empty := query(t, s, auditlog.Query{TenantID: name, Filter: auditlog.Filter{Category: "\x00"}, Snapshot: row.snapshot, Limit: 1})
			require.Equal(t, row.used, empty.Snapshot, "the view is told also where nothing can fit")
		})
	}
	mustAppend(t, s, logins(name, 3)...)
	again := query(t, s, auditlog.Query{TenantID: name, Snapshot: &first.Snapshot, Limit: 2})
	require.Equal(t, first, again)
	require.Equal(t, uint64(8), query(t, s, auditlog.Query{TenantID: name}).Snapshot)
}

func pages(t *testing.T, s auditlog.Store) {
	name, do := tenant(), declared()
	for i := range 10 {
		mustAppend(t, s, logins(name, 9)...)
		mustAppend(t, s, do.rename.Record(event(name, fmt.Sprint(i), "bob"), rename{}))
	}
	for _, f := range []auditlog.Filter{{}, {Category: "user"}, {Category: "auth"}, {Action: "user.rename"}, {User: "o"}, {User: "1"}} {
		want := ids(all(t, s, name, f, nil))
		slices.Reverse(want)
		for _, size := range []int{1, 3, 10, 100, 1 << 20} {
			var got []uint64
			for offset := 0; offset == 0 || offset < len(want); offset += size {
				p := query(t, s, auditlog.Query{TenantID: name, Filter: f, Snapshot: new(uint64(100)), Offset: uint64(offset), Limit: size})
				require.Len(t, p.Items, min(size, len(want)-offset))
				require.Equal(t, uint64(len(want)), p.Total)
				got = append(got, ids(p.Items)...)
			}
			require.Equal(t, want, got)
		}
		for _, beyond := range []uint64{uint64(len(want)), 101, math.MaxInt64, math.MaxInt64 + 1, math.MaxUint64} {
			p := query(t, s, auditlog.Query{TenantID: name, Filter: f, Offset: beyond, Limit: 10})
			require.Empty(t, p.Items)
			require.Equal(t, uint64(len(want)), p.Total)
		}
		for _, limit := range []int{0, -1, math.MinInt} {
			p := query(t, s, auditlog.Query{TenantID: name, Filter: f, Limit: limit})
			require.Empty(t, p.Items)
			require.Equal(t, uint64(len(want)), p.Total)
		}
	}
}

func entries(t *testing.T, s auditlog.Store) {
	name := tenant()
	for range 6 {
		mustAppend(t, s, logins(name, 500)...)
	}
	want := uint64(1)
	for e, err := range s.Entries(t.Context(), name, auditlog.Filter{}, new(uint64(2500))) {
		require.NoError(t, err)
		require.Equal(t, want, e.ID)
		want++
		if want == 10 {
			mustAppend(t, s, logins(name, 1)...) // the loop holds no lock that others need
		}
	}
	require.Equal(t, uint64(2501), want)

	sequence := s.Entries(t.Context(), name, auditlog.Filter{}, nil)
	for range 2 { // it can be read again, and left early
		n := 0
		for _, err := range sequence {
			require.NoError(t, err)
			if n++; n == 3 {
				break
			}
		}
		require.Equal(t, 3, n)
	}
	require.Len(t, all(t, s, name, auditlog.Filter{User: "499"}, nil), 6)
	require.Len(t, all(t, s, name, auditlog.Filter{Category: "auth"}, new(uint64(7))), 7)
}
