package sqlaudit_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/auditlog/sqlaudit"
	"github.com/seed93082962/agenthost/internal/db"
)

// added inserts one more of an entry of the log $1.
func added(tenant, id, of string) string {
	const columns = `created_at, category, category_pos, action, action_pos, user_key, target_type, target_id, target_name,
		status, detail, remote_ip, user_agent, hash`
	return "INSERT INTO audit_entries (tenant, id, " + columns + ") SELECT " + tenant + ", " + id + ", " + columns +
		" FROM audit_entries WHERE tenant = $1 AND id = " + of
}

// Each log has twelve entries, and the sixth is changed.
func TestVerifyFindsTampering(t *testing.T) {
	t.Parallel()
	entry := func(change string) string {
		return "UPDATE audit_entries SET " + change + " WHERE tenant = $1 AND id = 6"
	}
	key := func(change string, kind int, name string) string {
		return fmt.Sprintf("UPDATE audit_keys SET %s WHERE tenant = $1 AND kind = %d AND name = '%s'", change, kind, name)
	}
	const elsewhere = "(SELECT h.tenant FROM audit_heads h WHERE h.name = 'elsewhere')"
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
		{name: "user_key", sql: entry(`user_key = (SELECT k.key FROM audit_keys k WHERE k.tenant = $1 AND k.name = 'User002')`)},
		{name: "category as a user", sql: entry("user_key = category")},
		{name: "user as a category", sql: entry("category = user_key")},
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
		{name: "added above the head", sql: added("tenant", "13", "12"), bad: 13},
		{name: "added far above the head", sql: added("tenant", "9223372036854775807", "12"), bad: 13},
		{name: "added before the first", sql: added("tenant", "0", "1"), bad: 1},
		{name: "added with a negative id", sql: added("tenant", "-7", "1"), bad: 1},
		{name: "added to another log, with a key of this", sql: added(elsewhere, "6", "6"), bad: 13},
		{name: "added to no log, with the next position", sql: strings.Replace(added("100000", "1000", "12"), "SELECT 100000, 1000, created_at,"+
			" category, category_pos, action, action_pos", "SELECT 100000, 1000, created_at, category, category_pos + 1, action,"+
			" action_pos + 1", 1), bad: 13},
		{name: "head put back", bad: 12, sql: `UPDATE audit_heads SET id = 11, hash = e.hash, at = e.created_at FROM audit_entries e
			WHERE audit_heads.tenant = $1 AND e.tenant = $1 AND e.id = 11`},
		{name: "time of head", bad: 12, sql: "UPDATE audit_heads SET at = at + 1000000 WHERE tenant = $1"},
		{name: "digest of category", sql: key("digest = 'x'", 1, "user"), bad: 2},
		{name: "digest of action", sql: key("digest = 'x'", 2, "auth.login"), bad: 1},
		{name: "digest of user", sql: key("digest = 'x'", 4, "User001"), bad: 1},
		{name: "digest of last user", sql: key("digest = 'x'", 4, "User002"), bad: 11},
		{name: "category of another log", sql: key("tenant = "+elsewhere, 1, "user"), bad: 2},
		{name: "user of another log", sql: key("tenant = "+elsewhere, 4, "User001"), bad: 1},
		{name: "second category of a name", bad: 13, sql: "INSERT INTO audit_keys (tenant, kind, digest, name) VALUES ($1, 1, 'x', 'auth')"},
		{name: "second user of a name", bad: 13, sql: `INSERT INTO audit_keys (tenant, kind, digest, name, user_id, fold_name, fold_id)
			SELECT tenant, kind, 'x', name, user_id, fold_name, fold_id FROM audit_keys WHERE tenant = $1 AND name = 'User001'`},
		{name: "floor", sql: key("floor = 1", 1, "user"), bad: 2},
		{name: "floor below 0", sql: key("floor = -1", 1, "user"), bad: 2},
		{name: "keys deleted", sql: "DELETE FROM audit_keys WHERE tenant = $1 AND kind = 4", bad: 1},
	}
	each(t, func(t *testing.T, url string) {
		d := database(t, url)
		s := store(t, d)
		require.NoError(t, s.Append(t.Context(), auditlog.Define[auditlog.None]("elsewhere.login").Record(
			auditlog.Event{TenantID: "elsewhere"}, auditlog.None{})))
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
				requireFound(t, d, s, log, change.sql, cmp.Or(change.bad, 6))
			})
		}
	})
}

func TestVerifyFindsReordering(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, url string) {
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

// Twelve entries are pruned, all of their actions, and three are left.
func TestVerifyFindsTamperingBelowTheCheckpoint(t *testing.T) {
	t.Parallel()
	changes := []struct {
		name, sql string
		bad       uint64
	}{
		{"floor of a category without entries", "UPDATE audit_keys SET floor = floor + 1 WHERE tenant = $1 AND kind = 1 AND name = 'user'", 17},
		{"floor of an action without entries", "UPDATE audit_keys SET floor = 0 WHERE tenant = $1 AND kind = 2 AND name = 'user.update_role'", 17},
		{"floor of a category with entries", "UPDATE audit_keys SET floor = floor + 1 WHERE tenant = $1 AND kind = 1 AND name = 'auth'", 13},
		{"an entry put back", added("tenant", "7", "14"), 7},
		{"the checkpoint of a later entry", `UPDATE audit_heads SET floor_id = e.id, floor_hash = e.hash, floor_at = e.created_at
			FROM audit_entries e WHERE audit_heads.tenant = $1 AND e.tenant = $1 AND e.id = 14`, 15},
		{"a checkpoint above the head", "UPDATE audit_heads SET floor_id = 1000 WHERE tenant = $1", 13},
	}
	each(t, func(t *testing.T, url string) {
		d := database(t, url)
		now := benchStart
		s := clocked(t, d, &now)
		for _, change := range changes {
			t.Run(change.name, func(t *testing.T) {
				log := change.name
				for i := range 6 {
					require.NoError(t, s.Append(t.Context(), login(log, i), promote(log, i)))
				}
				now = now.Add(time.Hour)
				require.NoError(t, s.Append(t.Context(), login(log, 7), login(log, 8), login(log, 9)))
				n, err := s.Prune(t.Context(), log, time.Minute, pruneAudit)
				require.NoError(t, err)
				require.EqualValues(t, 12, n)
				require.EqualValues(t, 4, verified(t, s, log).Checked)
				requireFound(t, d, s, log, change.sql, change.bad)
			})
		}
	})
}

// requireFound changes a log, whose tenant is $1 of the statement, and requires that Verify detects
// it.
func requireFound(t *testing.T, d *db.DB, s *sqlaudit.Store, log, tamper string, bad uint64) {
	t.Helper()
	var tenant int64
	require.NoError(t, d.Read().QueryRow("SELECT tenant FROM audit_heads WHERE name = $1", log).Scan(&tenant))
	_, err := d.Write().Exec(tamper, tenant)
	require.NoError(t, err)
	v, err := auditlog.Verify(t.Context(), s, log)
	require.NoError(t, err)
	require.False(t, v.OK)
	require.Equal(t, bad, v.FirstBadID)
}
