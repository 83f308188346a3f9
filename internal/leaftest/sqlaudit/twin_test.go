package sqlaudit_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/auditlog/memaudit"
	"github.com/seed93082962/agenthost/auditlog/sqlaudit"
)

// twin is a log that is kept twice: in a database, by writer and reader, and in memory. Its entries
// are of eight seconds. Users 0 to 3 are there from the first to the last; each second has two
// users of its own; user 90 is there in the first and the last second, user 91 in the second and
// the third.
type twin struct {
	tenant         string
	writer, reader *sqlaudit.Store
	queries        *recorder
	memory         *memaudit.Store
}

const twinSeconds = 8

// twins returns a function that creates twins in one database, with the given number of entries per
// second.
func twins(t *testing.T, url string) func(t *testing.T, size int) *twin {
	d := database(t, url)
	now := benchStart
	clock := func() time.Time { return now }
	writer, err := sqlaudit.New(sqlaudit.Config{Write: d.Write(), Engine: string(d.Engine()), Now: clock})
	require.NoError(t, err)
	reader, queries := recorded(t, d, url, clock)
	count, ready := 0, map[int][]*twin{}
	more := func(t *testing.T, size int) (made []*twin) {
		for range 512 / size {
			count++
			made = append(made, &twin{fmt.Sprintf("twin%d", count), writer, reader, queries, &memaudit.Store{Now: clock}})
		}
		for s := range twinSeconds {
			now = second(s)
			var records []auditlog.Record
			for _, w := range made {
				records = append(records, w.second(s, size)...)
				require.NoError(t, w.memory.Append(t.Context(), w.second(s, size)...))
			}
			require.NoError(t, writer.Append(t.Context(), records...))
		}
		now = second(twinSeconds)
		return made
	}
	return func(t *testing.T, size int) *twin {
		if len(ready[size]) == 0 {
			ready[size] = more(t, size)
		}
		w := ready[size][0]
		ready[size] = ready[size][1:]
		return w
	}
}

// second is what happens in a second.
func (w *twin) second(n, size int) (records []auditlog.Record) {
	for i := range size {
		user := i % 4
		switch {
		case i%11 == 5:
			user = 10*n + 10 + i%2
		case i%13 == 7 && (n == 0 || n == twinSeconds-1):
			user = 90
		case i%13 == 7 && (n == 1 || n == 2):
			user = 91
		}
		if i%3 == 0 {
			records = append(records, promote(w.tenant, user))
		} else {
			records = append(records, login(w.tenant, user))
		}
	}
	return records
}

func (w *twin) append(t *testing.T, second, size int) {
	t.Helper()
	for _, s := range []auditlog.Store{w.memory, w.writer} {
		require.NoError(t, s.Append(t.Context(), w.second(second, size)...))
	}
}

func (w *twin) prune(t *testing.T, before time.Time) {
	t.Helper()
	for _, s := range []auditlog.Store{w.memory, w.writer} {
		_, err := s.Prune(t.Context(), w.tenant, retention(before), pruneAudit)
		require.NoError(t, err)
	}
}

// retention is the age, after the last second, of what happened before a time.
func retention(before time.Time) time.Duration { return second(twinSeconds).Sub(before) }

// second is the time of the entries of a second.
func second(n int) time.Time { return benchStart.Add(time.Duration(n) * time.Second) }

// answer is a short form of a whole page.
func (w *twin) answer(t *testing.T, s auditlog.Store, q auditlog.Query) string {
	t.Helper()
	p, err := s.Query(t.Context(), q)
	require.NoError(t, err, "%+v", q)
	return fmt.Sprintf("%d of view %d: %v", p.Total, p.Snapshot, inShort(p.Items))
}

// inShort has what readers see of entries, and their hashes.
func inShort(entries []auditlog.Entry) []string {
	all := []string{}
	for _, e := range entries {
		all = append(all, fmt.Sprintf("%d %s %s %x", e.ID, e.UserName, e.Action, e.Hash))
	}
	return all
}

func (w *twin) entries(t *testing.T, s auditlog.Store, f auditlog.Filter, snapshot *uint64) []string {
	t.Helper()
	var all []auditlog.Entry
	for e, err := range s.Entries(t.Context(), w.tenant, f, snapshot) {
		require.NoError(t, err)
		all = append(all, e)
	}
	return inShort(all)
}

// Pages equal those of memaudit for logs among others, with many milestones and entries of the same
// time.
func TestQueryEqualsMemory(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, url string) {
		w := twins(t, url)(t, 50)
		r := rand.New(rand.NewPCG(1, 2))
		one := func(all ...string) string { return all[r.IntN(len(all))] }
		at := func() time.Time {
			return [...]time.Time{{}, {}, second(r.IntN(twinSeconds+2) - 1).Add(time.Duration(r.IntN(3)-1) * time.Duration(r.IntN(1001))),
				time.UnixMicro(math.MinInt64), time.UnixMicro(math.MaxInt64), time.Unix(math.MaxInt64/2, 0)}[r.IntN(6)]
		}
		number := func() uint64 {
			return [...]uint64{r.Uint64N(405), r.Uint64N(405), r.Uint64N(405), math.MaxInt64 - 1, math.MaxInt64, math.MaxUint64}[r.IntN(6)]
		}
		for i := range 600 {
			if i%200 == 100 { // in the middle of a milestone's sixteen, and beyond several
				w.prune(t, second(1+i/100))
			}
			q := auditlog.Query{TenantID: w.tenant, Offset: number() / 2, Limit: [...]int{0, 1, 20, 100, math.MaxInt}[r.IntN(5)]}
			q.Category, q.Action = one("", "", "user", "auth", "none"), one("", "", "", "auth.login", "user.update_role", "user.none")
			q.User, q.From, q.To = one("", "", "", "user", "1", "id-90", "user00", "none"), at(), at()
			if r.IntN(4) == 0 {
				q.AfterID = number()
			}
			if r.IntN(2) == 0 {
				q.Snapshot = new(number())
			}
			require.Equal(t, w.answer(t, w.memory, q), w.answer(t, w.reader, q), "%d: %+v", i, q)
			if i%10 == 0 {
				require.Equal(t, w.entries(t, w.memory, q.Filter, q.Snapshot), w.entries(t, w.reader, q.Filter, q.Snapshot), "%d: %+v", i, q)
			}
		}
	})
}
