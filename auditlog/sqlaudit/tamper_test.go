package sqlaudit_test

import (
	"cmp"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/db/dbtest"
)

// Each log has twelve entries, and the sixth is changed.
func TestVerifyFindsTampering(t *testing.T) {
	entry := func(change string) string {
		return "UPDATE audit_entries SET " + change + " WHERE tenant = $1 AND id = 6"
	}
	changes := []struct {
		name string
		sql  string
		bad  uint64 // Defaults to 6.
	}{
		{name: "tenant", sql: entry("tenant = tenant + 100000")},
		{name: "id", sql: entry("id = 1000")},
		{name: "created_at", sql: entry("created_at = created_at + 1")},
		{name: "category", sql: entry("category = (SELECT e.category FROM audit_entries e WHERE e.tenant = $1 AND e.id = 5)")},
		{name: "category_pos", sql: entry("category_pos = category_pos + 1")},
		{name: "action", sql: entry("action = (SELECT e.action FROM audit_entries e WHERE e.tenant = $1 AND e.id = 5)")},
		{name: "action_pos", sql: entry("action_pos = action_pos - 1")},
		{name: "actor", sql: entry("actor = (SELECT e.actor FROM audit_entries e WHERE e.tenant = $1 AND e.id = 5)")},
		{name: "actor of another category", sql: entry(`actor = (SELECT e.actor FROM audit_entries e WHERE e.tenant = $1 AND e.id = 5),
			actor_pos = (SELECT e.actor_pos + 1 FROM audit_entries e WHERE e.tenant = $1 AND e.id = 5)`)},
		{name: "actor_pos", sql: entry("actor_pos = actor_pos + 1")},
		{name: "target_type", sql: entry("target_type = 'x'")},
		{name: "target_id", sql: entry("target_id = 'x'")},
		{name: "target_name", sql: entry("target_name = 'x'")},
		{name: "status", sql: entry("status = 'failure'")},
		{name: "detail", sql: entry("detail = '{}'")},
		{name: "no detail", sql: entry("detail = NULL")},
		{name: "remote_ip", sql: entry("remote_ip = ''")},
		{name: "user_agent", sql: entry("user_agent = ''")},
		{name: "hash", sql: entry("hash = (SELECT e.hash FROM audit_entries e WHERE e.tenant = $1 AND e.id = 5)")},
		{name: "deleted", sql: "DELETE FROM audit_entries WHERE tenant = $1 AND id = 6"},
		{name: "first deleted", sql: "DELETE FROM audit_entries WHERE tenant = $1 AND id = 1", bad: 1},
		{name: "last deleted", sql: "DELETE FROM audit_entries WHERE tenant = $1 AND id = 12", bad: 12},
		{name: "all deleted", sql: "DELETE FROM audit_entries WHERE tenant = $1", bad: 1},
		{name: "head hash", bad: 12, sql: `UPDATE audit_heads SET hash = (
			SELECT e.hash FROM audit_entries e WHERE e.tenant = $1 AND e.id = 5) WHERE tenant = $1`},
		{name: "head id", sql: "UPDATE audit_heads SET id = 11 WHERE tenant = $1", bad: 11},
		{name: "name of action", bad: 2, sql: `UPDATE audit_keys SET name = 'user.create'
			WHERE tenant = $1 AND name = 'user.update_role'`},
		{name: "name of category", sql: "UPDATE audit_keys SET name = 'token' WHERE tenant = $1 AND name = 'user'", bad: 2},
		{name: "name of user", sql: "UPDATE audit_keys SET name = 'x' WHERE tenant = $1 AND name = 'User001'", bad: 1},
		{name: "id of user", sql: "UPDATE audit_keys SET user_id = 'x' WHERE tenant = $1 AND name = 'User001'", bad: 1},
		{name: "what a user is found by", sql: "UPDATE audit_keys SET fold_name = 'x' WHERE tenant = $1 AND name = 'User001'", bad: 1},
		{name: "what an id is found by", sql: "UPDATE audit_keys SET fold_id = 'x' WHERE tenant = $1 AND name = 'User001'", bad: 1},
		{name: "a user who is none", sql: "UPDATE audit_keys SET kind = 2 WHERE tenant = $1 AND kind = 4 AND name = 'User001'", bad: 1},
		{name: "keys deleted", sql: "DELETE FROM audit_keys WHERE tenant = $1 AND kind = 3", bad: 1},
	}
	dbtest.Each(t, func(t *testing.T, url string) {
		d := database(t, url)
		s := store(t, d)
		for _, change := range changes {
			t.Run(change.name, func(t *testing.T) {
				log := change.name
				for i := range 6 {
					require.NoError(t, s.Append(t.Context(), login(log, i/5+1), promote(log, i/5+1)))
				}
				verified(t, s, log)
				// Readers that know the names do not keep Verify from looking again.
				_, err := s.Query(t.Context(), auditlog.Query{TenantID: log, Limit: 100})
				require.NoError(t, err)
				var tenant int64
				require.NoError(t, d.Read().QueryRow("SELECT tenant FROM audit_heads WHERE name = $1", log).Scan(&tenant))
				_, err = d.Write().Exec(change.sql, tenant)
				require.NoError(t, err)

				v, err := auditlog.Verify(t.Context(), s, log)
				require.NoError(t, err)
				require.False(t, v.OK)
				require.Equal(t, cmp.Or(change.bad, 6), v.FirstBadID)
			})
		}
	})
}

func TestVerifyFindsReordering(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, url string) {
		d := database(t, url)
		s := store(t, d)
		for i := range 12 {
			require.NoError(t, s.Append(t.Context(), login("t", i)))
		}
		for _, step := range [][2]int{{6, 1000}, {7, 6}, {1000, 7}} {
			_, err := d.Write().Exec(fmt.Sprintf("UPDATE audit_entries SET id = %d WHERE id = %d", step[1], step[0]))
			require.NoError(t, err)
		}
		v, err := auditlog.Verify(t.Context(), s, "t")
		require.NoError(t, err)
		require.EqualValues(t, 6, v.FirstBadID)
	})
}
