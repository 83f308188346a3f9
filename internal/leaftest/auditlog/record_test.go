package auditlog_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
)

var begin = time.Date(2026, 3, 4, 5, 6, 7, 890123456, time.FixedZone("", 8*3600))

func seal(t *testing.T, r auditlog.Record) auditlog.Entry {
	t.Helper()
	require.NoError(t, r.Err())
	e := r.Entry()
	e.Seal(auditlog.Head{}, begin)
	return e
}

func TestRecordErr(t *testing.T) {
	t.Parallel()
	login := auditlog.Define[auditlog.None]("auth.login")
	for _, row := range []struct {
		name   string
		record auditlog.Record
		want   string
	}{
		{"good", login.Record(auditlog.Event{TenantID: "t"}, auditlog.None{}), ""},
		{"the zero record", auditlog.Record{}, "record action: it is not declared"},
		{"no tenant", login.Record(auditlog.Event{}, auditlog.None{}), "record action auth.login: no tenant"},
		{"unknown status", login.Record(auditlog.Event{TenantID: "t", Status: "Success"}, auditlog.None{}), `record action auth.login: unknown status "Success"`},
		{"NUL in the tenant", login.Record(auditlog.Event{TenantID: "a\x00"}, auditlog.None{}), `record action auth.login: tenant "a\x00" is not UTF-8, or has a NUL`},
		{"the zero action", auditlog.Action[auditlog.None]{}.Record(auditlog.Event{TenantID: "t"}, auditlog.None{}), "record action: it is not declared"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			if row.want == "" {
				require.NoError(t, row.record.Err())
				return
			}
			require.EqualError(t, row.record.Err(), row.want)
		})
	}
}

func TestRecordTruncatesTexts(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("王", 1000)
	e := seal(t, auditlog.Define[auditlog.None]("auth.login").Record(auditlog.Event{
		TenantID: "t", UserID: long, UserName: long, TargetType: long, TargetID: long, TargetName: long, RemoteIP: long, UserAgent: long,
	}, auditlog.None{}))
	require.Equal(t, auditlog.Entry{
		ID: 1, TenantID: "t", UserID: long[:3*256], UserName: long[:3*128], Category: "auth", Action: "auth.login", TargetType: long[:3*64],
		TargetID: long[:3*256], TargetName: long[:3*256], Status: auditlog.Success, RemoteIP: long[:3*64], UserAgent: long[:3*512],
		CreatedAt: time.Date(2026, 3, 3, 21, 6, 7, 890123000, time.UTC), Hash: e.Hash,
	}, e)
}

type letter struct {
	Text   string                    `json:"text"`
	Lines  []string                  `json:"lines"`
	Pair   [2]*string                `json:"pair"`
	Change *auditlog.Change[*string] `json:"change"`
	At     time.Time                 `json:"at"`
	Count  int                       `json:"count"`
}

func TestRecordTruncatesDetails(t *testing.T) {
	t.Parallel()
	send := auditlog.Define[letter]("user.send")
	long := strings.Repeat("é", 5000)
	short := "short"
	given := letter{Text: long, Lines: []string{"a", long}, Pair: [2]*string{&long, nil}, Change: &auditlog.Change[*string]{From: &short, To: &long}, At: begin, Count: 3}
	e := seal(t, send.Record(auditlog.Event{TenantID: "t"}, given))

	kept := long[:2*4096]
	want, err := json.Marshal(letter{Text: kept, Lines: []string{"a", kept}, Pair: [2]*string{&kept, nil}, Change: &auditlog.Change[*string]{From: &short, To: &kept}, At: begin, Count: 3})
	require.NoError(t, err)
	require.Equal(t, string(want), string(e.Detail))
	require.Len(t, long, 10000)
	require.Equal(t, []string{"a", long}, given.Lines, "what the caller holds is left alone")
	require.Same(t, &long, given.Change.To)

	many := make([]string, 100)
	for i := range many {
		many[i] = long
	}
	for range 3 { // an action never fails because its detail is large
		e = seal(t, send.Record(auditlog.Event{TenantID: "t"}, letter{Lines: many, Count: 7}))
		require.LessOrEqual(t, len(e.Detail), 256<<10)
		require.Contains(t, string(e.Detail), `"count":7`)
		require.Contains(t, string(e.Detail), long[:20])
		many = append(many, many...)
	}
	require.ErrorContains(t, send.Record(auditlog.Event{TenantID: "t"}, letter{At: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}).Err(), "encode detail")
	e = seal(t, send.Record(auditlog.Event{TenantID: "t"}, letter{Text: "a\xff\x00"}))
	require.Contains(t, string(e.Detail), `"text":"a\ufffd\u0000"`)
}

func TestSealKeepsTimesInOrder(t *testing.T) {
	t.Parallel()
	r := auditlog.Define[auditlog.None]("auth.login").Record(auditlog.Event{TenantID: "t"}, auditlog.None{})
	last := auditlog.Head{ID: 41, Hash: make([]byte, 32), CreatedAt: begin.UTC().Truncate(time.Microsecond)}
	for _, row := range []struct {
		name      string
		now, want time.Time
	}{
		{"later", begin.Add(time.Second), last.CreatedAt.Add(time.Second)},
		{"the same microsecond", begin, last.CreatedAt},
		{"earlier", begin.Add(-time.Hour), last.CreatedAt},
	} {
		e := r.Entry()
		e.Seal(last, row.now)
		require.Equal(t, row.want, e.CreatedAt, row.name)
		require.Equal(t, uint64(42), e.ID)
		require.Equal(t, auditlog.Head{ID: 42, Hash: e.Hash, CreatedAt: row.want}, e.Head())
	}
}
