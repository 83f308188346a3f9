package auditlogtest

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
)

func nothing(t *testing.T, s auditlog.Store) {
	name := tenant()
	p := query(t, s, auditlog.Query{TenantID: name, Snapshot: new(uint64(math.MaxUint64)), Limit: 10})
	require.Empty(t, p.Items)
	require.Zero(t, p.Total)
	require.Zero(t, p.Snapshot)
	require.Empty(t, all(t, s, name, auditlog.Filter{}, nil))
	head, err := s.Head(t.Context(), name)
	require.NoError(t, err)
	require.Equal(t, auditlog.Head{}, head)
	checkpoint, err := s.Checkpoint(t.Context(), name)
	require.NoError(t, err)
	require.Equal(t, auditlog.Head{}, checkpoint)
	require.Zero(t, pruned(t, s, name, 0))
	require.Equal(t, auditlog.Verification{OK: true, HeadHash: strings.Repeat("0", 64)}, verified(t, s, name))
	require.NoError(t, s.Append(t.Context()))

	for _, name := range []string{"", "\xff", "a\x00", strings.Repeat("t", 1<<12)} { // invalid
		for _, f := range []auditlog.Filter{{}, {Category: "auth"}, {User: "a"}, {From: time.Now()}} {
			p := query(t, s, auditlog.Query{TenantID: name, Filter: f, Limit: 10})
			require.Empty(t, p.Items)
			require.Zero(t, p.Total)
			require.Empty(t, all(t, s, name, f, nil))
		}

		require.Zero(t, pruned(t, s, name, 0))
		verified(t, s, name)
	}
}

func appending(t *testing.T, s auditlog.Store) {
	name, do := tenant(), declared()
	start := time.Now()
	maybe := "perhaps"
	mustAppend(t, s, do.login.Record(event(name, "u1", "alice"), auditlog.None{}))
	failed := event(name, "u2", "bob")
	failed.Status = auditlog.Failure
	partial := auditlog.Event{TenantID: name, Status: auditlog.Partial}
	mustAppend(t, s,
		do.rename.Record(failed, rename{auditlog.Change[string]{From: "a", To: "<b> & \u2028 \x00 \"c\""}}),
		do.sizes.Record(partial, sizes{Text: "x", Count: math.MinInt64, Ratio: 1e21, On: true, List: []string{}, Maybe: &maybe}),
	)
	end := time.Now()

	found := all(t, s, name, auditlog.Filter{}, nil)
	require.Equal(t, []uint64{1, 2, 3}, ids(found))
	var last auditlog.Head
	for _, e := range found {
		require.Equal(t, name, e.TenantID)
		require.Equal(t, time.UTC, e.CreatedAt.Location())
		require.Equal(t, e.CreatedAt.Truncate(time.Microsecond), e.CreatedAt)
		require.False(t, e.CreatedAt.Before(last.CreatedAt))
		require.WithinRange(t, e.CreatedAt, start.Add(-time.Minute), end.Add(time.Minute), "the clock of a database may be another")
		require.Equal(t, e.Sum(last.Hash), e.Hash)
		last = e.Head()
	}

	head, err := s.Head(t.Context(), name)
	require.NoError(t, err)
	require.Equal(t, last, head)

	one, two, three := found[0], found[1], found[2]
	require.Equal(t, auditlog.Entry{
		ID: 1, TenantID: name, UserID: "u1", UserName: "alice", Category: "auth", Action: "auth.login", TargetType: "user",
		TargetID: "t-u1", TargetName: "target of alice", Status: auditlog.Success, RemoteIP: "2001:db8::1", UserAgent: "suite/1.0 (test)",
		CreatedAt: one.CreatedAt, Hash: one.Hash,
	}, one)
	require.Equal(t, "user", two.Category)
	require.Equal(t, "user.rename", two.Action)
	require.Equal(t, auditlog.Failure, two.Status)
	require.Equal(t, `{"name":{"from":"a","to":"\u003cb\u003e \u0026 \u2028 \u0000 \"c\""}}`, string(two.Detail))
	require.Equal(t, auditlog.Partial, three.Status)
	require.Equal(t, `{"text":"x","count":-9223372036854775808,"ratio":1e+21,"on":true,"list":[],"maybe":"perhaps"}`, string(three.Detail))
	require.Empty(t, three.UserName)

	require.Equal(t, []auditlog.Entry{three, two, one}, query(t, s, auditlog.Query{TenantID: name, Limit: 10}).Items)
}

func allOrNone(t *testing.T, s auditlog.Store) {
	name, other, do := tenant(), tenant(), declared()
	bad := event(name, "u", "eve")
	bad.Status = "maybe"
	good := do.login.Record(event(name, "u", "alice"), auditlog.None{})
	for _, row := range []struct {
		name   string
		record auditlog.Record
	}{
		{"an unknown status", do.login.Record(bad, auditlog.None{})},
		{"no tenant", do.login.Record(auditlog.Event{}, auditlog.None{})},
		{"a tenant that is no text", do.login.Record(auditlog.Event{TenantID: "\xff"}, auditlog.None{})},
		{"a long tenant", do.login.Record(auditlog.Event{TenantID: strings.Repeat("t", 257)}, auditlog.None{})},
		{"no action", auditlog.Record{}},
		{"an action that is not declared", auditlog.Action[auditlog.None]{}.Record(event(name, "u", "eve"), auditlog.None{})},
		{"a detail that is no JSON", do.sizes.Record(event(name, "u", "eve"), sizes{Ratio: math.NaN()})},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.Error(t, row.record.Err())
			elsewhere := do.login.Record(event(other, "u", "alice"), auditlog.None{})
			require.Error(t, s.Append(t.Context(), good, elsewhere, row.record, good))
			for _, name := range []string{name, other} {
				p := query(t, s, auditlog.Query{TenantID: name, Limit: 10})
				require.Empty(t, p.Items)
				require.Zero(t, p.Snapshot)
			}
		})
	}

	mustAppend(t, s, good, good)
	_, err := s.Prune(t.Context(), name, -1, do.prune)
	require.Error(t, err, "entries of the future")
	_, err = s.Prune(t.Context(), name, 0, auditlog.Action[auditlog.Pruning]{})
	require.Error(t, err, "the pruning cannot be recorded")
	require.Equal(t, []uint64{1, 2}, ids(all(t, s, name, auditlog.Filter{}, nil)), "a rejected record has no id")
}

// texts tests that texts are stored unchanged if every database accepts them.
func texts(t *testing.T, s auditlog.Store) {
	name, do := tenant(), declared()
	odd := []string{
		"", " ", "王小明", "👩‍👩‍👧", "a\nb\r\n\tc", "\x01\x1f\x7f", "'; DROP TABLE entries; --", `\`, `\0`, "%_", "$1", "\u2028\ufeff\ufffd",
		"NULL", "{}", strings.Repeat("é", 128),
	}
	for _, text := range odd {
		e := auditlog.Event{TenantID: name, UserID: text, UserName: text, TargetID: text, TargetName: text, UserAgent: text}
		mustAppend(t, s, do.rename.Record(e, rename{auditlog.Change[string]{From: text, To: text}}))
	}

	mustAppend(t, s, do.login.Record(auditlog.Event{TenantID: name, UserName: "a\x00b\xff\xfec" + strings.Repeat("王", 200),
		UserID: strings.Repeat("i", 300), UserAgent: strings.Repeat("a", 600)}, auditlog.None{}))
	found := all(t, s, name, auditlog.Filter{}, nil)
	require.Len(t, found, len(odd)+1)
	for i, text := range odd {
		e := found[i]
		require.Equal(t, []string{text, text, text, text, text}, []string{e.UserID, e.UserName, e.TargetID, e.TargetName, e.UserAgent})
		require.NotZero(t, query(t, s, auditlog.Query{TenantID: name, Filter: auditlog.Filter{User: text}}).Total)
	}

	last := found[len(odd)]
	require.Equal(t, "a\ufffdb\ufffdc"+strings.Repeat("王", 123), last.UserName)
	require.Len(t, last.UserID, 256)
	require.Len(t, last.UserAgent, 512)
	verified(t, s, name)
}

func tenants(t *testing.T, s auditlog.Store) {
	one, two, do := tenant(), tenant(), declared()
	three := one + "%" // no pattern, and no part of another
	record := func(tenant, user string) auditlog.Record {
		return do.login.Record(event(tenant, user, user), auditlog.None{})
	}
	mustAppend(t, s, record(one, "a"), record(two, "b"), record(one, "c"), record(three, "d"), record(two, "e"))
	for name, users := range map[string][]string{one: {"a", "c"}, two: {"b", "e"}, three: {"d"}} {
		var got []string
		for _, e := range all(t, s, name, auditlog.Filter{}, nil) {
			require.Equal(t, name, e.TenantID)
			got = append(got, e.UserName)
		}

		require.Equal(t, users, got)
		p := query(t, s, auditlog.Query{TenantID: name, Limit: 10})
		require.Equal(t, uint64(len(users)), p.Total)
		require.Equal(t, p.Total, p.Snapshot)
		verified(t, s, name)
	}

	require.Zero(t, query(t, s, auditlog.Query{TenantID: one, Filter: auditlog.Filter{User: "b"}}).Total)
	p := query(t, s, auditlog.Query{TenantID: strings.ToUpper(one), Limit: 10})
	require.Zero(t, p.Total)

	require.Equal(t, uint64(2), pruned(t, s, one, 0))
	require.Equal(t, uint64(2), query(t, s, auditlog.Query{TenantID: two}).Total)
}

// contexts tests that calls change nothing after their context has ended.
func contexts(t *testing.T, s auditlog.Store) {
	name := tenant()
	mustAppend(t, s, logins(name, 3)...)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	for _, err := range s.Entries(ctx, name, auditlog.Filter{}, nil) {
		if n++; n == 1 {
			require.NoError(t, err)
			cancel()
		}
	}

	require.LessOrEqual(t, n, 4, "what was read before may come, and then the error")
	require.ErrorIs(t, s.Append(ctx, logins(name, 1)...), context.Canceled)
	_, err := s.Query(ctx, auditlog.Query{TenantID: name})
	require.ErrorIs(t, err, context.Canceled)
	_, err = collect(ctx, s, name, auditlog.Filter{}, nil)
	require.ErrorIs(t, err, context.Canceled)
	_, err = s.Head(ctx, name)
	require.ErrorIs(t, err, context.Canceled)
	_, err = s.Checkpoint(ctx, name)
	require.ErrorIs(t, err, context.Canceled)
	_, err = s.Prune(ctx, name, 0, declared().prune)
	require.ErrorIs(t, err, context.Canceled)
	_, err = auditlog.Verify(ctx, s, name)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, []uint64{1, 2, 3}, ids(all(t, s, name, auditlog.Filter{}, nil)))
}

// ownership tests that a caller who changes a result does not change the store.
func ownership(t *testing.T, s auditlog.Store) {
	name, do := tenant(), declared()
	for i := range 3 {
		mustAppend(t, s, do.rename.Record(event(name, "u", "alice"), rename{auditlog.Change[string]{From: fmt.Sprint(i), To: "b"}}))
	}

	spoil := func(e auditlog.Entry) {
		clear(e.Detail)
		clear(e.Hash)
	}
	before := all(t, s, name, auditlog.Filter{}, nil)
	for _, e := range query(t, s, auditlog.Query{TenantID: name, Limit: 3}).Items {
		spoil(e)
	}

	for _, e := range all(t, s, name, auditlog.Filter{User: "alice"}, nil) {
		spoil(e)
	}

	head, err := s.Head(t.Context(), name)
	require.NoError(t, err)
	clear(head.Hash)
	require.Equal(t, before, all(t, s, name, auditlog.Filter{}, nil))
	mustAppend(t, s, logins(name, 1)...)
	verified(t, s, name)
}
