package auditlog_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/auditlog/memaudit"
)

// line is a line of an export as a program without this package reads it.
type line struct {
	ID, TenantID, UserID, UserName, Category, Action, TargetType, TargetID, TargetName, Status, RemoteIP, UserAgent, Hash string
	Detail                                                                                                                json.RawMessage
	CreatedAt                                                                                                             time.Time
}

func (l line) sum(t *testing.T, previous []byte) []byte {
	t.Helper()
	var id uint64
	_, err := fmt.Sscan(l.ID, &id)
	require.NoError(t, err)
	b := append(slices.Clone(previous), "auditlog/1\n"...)
	b = binary.BigEndian.AppendUint64(b, id)
	b = binary.BigEndian.AppendUint64(b, uint64(l.CreatedAt.UnixMicro()))
	for _, s := range []string{l.TenantID, l.UserID, l.UserName, l.Category, l.Action, l.TargetType, l.TargetID, l.TargetName, l.Status, string(l.Detail), l.RemoteIP, l.UserAgent} {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
	}
	sum := sha256.Sum256(b)
	return sum[:]
}

func TestExportVerifiesForAnOutsider(t *testing.T) {
	t.Parallel()
	s := logged(t)
	odd := "<&>\u2028\x00\"\\ 王\xff\n"
	require.NoError(t, s.Append(t.Context(), auditlog.Define[auditlog.Change[string]]("user.odd").Record(
		auditlog.Event{TenantID: "t", UserName: odd, UserAgent: odd}, auditlog.Change[string]{From: odd, To: odd})))
	base := serve(t, auditlog.Handlers{Store: s})
	check := func(response *http.Response, body string, from, to int) {
		var verification auditlog.Verification
		_, text := get(t, base+"/verify")
		require.NoError(t, json.Unmarshal([]byte(text), &verification))
		require.Equal(t, http.StatusOK, response.StatusCode)
		require.Equal(t, "application/x-ndjson", response.Header.Get("Content-Type"))
		require.Equal(t, fmt.Sprint(to), response.Header.Get("Audit-Snapshot-Id"))
		previous, id := make([]byte, 32), 0
		if checkpoint := response.Header.Get("Audit-Checkpoint"); checkpoint != "" {
			_, err := fmt.Sscanf(checkpoint, "%d %x", &id, &previous)
			require.NoError(t, err)
		}
		require.Equal(t, from-1, id)
		for text := range strings.Lines(body) {
			var l line
			require.NoError(t, json.Unmarshal([]byte(text), &l))
			id++
			require.Equal(t, fmt.Sprint(id), l.ID)
			previous = l.sum(t, previous)
			require.Equal(t, hex.EncodeToString(previous), l.Hash)
		}
		require.Equal(t, to, id)
		require.Equal(t, verification.HeadHash, hex.EncodeToString(previous))
	}
	for _, path := range []string{"/export", "/api/audit/export", "/export?format=ndjson", "/export?format="} {
		response, body := get(t, base+path)
		require.Equal(t, `attachment; filename="audit-log-26.ndjson"`, response.Header.Get("Content-Disposition"))
		check(response, body, 1, 26)
	}
	_, err := s.Prune(t.Context(), "t", 14*time.Second, pruneAudit)
	require.NoError(t, err)
	response, body := get(t, base+"/export")
	check(response, body, 11, 27)
	response, body = get(t, base+"/export?category=none")
	require.Empty(t, body)
	require.Contains(t, response.Header.Get("Audit-Checkpoint"), "10 ")
}

func TestExportTakesFiltersAndSnapshot(t *testing.T) {
	t.Parallel()
	base := serve(t, auditlog.Handlers{Store: logged(t)})
	for query, want := range map[string][]string{
		"category=user":                {"5", "10", "15", "20", "25"},
		"category=user&snapshotId=12":  {"5", "10"},
		"user=BOB&page=2&page_size=1":  {"5", "10", "15", "20", "25"},
		"snapshotId=0":                 nil,
		"afterId=15&category=user":     {"20", "25"},
		"afterId=022":                  {"23", "24", "25"},
		"afterId=3&snapshotId=5":       {"4", "5"},
		"afterId=5&snapshotId=5":       nil,
		"afterId=9&snapshotId=5":       nil,
		"afterId=&category=user":       {"5", "10", "15", "20", "25"},
		"afterId=25":                   nil,
		"afterId=20&user=bob":          {"25"},
		"afterId=18446744073709551615": nil,
		"action=auth.login&user=id-1&to=2026-01-01T00:00:11.5Z": {"1", "11"},
	} {
		response, body := get(t, base+"/export?"+query)
		require.Equal(t, http.StatusOK, response.StatusCode)
		var got []string
		for text := range strings.Lines(body) {
			var l line
			require.NoError(t, json.Unmarshal([]byte(text), &l))
			got = append(got, l.ID)
		}
		require.Equal(t, want, got, query)
	}
}

func TestExportCSV(t *testing.T) {
	t.Parallel()
	s := new(memaudit.Store)
	names := []string{"alice", `=HYPERLINK("http://evil","x")`, "+1", "-1", "@x", "\t=1", "  =1", "\r\n=1", "＝1", "'quoted", `a "b", c`, "王\n小明", "", "a=1"}
	guarded := []string{"alice", `'=HYPERLINK("http://evil","x")`, "'+1", "'-1", "'@x", "'\t=1", "'  =1", "'\n=1", "'＝1", "''quoted", `a "b", c`, "王\n小明", "", "a=1"}
	for _, name := range names {
		require.NoError(t, s.Append(t.Context(), login.Record(auditlog.Event{TenantID: "t", UserName: name, UserAgent: name}, auditlog.None{})))
	}
	response, body := get(t, serve(t, auditlog.Handlers{Store: s})+"/export?format=csv")
	require.Equal(t, "text/csv; charset=utf-8; header=present", response.Header.Get("Content-Type"))
	require.Equal(t, `attachment; filename="audit-log-14.csv"`, response.Header.Get("Content-Disposition"))
	require.Equal(t, "nosniff", response.Header.Get("X-Content-Type-Options"))
	rows, err := csv.NewReader(strings.NewReader(body)).ReadAll() // which makes LF of CR LF, also within fields
	require.NoError(t, err)
	require.Equal(t, []string{"id", "tenantId", "userId", "userName", "category", "action", "targetType", "targetId", "targetName", "status", "detail", "remoteIp",
		"userAgent", "createdAt", "hash"}, rows[0])
	for i, row := range rows[1:] {
		require.Equal(t, fmt.Sprint(i+1), row[0])
		require.Equal(t, guarded[i], row[3])
		require.Equal(t, guarded[i], row[12])
		require.Equal(t, "null", row[10])
		require.Len(t, row[14], 64)
	}
	_, body = get(t, serve(t, auditlog.Handlers{Store: new(memaudit.Store)})+"/export?format=csv")
	require.Equal(t, 1, strings.Count(body, "\r\n"), "only the header line")
}

func TestFailedExportClosesTheConnection(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"ndjson", "csv"} {
		var logs bytes.Buffer
		base := serve(t, auditlog.Handlers{Store: &tampered{Store: filled(t, 1000), fail: 900}, Logger: slog.New(slog.NewTextHandler(&logs, nil))})
		response := start(t, base+"/export?format="+format)
		require.Equal(t, http.StatusOK, response.StatusCode)
		_, err := io.Copy(io.Discard, response.Body)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.NoError(t, response.Body.Close())
		require.Contains(t, logs.String(), errBroken.Error())
	}
}

// endless is a store whose log never ends. It sends the error of the context when the iteration
// ends.
type endless struct {
	auditlog.Store
	left chan error
}

func (s endless) Entries(ctx context.Context, _ string, _ auditlog.Filter, _ *uint64) iter.Seq2[auditlog.Entry, error] {
	return func(yield func(auditlog.Entry, error) bool) {
		defer func() { s.left <- ctx.Err() }()
		for ctx.Err() == nil {
			if !yield(auditlog.Entry{UserAgent: strings.Repeat("x", 500)}, nil) {
				return
			}
		}
		yield(auditlog.Entry{}, ctx.Err())
	}
}

func TestExportEndsWithItsClient(t *testing.T) {
	t.Parallel()
	t.Run("that goes away", func(t *testing.T) {
		t.Parallel()
		s := endless{filled(t, 1), make(chan error, 1)}
		response := start(t, serve(t, auditlog.Handlers{Store: s})+"/export")
		_, err := bufio.NewReader(response.Body).ReadString('\n')
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		<-s.left
	})
	t.Run("that takes nothing", func(t *testing.T) {
		t.Parallel()
		s := endless{filled(t, 1), make(chan error, 1)}
		response := start(t, serve(t, auditlog.Handlers{Store: s, WriteTimeout: 50 * time.Millisecond})+"/export")
		<-s.left
		_, err := io.Copy(io.Discard, response.Body)
		require.Error(t, err)
		require.NoError(t, response.Body.Close())
	})
}

func TestExportRemovesItsDeadline(t *testing.T) {
	t.Parallel()
	base := serve(t, auditlog.Handlers{Store: filled(t, 100), WriteTimeout: 400 * time.Millisecond})
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
	defer client.CloseIdleConnections()
	ask := func(method, path string) (*http.Response, string) {
		request, err := http.NewRequestWithContext(t.Context(), method, base+path, http.NoBody)
		require.NoError(t, err)
		request.Header.Set("Tenant", "t")
		response, err := client.Do(request)
		require.NoError(t, err)
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response, string(body)
	}
	_, body := ask(http.MethodGet, "/export")
	require.Equal(t, 100, strings.Count(body, "\n"))
	<-time.After(450 * time.Millisecond) // past the deadline of the last piece
	_, body = ask(http.MethodGet, "/")
	require.Contains(t, body, `"total":100`)
	response, body := ask(http.MethodHead, "/export")
	require.Empty(t, body)
	require.Equal(t, "100", response.Header.Get("Audit-Snapshot-Id"))
}

// A spreadsheet recognizes UTF-8 by a byte order mark.
func TestExportForSpreadsheets(t *testing.T) {
	t.Parallel()
	export := func(query string) string {
		recorder := respond(t, auditlog.Handlers{Store: logged(t), Tenant: func(*http.Request) string { return "t" }}.Export, query)
		require.Equal(t, http.StatusOK, recorder.Code)
		return recorder.Body.String()
	}
	require.Equal(t, "\uFEFF"+export("format=csv"), export("format=csv&bom=true"))
	require.Equal(t, export("format=csv"), export("format=csv&bom=false"))
	require.Equal(t, export("format=ndjson"), export("bom=true"))
}
