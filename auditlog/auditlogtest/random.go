package auditlogtest

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed93082962/agenthost/auditlog"
)

// random applies the same operations to a store and to a plain list, and compares every result.
func random(t *testing.T, s auditlog.Store, c *clock) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &machine{store: s, clock: c, tenant: tenant()}
		rt.Repeat(map[string]func(*rapid.T){
			"append":  m.append,
			"prune":   m.prune,
			"query":   m.query,
			"entries": m.entries,
		})
		v, err := auditlog.Verify(rt.Context(), s, m.tenant)
		require.NoError(rt, err)
		require.True(rt, v.OK)
		require.Equal(rt, uint64(len(m.log)), v.Checked)
	})
}

// machine is a store and the list it is compared with.
type machine struct {
	store  auditlog.Store
	clock  *clock // nil for the clock of the computer
	tenant string
	log    []auditlog.Entry // the remaining entries
	last   auditlog.Head
	lost   uint64 // number of pruned entries
}

// steps are those of a clock that is set.
var steps = []int64{-int64(30 * time.Hour), -int64(time.Hour), int64(time.Hour), int64(48 * time.Hour)}

// strange are texts that no entry has, and that a database may reject or interpret.
var strange = []string{"%", "\x00", "a\xff", "\xe7", "[a-z]*?", "\u212a", strings.Repeat("a", 1<<20)}

// names generates texts of few letters, so that they often contain each other. Some letters are
// special characters of a search, and some have several bytes.
func names() *rapid.Generator[string] {
	return rapid.StringOfN(rapid.RuneFrom([]rune(`aAbBzZ%_\王éÉ' `)), 0, 6, -1)
}

func (m *machine) append(rt *rapid.T) {
	if m.clock != nil {
		m.clock.move(time.Duration(rapid.OneOf(rapid.Int64Range(-3000, 5000), rapid.SampledFrom(steps)).Draw(rt, "nanoseconds")))
	}

	records := make([]auditlog.Record, rapid.IntRange(1, 5).Draw(rt, "n"))
	want := make([]auditlog.Entry, len(records))
	for i := range records {
		e := auditlog.Event{
			TenantID: m.tenant, UserID: names().Draw(rt, "user id"), UserName: names().Draw(rt, "user name"), TargetType: "t",
			TargetID: names().Draw(rt, "target"), RemoteIP: "192.0.2.1",
			Status: rapid.SampledFrom([]auditlog.Status{auditlog.Success, auditlog.Failure, auditlog.Partial}).Draw(rt, "status"),
		}
		var category, action string
		var detail []byte
		switch do := declared(); rapid.IntRange(0, 3).Draw(rt, "action") {
		case 0:
			category, action, records[i] = "auth", "auth.login", do.login.Record(e, auditlog.None{})
		case 1:
			category, action, records[i] = "auth", "auth.logout", do.logout.Record(e, auditlog.None{})
		case 2:
			category, action, records[i] = "auth_x", "auth_x.login", do.fail.Record(e, auditlog.None{})
		case 3:
			category, action, detail = "user", "user.rename", []byte(`{"name":{"from":"a","to":"b"}}`)
			records[i] = do.rename.Record(e, rename{auditlog.Change[string]{From: "a", To: "b"}})
		}

		want[i] = auditlog.Entry{
			ID: m.last.ID + 1 + uint64(i), TenantID: m.tenant, UserID: e.UserID, UserName: e.UserName, Category: category, Action: action,
			TargetType: "t", TargetID: e.TargetID, Status: e.Status, Detail: detail, RemoteIP: e.RemoteIP,
		}
	}

	require.NoError(rt, m.store.Append(rt.Context(), records...))
	// The time is the store's own, and with it the hash.
	got, err := m.store.Query(rt.Context(), auditlog.Query{TenantID: m.tenant, Limit: len(want)})
	require.NoError(rt, err)
	require.Len(rt, got.Items, len(want))
	for i := range want {
		e := &want[i]
		e.CreatedAt = got.Items[len(want)-1-i].CreatedAt
		require.False(rt, e.CreatedAt.Before(m.last.CreatedAt), "time went back")
		if now := m.clock; now != nil && now.Now().After(m.last.CreatedAt.Add(time.Microsecond)) {
			require.Equal(rt, now.Now().UTC().Truncate(time.Microsecond), e.CreatedAt)
		}

		previous := m.last.Hash
		if previous == nil {
			previous = make([]byte, 32)
		}

		e.Hash, err = hex.DecodeString(naiveSum(previous, *e))
		require.NoError(rt, err)
		m.last = e.Head()
	}

	m.log = append(m.log, want...)
	slices.Reverse(got.Items)
	require.Equal(rt, want, got.Items)
}

// prune deletes all entries if the clock is that of the computer.
func (m *machine) prune(rt *rapid.T) {
	var retention time.Duration
	n := len(m.log)
	if m.clock != nil {
		m.clock.move(time.Duration(rapid.Int64Range(0, 5000).Draw(rt, "nanoseconds")))
		now := m.clock.Now()
		retention = max(now.Sub(m.time(rt, "before")), 0)
		for n = 0; n < len(m.log) && m.log[n].CreatedAt.Before(now.Add(-retention)); {
			n++
		}
	}

	got, err := m.store.Prune(rt.Context(), m.tenant, retention, declared().prune)
	require.NoError(rt, err)
	require.Equal(rt, uint64(n), got)
	if n == 0 {
		return
	}

	p, err := m.store.Query(rt.Context(), auditlog.Query{TenantID: m.tenant, Limit: 1})
	require.NoError(rt, err)
	requirePruning(rt, m.log[:n], m.last, p.Items[0])
	m.last = p.Items[0].Head()
	m.log = append(m.log[n:], p.Items[0])
	m.lost += got
}

func (m *machine) query(rt *rapid.T) {
	q := auditlog.Query{
		TenantID: m.tenant, Filter: m.filter(rt), Snapshot: m.snapshot(rt),
		Offset: rapid.OneOf(rapid.Uint64Range(0, 12), rapid.Uint64()).Draw(rt, "offset"), Limit: rapid.IntRange(-1, 8).Draw(rt, "limit"),
	}
	fitting := m.fitting(q.Filter, q.Snapshot)
	slices.Reverse(fitting)
	want := auditlog.Page{Total: uint64(len(fitting)), Snapshot: m.last.ID}
	if q.Snapshot != nil && *q.Snapshot < m.last.ID {
		want.Snapshot = *q.Snapshot
	}

	if q.Offset < want.Total && q.Limit > 0 {
		rest := fitting[q.Offset:]
		want.Items = rest[:min(len(rest), q.Limit)]
	}

	got, err := m.store.Query(rt.Context(), q)
	require.NoError(rt, err)
	if len(got.Items) == 0 {
		got.Items = nil
	}

	require.Equal(rt, want, got)
}

func (m *machine) entries(rt *rapid.T) {
	f, snapshot := m.filter(rt), m.snapshot(rt)
	got, err := collect(rt.Context(), m.store, m.tenant, f, snapshot)
	require.NoError(rt, err)
	require.Equal(rt, m.fitting(f, snapshot), got)
}

func (m *machine) fitting(f auditlog.Filter, snapshot *uint64) (want []auditlog.Entry) {
	for _, e := range m.log {
		if naiveFits(f, e) && (snapshot == nil || e.ID <= *snapshot) {
			want = append(want, e)
		}
	}

	return want
}

func (m *machine) filter(rt *rapid.T) (f auditlog.Filter) {
	f.Category = rapid.SampledFrom(slices.Concat(strange, []string{"", "", "", "auth", "auth", "auth_x", "user", "AUTH", "aut", "auth ", "auth.login"})).Draw(rt, "category")
	f.Action = rapid.SampledFrom(slices.Concat(strange, []string{"", "", "", "auth.login", "auth.logout", "auth_x.login", "user.rename", "auth", "AUTH.LOGIN", "auth.log"})).Draw(rt, "action")
	if rapid.Bool().Draw(rt, "by user") {
		part := rapid.StringOfN(rapid.RuneFrom([]rune(`aAbBzZ%_\王éÉ' `)), 0, 2, -1)
		f.User = rapid.OneOf(part, part, rapid.SampledFrom(strange)).Draw(rt, "user")
	}

	if rapid.Bool().Draw(rt, "by from") {
		f.From = m.time(rt, "from")
	}

	if rapid.Bool().Draw(rt, "by to") {
		f.To = m.time(rt, "to")
	}

	return f
}

// time returns the time of an entry, or one close to it.
func (m *machine) time(rt *rapid.T, what string) time.Time {
	if len(m.log) == 0 || rapid.IntRange(0, 9).Draw(rt, what+" is far") == 0 {
		return time.Unix(rapid.OneOf(rapid.Int64Range(-1e10, 1e11), rapid.SampledFrom([]int64{math.MinInt64 / 2, math.MaxInt64 / 2})).Draw(rt, what), 0)
	}

	i := rapid.IntRange(0, len(m.log)-1).Draw(rt, what)
	shift := rapid.SampledFrom([]time.Duration{0, 0, 1, -1, 999, time.Microsecond, -time.Microsecond, time.Hour, -time.Hour}).Draw(rt, what+" shifted")
	return m.log[i].CreatedAt.Add(shift)
}

func (m *machine) snapshot(rt *rapid.T) *uint64 {
	switch rapid.IntRange(0, 3).Draw(rt, "kind of snapshot") {
	case 0:
		return nil
	case 1:
		return new(rapid.SampledFrom([]uint64{0, m.lost, m.last.ID, m.last.ID + 1, math.MaxInt64 + 1, math.MaxUint64}).Draw(rt, "snapshot"))
	default:
		return new(rapid.Uint64Range(0, m.last.ID).Draw(rt, "snapshot"))
	}
}

// requirePruning requires that e records the pruning of these entries and follows last.
func requirePruning(t require.TestingT, deleted []auditlog.Entry, last auditlog.Head, e auditlog.Entry) {
	require.Equal(t, last.ID+1, e.ID)
	require.Equal(t, e.Sum(last.Hash), e.Hash)
	require.Equal(t, "auth.prune_audit", e.Action)
	require.Equal(t, auditlog.Success, e.Status)
	require.False(t, e.CreatedAt.Before(last.CreatedAt))
	var p auditlog.Pruning
	require.NoError(t, json.Unmarshal(e.Detail, &p))
	require.EqualValues(t, len(deleted), p.Entries)
	require.Equal(t, deleted[len(deleted)-1].Head(), p.Checkpoint)
	require.True(t, p.Checkpoint.CreatedAt.Before(p.Before))
}
