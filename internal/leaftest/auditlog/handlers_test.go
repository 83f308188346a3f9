package auditlog_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/auditlog/memaudit"
)

var update = auditlog.Define[struct {
	Role auditlog.Change[string] `json:"role"`
}]("user.update_role")

// logged has 25 entries, a second apart from 2026-01-01T00:00:01.5Z on; each fifth is an update by
// bob.
func logged(t testing.TB) *memaudit.Store {
	t.Helper()
	now := time.Date(2026, 1, 1, 0, 0, 0, 500000000, time.UTC)
	s := &memaudit.Store{Now: func() time.Time { return now }}
	for i := 1; i <= 25; i++ {
		now = now.Add(time.Second)
		e := auditlog.Event{TenantID: "t", UserID: fmt.Sprintf("id-%d", i), UserName: "Alice", RemoteIP: "192.0.2.1", UserAgent: "curl/8"}
		r := login.Record(e, auditlog.None{})
		if i%5 == 0 {
			e.UserName, e.TargetType, e.TargetID, e.TargetName, e.Status = "bob", "user", "7", "carol", auditlog.Partial
			r = update.Record(e, struct {
				Role auditlog.Change[string] `json:"role"`
			}{auditlog.Change[string]{From: "member", To: "admin"}})
		}
		require.NoError(t, s.Append(t.Context(), r))
	}
	return s
}

// A page ends at 4 MiB of details, next leads to all entries, and HEAD encodes nothing.
func TestPagesOfLargeEntries(t *testing.T) {
	s := &memaudit.Store{}
	large := auditlog.Define[struct {
		List []string `json:"list"`
	}]("user.update")
	for range 40 {
		var detail struct {
			List []string `json:"list"`
		}
		for range 60 {
			detail.List = append(detail.List, strings.Repeat("x", 4000))
		}
		require.NoError(t, s.Append(t.Context(), large.Record(auditlog.Event{TenantID: "t", UserName: "<ada>"}, detail)))
	}
	base := serve(t, auditlog.Handlers{Store: s}) + "/"
	for cursor, read := "", 0; ; {
		_, body := get(t, base+"?page_size=100&cursor="+cursor)
		require.LessOrEqual(t, len(body), 4<<20+16<<10)
		require.Contains(t, body, `"<ada>"`)
		var p struct {
			answer
			Next string `json:"next"`
		}
		require.NoError(t, json.Unmarshal([]byte(body), &p))
		require.Equal(t, fmt.Sprint(40-read), p.Items[0]["id"])
		read += len(p.Items)
		if cursor = p.Next; cursor == "" {
			require.Equal(t, 40, read)
			break
		}
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodHead, base+"?page_size=100", http.NoBody)
	require.NoError(t, err)
	request.Header.Set("Tenant", "t")
	recorder := httptest.NewRecorder()
	auditlog.Handlers{Store: s, Tenant: func(*http.Request) string { return "t" }}.Query(recorder, request)
	require.Equal(t, http.StatusOK, recorder.Code)
	require.Zero(t, recorder.Body.Len())
	require.Equal(t, "application/json", recorder.Header().Get("Content-Type"))
}

func TestQueryResponse(t *testing.T) {
	t.Parallel()
	base := serve(t, auditlog.Handlers{Store: logged(t)})
	for _, base := range []string{base + "/", base + "/api/audit/"} {
		response, body := get(t, base+"?page_size=1")
		require.Equal(t, http.StatusOK, response.StatusCode)
		require.Equal(t, "application/json", response.Header.Get("Content-Type"))
		require.Equal(t, "no-store", response.Header.Get("Cache-Control"))
		requireText(t, `{"items":[{"id":"25","tenantId":"t","userId":"id-25","userName":"bob","category":"user","action":"user.update_role",`+
			`"targetType":"user","targetId":"7","targetName":"carol","status":"partial","detail":{"role":{"from":"member","to":"admin"}},`+
			`"remoteIp":"192.0.2.1","userAgent":"curl/8","createdAt":"2026-01-01T00:00:25.500000Z"}],"total":25,"snapshotId":"25","next":"1"}`+"\n", body)
		_, body = get(t, base+"?page_size=1&page=2")
		require.Contains(t, body, `"id":"24"`)
		require.Contains(t, body, `"detail":null`)
	}
	_, body := get(t, serve(t, auditlog.Handlers{Store: new(memaudit.Store)}))
	requireText(t, `{"items":[],"total":0,"snapshotId":"0"}`+"\n", body)
}

func TestQueryParameters(t *testing.T) {
	t.Parallel()
	base := serve(t, auditlog.Handlers{Store: logged(t)})
	for _, row := range []struct {
		name, query string
		first, n    int // id of the first item, and how many
		total       uint64
		snapshot    string
	}{
		{"nothing", "", 25, 20, 25, "25"},
		{"page 1", "page=1", 25, 20, 25, "25"},
		{"page 2", "page=2", 5, 5, 25, "25"},
		{"page 3", "page=3", 0, 0, 25, "25"},
		{"page_size 1", "page_size=1", 25, 1, 25, "25"},
		{"page_size 100", "page_size=100", 25, 25, 25, "25"},
		{"page_size 101 is 100", "page_size=101&page=1", 25, 25, 25, "25"},
		{"a huge page_size is 100", "page_size=99999999999999999999999999", 25, 25, 25, "25"},
		{"a huge page", "page=9223372036854775807", 0, 0, 25, "25"},
		{"the largest page", "page=18446744073709551615&page_size=100", 0, 0, 25, "25"},
		{"a page beyond that", "page=99999999999999999999999999", 0, 0, 25, "25"},
		{"a page whose offset comes round to 0", "page=4611686018427387905&page_size=4", 0, 0, 25, "25"},
		{"leading zeros", "page=002&page_size=010&snapshotId=0025", 15, 10, 25, "25"},
		{"empty values", "page=&page_size=&category=&action=&user=&from=&to=&snapshotId=", 25, 20, 25, "25"},
		{"names alone", "page&page_size&from&snapshotId", 25, 20, 25, "25"},
		{"the first of two", "page=2&page=x&user=&user=bob", 5, 5, 25, "25"},
		{"unknown parameters", "Page=x&size=0&=&&x", 25, 20, 25, "25"},
		{"category", "category=user", 25, 5, 5, "25"},
		{"unknown category", "category=nothing", 0, 0, 0, "25"},
		{"action", "action=auth.login&page_size=3", 24, 3, 20, "25"},
		{"user", "user=BOB", 25, 5, 5, "25"},
		{"user id", "user=ID-2&page_size=1", 25, 1, 7, "25"},
		{"user with a plus sign for a space", "user=b+b", 0, 0, 0, "25"},
		{"user is no pattern", "user=%25", 0, 0, 0, "25"},
		{"user with NUL", "user=%00", 0, 0, 0, "25"},
		{"user that is no UTF-8", "user=%ff", 0, 0, 0, "25"},
		{"user with a semicolon", "user=a;b", 0, 0, 0, "25"},
		{"from", "from=2026-01-01T00:00:24.5Z", 25, 2, 2, "25"},
		{"from, a nanosecond later", "from=2026-01-01T00:00:24.500000001Z", 25, 1, 1, "25"},
		{"from, finer than a nanosecond", "from=2026-01-01T00:00:24.5000000001%2B00:00", 25, 1, 1, "25"},
		{"from, with zeros finer than a nanosecond", "from=2026-01-01T00:00:24.500000000000Z", 25, 2, 2, "25"},
		{"to", "to=2026-01-01T00:00:02.5Z", 2, 2, 2, "25"},
		{"to, a nanosecond earlier", "to=2026-01-01T00:00:02.499999999Z", 1, 1, 1, "25"},
		{"to, finer than a nanosecond", "to=2026-01-01T00:00:02.5000000009Z", 2, 2, 2, "25"},
		{"from and to the same", "from=2026-01-01T00:00:02.5Z&to=2026-01-01T00:00:02.500Z", 2, 1, 1, "25"},
		{"another zone", "from=2026-01-01T08:00:24.5%2B08:00&to=2025-12-31T23:00:24.5-01:00", 24, 1, 1, "25"},
		{"small letters", "from=2026-01-01t00:00:24.5z", 25, 2, 2, "25"},
		{"from later than to", "from=2026-01-01T00:00:03Z&to=2026-01-01T00:00:02Z", 0, 0, 0, "25"},
		{"the first time there is", "to=0001-01-01T00:00:00Z", 0, 0, 0, "25"},
		{"year 0", "to=0000-01-01T00:00:00Z", 0, 0, 0, "25"},
		{"from year 0 to the last time there is", "from=0000-01-01T00:00:00Z&to=9999-12-31T23:59:59.999999999-23:59", 25, 20, 25, "25"},
		{"all of it", "category=user&action=user.update_role&user=o&from=2026-01-01T00:00:06Z&to=2026-01-01T00:00:16Z&snapshotId=14", 10, 1, 1, "14"},
		{"snapshot 0", "snapshotId=0", 0, 0, 0, "0"},
		{"snapshot", "snapshotId=7&page_size=2", 7, 2, 7, "7"},
		{"snapshot and category", "snapshotId=14&category=user", 10, 2, 2, "14"},
		{"a snapshot above the last id", "snapshotId=26", 25, 20, 25, "25"},
		{"the largest snapshot", "snapshotId=18446744073709551615", 25, 20, 25, "25"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			a := page(t, base, row.query)
			require.Len(t, a.Items, row.n)
			require.Equal(t, row.total, a.Total)
			require.Equal(t, row.snapshot, a.SnapshotID)
			if row.n > 0 {
				require.Equal(t, fmt.Sprint(row.first), a.Items[0]["id"])
			}
		})
	}
}

func TestBadParameters(t *testing.T) {
	t.Parallel()
	words := map[string]string{"page": "无效的分页参数", "page_size": "无效的分页参数", "from": "无效的时间范围", "to": "无效的时间范围", "snapshotId": "无效的快照参数"}
	base := serve(t, auditlog.Handlers{Store: logged(t), Fail: func(w http.ResponseWriter, _ *http.Request, err error) {
		wrong, ok := errors.AsType[*auditlog.ParamError](err)
		if !ok {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(wrong.Param + " " + words[wrong.Param]))
	}})
	numbers := []string{"0", "00", "-1", "+1", "1.0", "1e3", "0x1", "1_0", " 1", "1 ", "x", "١", "1,2", "NaN", "\x00", "-99999999999999999999999"}
	times := []string{"2026-01-01", "2026-01-01T00:00:00", "2026-01-01 00:00:00Z", "2026-1-01T00:00:00Z", "2026-01-01T0:00:00Z", "2026-01-01T00:00Z", "2026-01-01T00:00:00,5Z",
		"2026-01-01T00:00:00.Z", "2026-13-01T00:00:00Z", "2026-02-30T00:00:00Z", "2026-01-01T24:00:00Z", "2026-01-01T00:00:60Z", "2026-01-01T00:00:00+24:00", "2026-01-01T00:00:00 08:00",
		"2026-01-01T00:00:00+0800", "10000-01-01T00:00:00Z", "1767225600", "now", "\x00", " 2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z "}
	snapshots := []string{"-1", "+1", "1.0", "0x1", " 1", "1 ", "x", "１", "18446744073709551616", "99999999999999999999999", "\x00"}
	rows := map[string][]string{"page": numbers, "page_size": numbers, "from": times, "to": times, "snapshotId": snapshots}
	for param, bad := range rows {
		for _, value := range bad {
			for _, path := range []string{"/", "/export", "/api/audit/"} {
				if path == "/export" && strings.HasPrefix(param, "page") {
					continue
				}
				response, body := get(t, base+path+"?"+values(param, value))
				require.Equal(t, http.StatusBadRequest, response.StatusCode, "%s=%q", param, value)
				require.Equal(t, param+" "+words[param], body)
			}
		}
	}
	for _, row := range [][2]string{{"/?page=%zz", "page"}, {"/?from=%", "from"}, {"/?user=%e", "user"}, {"/?%zz=1", "%zz"}, {"/export?format=xml", "format"}, {"/export?format=CSV", "format"}} {
		response, body := get(t, base+row[0])
		require.Equal(t, http.StatusBadRequest, response.StatusCode, row[0])
		require.Equal(t, row[1]+" "+words[row[1]], body)
	}
}

func TestDefaultFail(t *testing.T) {
	t.Parallel()
	base := serve(t, auditlog.Handlers{Store: &tampered{Store: logged(t), fail: 1}})
	for _, row := range []struct {
		path   string
		status int
		body   string
	}{
		{"/?page=x", http.StatusBadRequest, `read query parameter "page": it must be an integer of at least 1, in plain digits`},
		{"/verify", http.StatusInternalServerError, "internal error"},
		{"/export", http.StatusInternalServerError, "internal error"},
	} {
		response, body := get(t, base+row.path)
		require.Equal(t, row.status, response.StatusCode)
		require.Equal(t, row.body+"\n", body)
		require.Empty(t, response.Header.Get("Content-Disposition"))
	}
	base = serve(t, auditlog.Handlers{Store: logged(t), Tenant: func(*http.Request) string { return "" }})
	for _, path := range []string{"/", "/export", "/verify"} {
		response, _ := get(t, base+path)
		require.Equal(t, http.StatusInternalServerError, response.StatusCode, "who has no tenant has no log: %s", path)
	}
}

func TestVerifyResponse(t *testing.T) {
	t.Parallel()
	s := logged(t)
	head, err := s.Head(t.Context(), "t")
	require.NoError(t, err)
	base := serve(t, auditlog.Handlers{Store: s})
	for _, path := range []string{"/verify", "/api/audit/verify"} {
		_, body := get(t, base+path)
		requireText(t, fmt.Sprintf(`{"ok":true,"checked":25,"firstId":"1","headId":"25","headHash":"%x"}`+"\n", head.Hash), body)
	}
	base = serve(t, auditlog.Handlers{Store: &tampered{Store: s, change: func(all []auditlog.Entry) []auditlog.Entry {
		all[6].Status = auditlog.Failure
		return all
	}}})
	_, body := get(t, base+"/verify")
	requireText(t, fmt.Sprintf(`{"ok":false,"checked":6,"firstId":"1","headId":"25","headHash":"%x","firstBadId":"7","reason":"entry_changed"}`+"\n", head.Hash), body)
}

// A client pages through one view over HTTP while entries come.
func TestPagesOfOneSnapshotOverHTTP(t *testing.T) {
	t.Parallel()
	s := logged(t)
	base := serve(t, auditlog.Handlers{Store: s})
	first := page(t, base, "page_size=7")
	items := first.Items
	for n := 2; len(items) < 25; n++ {
		require.NoError(t, s.Append(t.Context(), login.Record(auditlog.Event{TenantID: "t"}, auditlog.None{})))
		next := page(t, base, values("page_size", "7", "page", fmt.Sprint(n), "snapshotId", first.SnapshotID))
		require.Equal(t, first.Total, next.Total)
		require.Equal(t, first.SnapshotID, next.SnapshotID)
		require.NotEmpty(t, next.Items)
		items = append(items, next.Items...)
	}
	for i, item := range items {
		require.Equal(t, fmt.Sprint(25-i), item["id"])
	}
}

func FuzzQuery(f *testing.F) {
	for _, seed := range []string{"page=1&page_size=5", "from=2026-01-01T00:00:00Z&to=2026-01-01T00:00:10.1234567890+23:59", "user=%25&user=x", "snapshotId=18446744073709551615", "&&=%;"} {
		f.Add(seed)
	}
	h := auditlog.Handlers{Store: logged(f), Tenant: func(*http.Request) string { return "t" }}
	f.Fuzz(func(t *testing.T, query string) {
		response := respond(t, h.Query, query)
		switch response.Code {
		case http.StatusBadRequest:
		case http.StatusOK:
			var a answer
			require.NoError(t, json.Unmarshal(response.Body.Bytes(), &a))
			require.LessOrEqual(t, uint64(len(a.Items)), a.Total)
			require.LessOrEqual(t, len(a.Items), 100)
		default:
			t.Fatal(response.Code, response.Body)
		}
	})
}

func TestVerifyWithAHead(t *testing.T) {
	t.Parallel()
	var logs bytes.Buffer
	s := logged(t)
	all := entriesOf(t, s)
	base := serve(t, auditlog.Handlers{Store: s, Logger: slog.New(slog.NewTextHandler(&logs, nil))})
	text := func(id int) string { return fmt.Sprintf("%d:%x", id, all[min(id, 25)-1].Hash) }
	for _, row := range []struct{ name, head, reason string }{
		{"the newest entry", text(25), ""},
		{"an older one", text(7), ""},
		{"in capital letters", strings.ToUpper(text(7)), ""},
		{"of an empty log", "0:" + strings.Repeat("0", 64), ""},
		{"missing", "", ""},
		{"in the future", text(26), "head_in_future"},
		{"far in the future", "18446744073709551615:" + strings.Repeat("0", 64), "head_in_future"},
		{"another hash", "7:" + strings.Repeat("0", 64), "head_mismatch"},
	} {
		logs.Reset()
		response, body := get(t, base+"/verify?"+values("head", row.head))
		require.Equal(t, http.StatusOK, response.StatusCode, row.name)
		var v auditlog.Verification
		require.NoError(t, json.Unmarshal([]byte(body), &v))
		require.Equal(t, row.reason, v.Reason, row.name)
		require.Equal(t, row.reason == "", v.OK, row.name)
		if v.OK {
			require.Empty(t, logs.String(), row.name)
		} else {
			require.Contains(t, logs.String(), "level=ERROR", row.name)
			require.Contains(t, logs.String(), "reason="+row.reason, row.name)
		}
	}
	for _, head := range []string{
		"7", "7:", ":" + text(7)[2:], text(7)[2:], text(7) + "0", text(7)[:65], "-" + text(7), "+" + text(7), "0x7:" + text(7)[2:],
		"7;" + text(7)[2:], "7: " + text(7)[3:], "18446744073709551616:" + text(7)[2:], "7:" + strings.Repeat("g", 64), " " + text(7),
	} {
		response, body := get(t, base+"/verify?"+values("head", head))
		require.Equal(t, http.StatusBadRequest, response.StatusCode, head)
		require.Contains(t, body, `"head": it must be <id>:<hash>`, head)
	}
}
