package gateway_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/rbac"
)

const (
	detailPath = "/api/v1/agents/a/detail"
	filesPath  = "/api/v1/admin/agents/a/files"
)

// responding returns a runtime that responds with that body.
func responding(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "text/html")
		h.Set("Content-Disposition", "inline")
		h.Set("Etag", `"x"`)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// The hub has types for the descriptions of a runtime: texts are texts, and other members are
// dropped.
func TestJSONOfAHostileRuntime(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`[`, 5000) + strings.Repeat(`]`, 5000)
	const ok = `{"name":"a<b","type":"file","size":1,"mtime":"2026-01-02T03:04:05.123456Z","mime":"text/plain"}`
	const bad = "" // the hub responds with 502
	var members strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&members, `,"%d":0`, i)
	}
	for name, row := range map[string]struct{ path, body, want string }{
		"a detail": {
			detailPath, `{"id":"a","name":"A","model":"m","status":"ready","maxTurns":3,"hasSystemPrompt":true,"vnode":{"x":1},"availableSkills":[{"name":"s","description":"d","source":"user","location":"/s","html":"<p>"}],
				"mcpServers":{"m":{"transport":"http","url":"u","__v":1}},"deep":` + deep + `}`,
			`{"id":"a","name":"A","model":"m","status":"ready","maxTurns":3,"hasSystemPrompt":true,"availableSkills":[{"name":"s","description":"d","source":"user","location":"/s"}],"mcpServers":{"m":{"transport":"http","url":"u"}}}`,
		},
		"an object as a name":        {detailPath, `{"id":"a","name":{"type":"script","props":{}}}`, bad},
		"an object as a description": {detailPath, `{"id":"a","availableSkills":[{"description":{"toString":1}}]}`, bad},
		"a text as a list":           {detailPath, `{"id":"a","allowedTools":"Bash"}`, bad},
		"a member twice":             {detailPath, `{"id":"a","id":"b"}`, bad},
		"a page as a detail":         {detailPath, `<html>`, bad},
		"a long detail":              {detailPath, `{"id":"` + strings.Repeat("x", 1<<20) + `"}`, bad},
		"many skills":                {detailPath, `{"availableSkills":[` + strings.Repeat(`{},`, 100_000) + `{}]}`, bad},
		"more than a detail":         {detailPath, `{"id":"a"}{}`, bad},

		"a listing":        {filesPath, `{"path":"d","x":[1],"entries":[` + ok + `]}`, `{"path":"d","entries":[` + ok + `]}`},
		"another order":    {filesPath, `{"entries":[],"path":"d"}`, `{"entries":[],"path":"d"}`},
		"no path":          {filesPath, `{"entries":[` + ok + `]}`, `{"entries":[` + ok + `]}`},
		"an unknown entry": {filesPath, `{"entries":[` + strings.Replace(ok, `{`, `{"constructor":{},"icon":"<svg>",`, 1) + `]}`, `{"entries":[` + ok + `]}`},
		"wrong entries": {
			filesPath, `{"entries":[{"name":{"a":1}},` + ok + `,{"name":"b","size":"1"},{"name":"c","mtime":"10000-01-01T00:00:00Z"},7,null,[],{"name":"","type":"file"},{"name":["x"]},` + ok + `]}`,
			`{"entries":[` + ok + `,` + ok + `]}`,
		},
		"a time outside of its form": {
			filesPath, `{"entries":[{"name":"a","type":"file","size":0,"mtime":"9999-12-31T23:59:59-23:59"}]}`,
			`{"entries":[{"name":"a","type":"file","size":0,"mtime":"9999-12-31T23:59:59.999999Z"}]}`,
		},
		"an object as the path":     {filesPath, `{"path":{"a":1},"entries":[]}`, bad},
		"entries that are no list":  {filesPath, `{"entries":{"a":` + ok + `}}`, bad},
		"many members":              {filesPath, `{"entries":[` + ok + `]` + members.String() + `}`, bad},
		"entries twice":             {filesPath, `{"entries":[],"entries":[]}`, bad},
		"an entry of a long name":   {filesPath, `{"entries":[{"name":"` + strings.Repeat("x", 100_000) + `"}]}`, bad},
		"no entries":                {filesPath, `{"path":"d"}`, bad},
		"a list":                    {filesPath, `[` + ok + `]`, bad},
		"a listing that is cut off": {filesPath, `{"entries":[` + ok, bad},
		"a page as a listing":       {filesPath, `<html>`, bad},
		"nothing":                   {filesPath, ``, bad},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := serve(t, responding(http.StatusOK, row.body))
			got := s.As("acme", "ada", rbac.Admin).Get(row.path)
			if row.want == bad {
				got.Error(http.StatusBadGateway, code.UpstreamFailed)
				return
			}
			require.Equal(t, http.StatusOK, got.Status, got.Text)
			require.JSONEq(t, row.want, got.Text)
			require.Equal(t, "application/json", got.Header.Get("Content-Type"))
			for _, other := range []string{"Etag", "Content-Disposition"} {
				require.Empty(t, got.Header.Get(other))
			}
		})
	}
}

// An error of a runtime is a text, for each of the three paths. The content of a file is that of
// the runtime.
func TestErrorsOfAHostileRuntime(t *testing.T) {
	t.Parallel()
	const file = filesPath + "/content?path=x"
	for body, want := range map[string]string{
		`{"error":"Invalid path","html":{"a":1}}`:        `{"error":"Invalid path"}`,
		`{"error":{"toString":1}}`:                       `{"error":"Bad Request"}`,
		`<script>alert(1)</script>`:                      `{"error":"Bad Request"}`,
		`{"error":"` + strings.Repeat("x", 2<<20) + `"}`: `{"error":"Bad Request"}`,
	} {
		s, _ := serve(t, responding(http.StatusBadRequest, body))
		ada := s.As("acme", "ada", rbac.Admin)
		for _, path := range []string{detailPath, filesPath, file} {
			got := ada.Get(path)
			require.Equal(t, http.StatusBadRequest, got.Status, path)
			require.JSONEq(t, want, got.Text, path)
			require.Equal(t, "application/json", got.Header.Get("Content-Type"), path)
		}
	}
	s, _ := serve(t, responding(http.StatusPartialContent, `{"entries":[]}`))
	ada := s.As("acme", "ada", rbac.Admin)
	ada.Get(detailPath).Error(http.StatusBadGateway, code.UpstreamFailed)
	ada.Get(filesPath).Error(http.StatusBadGateway, code.UpstreamFailed)
	require.Equal(t, `{"entries":[]}`, ada.Get(file).Text)
	head := ada.Do(http.MethodHead, filesPath, nil)
	require.NotEqual(t, http.StatusOK, head.Status)
}

// A listing that is longer than memory is encoded again while it is read, and one that breaks off
// does not end like a whole one.
func TestListingsThatAreLongerThanMemory(t *testing.T) {
	const entry = `{"name":"%06d-` + "abcdefghijklmnopqrstuvwxyz" + `","type":"file","size":1,"mtime":"2026-01-02T03:04:05.000000Z"}`
	const most, few = 300_000, 20_000
	long := func(count int, end string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"path":"","entries":[`)
			for i := range count {
				_, _ = fmt.Fprintf(w, entry+",", i)
			}
			_, _ = io.WriteString(w, end)
		}
	}
	for end, count := range map[string]int{fmt.Sprintf(entry, most) + `]}`: most, `{"name"`: few, `]}`: few, `"` + strings.Repeat("x", 100_000) + `"]}`: few} {
		whole := count == most
		s, _ := serve(t, long(count, end))
		res, err := http.DefaultClient.Do(s.As("acme", "ada", rbac.Admin).Request(http.MethodGet, filesPath, nil))
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, res.StatusCode)
		decoder := json.NewDecoder(res.Body)
		n := 0
		for err == nil {
			var token json.Token
			if token, err = decoder.Token(); token == "name" {
				n++
			}
			if n == count/2 {
				var m runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&m)
				require.Less(t, m.HeapAlloc, uint64(64<<20))
			}
		}
		require.NoError(t, res.Body.Close())
		require.Equal(t, whole, err == io.EOF, "%v", err) //nolint:errorlint // of a whole JSON text
		require.Equal(t, whole, n == count+1)
	}
}
