package hub_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub"
	"github.com/seed93082962/agenthost/hub/db/dbtest"
	"github.com/seed93082962/agenthost/hub/secret"
)

// The three messages are the contract's own words.
func TestAuditQueryFaults(t *testing.T) {
	each(t, func(t *testing.T, s *site, admin string) {
		for query, want := range map[string]string{
			"page=0": "无效的分页参数", "page=-1": "无效的分页参数", "page=1.5": "无效的分页参数", "page=one": "无效的分页参数",
			"page_size=0": "无效的分页参数", "page_size=ten": "无效的分页参数",
			"from=yesterday": "无效的时间范围", "to=2026-01-01": "无效的时间范围", "from=2026-01-01T00:00:00": "无效的时间范围",
			"snapshotId=-1": "无效的快照参数", "snapshotId=0x10": "无效的快照参数", "snapshotId=18446744073709551616": "无效的快照参数",
			"snapshotId=1.0": "无效的快照参数", "snapshotId=one": "无效的快照参数",
		} {
			for _, path := range []string{"", "/export"} {
				if path != "" && query[:4] == "page" {
					continue // an export has no pages
				}
				a := s.call("GET", "/api/v1/admin/audit-logs"+path+"?"+query, admin, "")
				require.Equal(t, want, a.refused(http.StatusBadRequest, "invalid_request"), query)
			}
		}
	})
}

func TestAuditQueryAnswers(t *testing.T) {
	each(t, func(t *testing.T, s *site, admin string) {
		s.join(admin, "member", "meg")
		all := s.call("GET", "/api/v1/admin/audit-logs", admin, "").want(http.StatusOK)
		require.Equal(t, "3", all["snapshotId"], "setup, user.create and the login")
		require.EqualValues(t, 3, all["total"])
		items := all["items"].([]any)
		require.Len(t, items, 3)
		for i, action := range []string{"auth.login", "user.create", "auth.setup"} {
			entry := items[i].(map[string]any)
			require.Equal(t, action, entry["action"])
			require.IsType(t, "", entry["id"])
			require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$`, entry["createdAt"])
			require.Equal(t, "127.0.0.1", entry["remoteIp"])
		}
		for query, total := range map[string]int{
			"?page_size=500": 3, "?category=&action=&user=&from=&to=&page=&snapshotId=": 3, "?category=user": 1, "?category=auth&user=MEG": 1,
			"?action=auth.setup": 1, "?category=user&action=auth.setup": 0, "?snapshotId=0": 0, "?snapshotId=1": 1,
			"?from=2100-01-01T00:00:00Z": 0, "?to=2000-01-01T00:00:00%2B08:00": 0, "?from=2000-01-01T00:00:00.000000001Z": 3,
			"?from=2100-01-01T00:00:00Z&to=2000-01-01T00:00:00Z": 0, "?user=%25": 0, "?user=_": 0, "?page=99999999999999999999999": 3,
		} {
			body := s.call("GET", "/api/v1/admin/audit-logs"+query, admin, "").want(http.StatusOK)
			require.EqualValues(t, total, body["total"], query)
			require.IsType(t, []any{}, body["items"], query)
		}
		cut := s.call("GET", "/api/v1/admin/audit-logs?snapshotId=18446744073709551615", admin, "").want(http.StatusOK)
		require.Equal(t, "3", cut["snapshotId"], "a view never grows")

		verified := s.call("GET", "/api/v1/admin/audit-logs/verify", admin, "").want(http.StatusOK)
		require.Equal(t, true, verified["ok"])
		require.EqualValues(t, 3, verified["checked"])
		require.Equal(t, "3", verified["headId"])
		csv := s.call("GET", "/api/v1/admin/audit-logs/export?format=csv&category=user", admin, "")
		require.Equal(t, http.StatusOK, csv.status)
		require.Contains(t, csv.text, "user.create")
		require.NotContains(t, csv.text, "auth.setup")
	})
}

func TestAuditRetention(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, url string) {
		begin, keys := time.Now(), secret.Generate()
		at := func(days int, retention time.Duration) func(*hub.Config) {
			return func(c *hub.Config) {
				c.Now = func() time.Time { return begin.Add(time.Duration(days) * 24 * time.Hour) }
				c.EncryptionKeys, c.AuditRetention = keys, retention
			}
		}
		open(t, url, at(0, 0)).setUp()
		s := open(t, url, at(100, 0))
		token := s.call("POST", "/auth/login", "", `{"username":"admin","password":"`+password+`"}`).want(http.StatusOK)["access_token"].(string)
		total := func() any {
			return s.call("GET", "/api/v1/admin/audit-logs?snapshotId=2", token, "").want(http.StatusOK)["total"]
		}
		require.EqualValues(t, 2, total(), "kept for ever")
		open(t, url, at(100, 90*24*time.Hour)) // another replica, which prunes
		require.Eventually(t, func() bool { return total() == float64(1) }, 30*time.Second, 10*time.Millisecond)
		verified := s.call("GET", "/api/v1/admin/audit-logs/verify", token, "").want(http.StatusOK)
		require.Equal(t, true, verified["ok"])
		require.EqualValues(t, 1, verified["checked"])
		require.Equal(t, "2", verified["headId"])
	})
}
