package sqlaudit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog/sqlaudit"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/hub/db/dbtest"
)

// Pruning takes away the names of those of whom nothing is left, and of nobody else.
func TestPruneForgetsUsers(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, url string) {
		d, now := database(t, url), benchStart
		s, err := sqlaudit.New(sqlaudit.Config{Write: d.Write(), Engine: string(d.Engine()), Now: func() time.Time { return now }})
		require.NoError(t, err)
		defer func() { require.NoError(t, s.Close()) }()
		prune := func(more time.Duration) []string {
			_, err := s.Prune(t.Context(), "t", benchStart.Add(more))
			require.NoError(t, err)
			return known(t, d)
		}
		require.NoError(t, s.Append(t.Context(), login("t", 1), promote("t", 1), login("t", 2), login("t", 3), login("other", 1)))
		now = benchStart.Add(time.Minute)
		require.NoError(t, s.Append(t.Context(), promote("t", 2), login("t", 4)))
		now = benchStart.Add(2 * time.Minute)
		require.NoError(t, s.Append(t.Context(), login("t", 4)))

		require.Equal(t, []string{"other User001", "t User001", "t User002", "t User003", "t User004"}, prune(0))
		require.Equal(t, []string{"other User001", "t User002", "t User004"}, prune(time.Minute))
		require.Equal(t, []string{"other User001", "t User004"}, prune(2*time.Minute))
		require.Equal(t, []string{"other User001"}, prune(time.Hour))

		require.NoError(t, s.Append(t.Context(), login("t", 1)))
		require.Equal(t, []string{"other User001", "t User001"}, known(t, d))
		require.EqualValues(t, 1, verified(t, s, "t").Checked)
	})
}

// known are the names of users that the database holds.
func known(t *testing.T, d *db.DB) (all []string) {
	t.Helper()
	rows, err := d.Read().Query(`SELECT h.name, k.name FROM audit_keys k JOIN audit_heads h ON h.tenant = k.tenant
		WHERE k.kind = 4 ORDER BY h.name, k.name`)
	require.NoError(t, err)
	defer func() { require.NoError(t, rows.Close()) }()
	for rows.Next() {
		var tenant, name string
		require.NoError(t, rows.Scan(&tenant, &name))
		all = append(all, tenant+" "+name)
	}
	require.NoError(t, rows.Err())
	return all
}
