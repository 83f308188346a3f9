package hub_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/secret"
)

// The three messages are those of the contract.
func TestInvalidAuditQueries(t *testing.T) {
	s, admin := started(t)
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
			res := s.call("GET", "/api/v1/admin/audit-logs"+path+"?"+query, admin, "")
			require.Equal(t, want, res.wantError(http.StatusBadRequest, "invalid_request"), query)
		}
	}
}

func TestAuditQueryResponses(t *testing.T) {
	s, admin := started(t)
	s.join(admin, "member", "meg")
	all := s.call("GET", "/api/v1/admin/audit-logs", admin, "").want(http.StatusOK)
	require.Equal(t, "4", all["snapshotId"], "setup, user.create, the login and the change of the password")
	require.EqualValues(t, 4, all["total"])
	items := all["items"].([]any)
	require.Len(t, items, 4)
	for i, action := range []string{"auth.change_password", "auth.login", "user.create", "auth.setup"} {
		entry := items[i].(map[string]any)
		require.Equal(t, action, entry["action"])
		require.IsType(t, "", entry["id"])
		require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$`, entry["createdAt"])
		require.Equal(t, "127.0.0.1", entry["remoteIp"])
	}
	for query, total := range map[string]int{
		"?page_size=500": 4, "?category=&action=&user=&from=&to=&page=&snapshotId=": 4, "?category=user": 1, "?category=auth&user=MEG": 2,
		"?action=auth.setup": 1, "?category=user&action=auth.setup": 0, "?snapshotId=0": 0, "?snapshotId=1": 1,
		"?from=2100-01-01T00:00:00Z": 0, "?to=2000-01-01T00:00:00%2B08:00": 0, "?from=2000-01-01T00:00:00.000000001Z": 4,
		"?from=2100-01-01T00:00:00Z&to=2000-01-01T00:00:00Z": 0, "?user=%25": 0, "?user=_": 0, "?page=99999999999999999999999": 4,
	} {
		body := s.call("GET", "/api/v1/admin/audit-logs"+query, admin, "").want(http.StatusOK)
		require.EqualValues(t, total, body["total"], query)
		require.IsType(t, []any{}, body["items"], query)
	}
	cut := s.call("GET", "/api/v1/admin/audit-logs?snapshotId=18446744073709551615", admin, "").want(http.StatusOK)
	require.Equal(t, "4", cut["snapshotId"], "a view never grows")

	verified := s.call("GET", "/api/v1/admin/audit-logs/verify", admin, "").want(http.StatusOK)
	require.Equal(t, true, verified["ok"])
	require.EqualValues(t, 4, verified["checked"])
	require.Equal(t, "4", verified["headId"])
	csv := s.call("GET", "/api/v1/admin/audit-logs/export?format=csv&category=user", admin, "")
	require.Equal(t, http.StatusOK, csv.status)
	require.Contains(t, csv.text, "user.create")
	require.NotContains(t, csv.text, "auth.setup")
}

const day = 24 * time.Hour

// daysAgo sets the clock of a hub to days before begin.
func daysAgo(begin time.Time, days int) func(*hub.Config) {
	return func(c *hub.Config) { c.Now = func() time.Time { return begin.Add(-time.Duration(days) * day) } }
}

func TestAuditRetention(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, url string) {
		begin, keys := time.Now(), []string{secret.Generate()}
		sameKeys := func(c *hub.Config) { c.EncryptionKeys = keys }
		retain := func(c *hub.Config) { c.AuditRetention = 90 * day }
		open(t, url, sameKeys, daysAgo(begin, 100)).setUp()
		s := open(t, url, sameKeys, retain)
		token := s.call("POST", "/auth/login", "", `{"username":"admin","password":"`+password+`"}`).want(http.StatusOK)["access_token"].(string)
		verify := func(query string) map[string]any {
			return s.call("GET", "/api/v1/admin/audit-logs/verify"+query, token, "").want(http.StatusOK)
		}
		before := verify("")
		require.EqualValues(t, 2, before["checked"])

		hub.PruneAudit(open(t, url, sameKeys, daysAgo(begin, 0)).Hub)
		require.EqualValues(t, 2, verify("")["checked"], "without a retention nothing is pruned")
		ahead := open(t, url, sameKeys, retain, daysAgo(begin, -1000), func(c *hub.Config) { c.Offline = true }) // it deletes no session
		hub.PruneAudit(ahead.Hub)
		pruned := verify("")
		require.Equal(t, true, pruned["ok"])
		require.EqualValues(t, 2, pruned["checked"], "the login and the pruning: the clock of this hub is years ahead")
		require.Equal(t, "2", pruned["firstId"])
		require.Equal(t, "3", pruned["headId"])
		require.Equal(t, "1", pruned["checkpoint"].(map[string]any)["id"])
		entry := s.call("GET", "/api/v1/admin/audit-logs?action=auth.prune_audit", token, "").want(http.StatusOK)["items"].([]any)[0].(map[string]any)
		require.Equal(t, "auth", entry["category"])
		require.EqualValues(t, 1, entry["detail"].(map[string]any)["entries"])

		head := "?head=" + before["headId"].(string) + ":" + before["headHash"].(string)
		require.Equal(t, true, verify(head)["ok"])
		require.Equal(t, "head_in_future", verify("?head=4:" + before["headHash"].(string))["reason"])
		require.Equal(t, "head_pruned", verify("?head=0:" + strings.Repeat("0", 64))["reason"])
		s.call("GET", "/api/v1/admin/audit-logs/verify?head=4", token, "").wantError(http.StatusBadRequest, "invalid_request")
		logged := s.close()
		require.Contains(t, logged, `"reason":"head_in_future"`)
	})
}

// A hub whose clock is ahead writes an entry in the future. That hub reports it by the clock of the
// database, and the next one when it starts.
func TestAuditHeadInTheFuture(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, url string) {
		begin, keys := time.Now(), []string{secret.Generate()}
		sameKeys := func(c *hub.Config) { c.EncryptionKeys = keys }
		checked := func(s *server) string {
			hub.CheckAuditHeads(s.Hub)
			return s.close()
		}
		right := open(t, url, sameKeys)
		right.setUp()
		require.NotContains(t, checked(right), "in the future")
		ahead := open(t, url, sameKeys, daysAgo(begin, -1))
		ahead.call("POST", "/auth/login", "", `{"username":"admin","password":"`+password+`"}`).want(http.StatusOK)
		for _, s := range []*server{ahead, open(t, url, sameKeys)} {
			logged := checked(s)
			require.Contains(t, logged, `"level":"ERROR","msg":"the newest audit entry is in the future`)
			require.Contains(t, logged, `"tenant":"default"`)
		}
	})
}

// The time of the bubble advances to the next timer when every goroutine waits. A hub with a
// database in another process does not wait inside the bubble, so this is about SQLite.
func TestNothingIsPrunedInTheFirstTenMinutes(t *testing.T) {
	url := sqlite(t)
	synctest.Test(t, func(t *testing.T) {
		keys := []string{secret.Generate()}
		start := func(now func() time.Time) *hub.Hub {
			h, err := hub.New(context.Background(), hub.Config{
				DatabaseURL: url, EncryptionKeys: keys, SetupToken: setupToken, PublicURL: "http://hub.example",
				AuditRetention: 90 * day, Now: now,
			})
			require.NoError(t, err)
			return h
		}
		begin := time.Now()
		h := start(func() time.Time { return begin.Add(-100 * day) })
		request := httptest.NewRequest(http.MethodPost, "/auth/setup", strings.NewReader(`{"password":"`+password+`","setup_token":"`+setupToken+`"}`))
		request.Header.Set("Content-Type", "application/json")
		recorder := httptest.NewRecorder()
		h.ServeHTTP(recorder, request)
		require.Equal(t, http.StatusCreated, recorder.Code, recorder.Body)
		require.NoError(t, h.Close())

		h = start(nil)
		count := func() int {
			synctest.Wait()
			var b strings.Builder
			require.NoError(t, h.WriteAudit(t.Context(), &b, "default", false))
			require.Equal(t, 1, strings.Count(b.String(), "\n"))
			return strings.Count(b.String(), "auth.prune_audit")
		}
		require.Zero(t, count())
		<-time.After(10*time.Minute - time.Second)
		require.Zero(t, count())
		<-time.After(2 * time.Second)
		require.Equal(t, 1, count())
		require.NoError(t, h.Close())
	})
}
