package sqlaudit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/auditlog/sqlaudit"
	"github.com/seed93082962/agenthost/internal/db"
)

// Pruning deletes the names of users without any entry left, and no other names.
func TestPruneDeletesNamesOfUsers(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, url string) {
		d, now := database(t, url), benchStart
		s, err := sqlaudit.New(sqlaudit.Config{Write: d.Write(), Engine: string(d.Engine()), Now: func() time.Time { return now }})
		require.NoError(t, err)
		prune := func(more time.Duration) []string {
			_, err := s.Prune(t.Context(), "t", now.Sub(benchStart.Add(more)), pruneAudit)
			require.NoError(t, err)
			return known(t, d)
		}
		require.NoError(t, s.Append(t.Context(), login("t", 1), promote("t", 1), login("t", 2), login("t", 3), login("other", 1)))
		now = benchStart.Add(time.Minute)
		require.NoError(t, s.Append(t.Context(), promote("t", 2), login("t", 4)))
		now = benchStart.Add(2 * time.Minute)
		require.NoError(t, s.Append(t.Context(), login("t", 4)))

		require.Equal(t, []string{"other User001", "t User001", "t User002", "t User003", "t User004"}, prune(0))
		require.Equal(t, []string{"other User001", "t ", "t User002", "t User004"}, prune(time.Minute))
		require.Equal(t, []string{"other User001", "t ", "t User004"}, prune(2*time.Minute))
		now = benchStart.Add(time.Hour)
		require.Equal(t, []string{"other User001", "t "}, prune(time.Hour), "the pruning is recorded without a user")

		require.NoError(t, s.Append(t.Context(), login("t", 1)))
		require.Equal(t, []string{"other User001", "t ", "t User001"}, known(t, d))
		require.EqualValues(t, 2, verified(t, s, "t").Checked)
	})
}

// known returns the names of users in the database.
func known(t *testing.T, d *db.DB) (all []string) {
	t.Helper()
	rows, err := d.Read().Query(`SELECT h.name, k.name FROM audit_keys k JOIN audit_heads h ON h.tenant = k.tenant
		WHERE k.kind = 4 ORDER BY h.name, k.name`)
	require.NoError(t, err)
	for rows.Next() {
		var tenant, name string
		require.NoError(t, rows.Scan(&tenant, &name))
		all = append(all, tenant+" "+name)
	}
	require.NoError(t, rows.Err())
	return all
}

// The oldest entries are deleted by SQL, together with all that the store keeps about them: the log
// looks as if they had been pruned.
func TestVerifyFindsDeletionOfTheOldestEntries(t *testing.T) {
	t.Parallel()
	behead := []string{
		`UPDATE audit_keys SET floor = p.pos FROM (
			SELECT category AS key, MAX(category_pos) AS pos FROM audit_entries WHERE tenant = $1 AND id <= $2 GROUP BY category
			UNION ALL SELECT action, MAX(action_pos) FROM audit_entries WHERE tenant = $1 AND id <= $2 GROUP BY action
		) p WHERE audit_keys.key = p.key`,
		`UPDATE audit_heads SET floor_id = e.id, floor_hash = e.hash, floor_at = e.created_at FROM audit_entries e
			WHERE audit_heads.tenant = $1 AND e.tenant = $1 AND e.id = $2`,
		"DELETE FROM audit_entries WHERE tenant = $1 AND id <= $2",
	}
	each(t, func(t *testing.T, url string) {
		d, now := database(t, url), benchStart
		s := clocked(t, d, &now)
		for _, row := range []struct {
			name    string
			prune   bool // entries 1 to 6 first, recorded by 10
			deleted int
			bad     uint64
		}{
			{"one", false, 1, 1},
			{"all but the newest", false, 8, 1},
			{"all", false, 9, 1},
			{"one more than was pruned", true, 7, 7},
			{"the pruning too", true, 10, 1},
		} {
			t.Run(row.name, func(t *testing.T) {
				for i := range 3 {
					require.NoError(t, s.Append(t.Context(), login(row.name, i), login(row.name, i), promote(row.name, i)))
					now = now.Add(time.Hour)
				}
				if row.prune {
					n, err := s.Prune(t.Context(), row.name, 90*time.Minute, pruneAudit)
					require.NoError(t, err)
					require.EqualValues(t, 6, n)
					require.NoError(t, s.Append(t.Context(), login(row.name, 4)))
				}
				verified(t, s, row.name)
				var tenant int64
				require.NoError(t, d.Read().QueryRow("SELECT tenant FROM audit_heads WHERE name = $1", row.name).Scan(&tenant))
				for _, query := range behead {
					_, err := d.Write().Exec(query, tenant, row.deleted)
					require.NoError(t, err)
				}
				v, err := auditlog.Verify(t.Context(), s, row.name)
				require.NoError(t, err)
				require.False(t, v.OK)
				require.Equal(t, "pruning_unexplained", v.Reason)
				require.Equal(t, row.bad, v.FirstBadID)
			})
		}
	})
}

// The clock of the store is years ahead when it prunes; that of the database is right.
func TestPruneWithAClockThatIsAhead(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, url string) {
		d, now := database(t, url), time.Now()
		s := clocked(t, d, &now)
		require.NoError(t, s.Append(t.Context(), login("t", 1), login("t", 2)))
		now = now.AddDate(50, 0, 0)
		n, err := s.Prune(t.Context(), "t", 24*time.Hour, pruneAudit)
		require.NoError(t, err)
		require.Zero(t, n)
		require.EqualValues(t, 2, verified(t, s, "t").Checked)
		clock, err := s.Clock(t.Context())
		require.NoError(t, err)
		require.WithinDuration(t, time.Now(), clock, time.Minute)
	})
}

// A pruning of several transactions has one entry, also if another process continues it.
func TestPruneOfManyEntries(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, url string) {
		d, now := database(t, url), benchStart
		s := clocked(t, d, &now)
		records := make([]auditlog.Record, 2500)
		for i := range records {
			records[i] = login("t", i%7)
		}
		require.NoError(t, s.Append(t.Context(), records...))
		now = now.Add(time.Hour)
		n, err := s.Prune(t.Context(), "t", time.Minute, pruneAudit)
		require.NoError(t, err)
		require.EqualValues(t, 2500, n)
		v := verified(t, s, "t")
		require.EqualValues(t, 1, v.Checked)
		require.EqualValues(t, 2501, v.FirstID)
		require.EqualValues(t, 2500, v.Checkpoint.ID)
	})
}
