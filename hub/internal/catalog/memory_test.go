package catalog_test

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
)

// allocated returns the bytes that the process allocates for requests. Its tests do not run with
// others.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// The faults of a form are bounded in number and bytes, whatever has them.
func TestFormsOfManyFaults(t *testing.T) {
	s := open(t, dbtest.SQLite(t, series...), nil)
	s.ada.Post(agents, demo("a")).Want(http.StatusCreated)
	s.ada.Post(mcps, object{"name": "m", "transport": "stdio", "command": "c"}).Want(http.StatusCreated)
	list := func(element string, n int) string { return "[" + strings.Repeat(element+",", n) + element + "]" }
	long := strings.Repeat(`\u0001`, 40)
	for name, row := range map[string]struct{ method, path, body string }{
		"numbers for texts":       {"POST", agents, `{"name":"b","providerId":"demo","model":"m","allowedTools":` + list("1", 261_000) + `}`},
		"within the values":       {"POST", agents, `{"name":"b","providerId":"demo","model":"m","allowedTools":` + list("1", 19_000) + `}`},
		"texts of a valid type":   {"POST", agents, `{"name":"b","providerId":"demo","model":"m","tools":` + list(`""`, 19_000) + `}`},
		"lists of subagents":      {"POST", agents, `{"name":"b","providerId":"demo","model":"m","subagents":{` + strings.Repeat(`"`+long+`":{"tools":`+list("1", 199)+`},`, 49) + `"z":{}}}`},
		"keys that are too long":  {"PUT", agents + "/a", `{"model":"m","datasets":{"` + strings.Repeat("x", 400_000) + `":1}}`},
		"keys of unknown members": {"PUT", agents + "/a", `{"model":"m","` + strings.Repeat("x", 300_000) + `":` + list("1", 18_000) + `}`},
		"an MCP server":           {"PUT", mcps + "/m", `{"transport":"stdio","command":"c","args":` + list("{}", 300_000) + `}`},
		"bindings":                {"PUT", agents + "/a/tools", `{"items":` + list("{}", 250_000) + `}`},
		"bindings of texts":       {"PUT", agents + "/a/knowledge", `{"items":` + list(`"a"`, 250_000) + `}`},
	} {
		t.Run(name, func(t *testing.T) {
			var r apitest.Response
			used := allocated(func() {
				r = s.ada.Do(row.method, row.path, strings.NewReader(row.body), "Content-Type", "application/json")
			})
			require.Equal(t, http.StatusBadRequest, r.Status, "%.300s", r.Text)
			require.Less(t, len(r.Text), 64<<10)
			require.Less(t, used, uint64(96<<20), "with garbage, and what the client needs")
		})
	}
}

// A page of agents ends at 4 MiB, markup is not escaped, and HEAD encodes nothing.
func TestListsOfLargeAgents(t *testing.T) {
	s := open(t, dbtest.SQLite(t, series...), nil)
	prompt := strings.Repeat("<", 150_000) // its client escapes it
	names := map[string]bool{}
	for i := range 100 {
		name := fmt.Sprint("a", i)
		names[name] = true
		s.ada.Post(agents, demo(name, "systemPrompt", prompt, "description", strings.Repeat("&", 2000))).Want(http.StatusCreated)
	}
	for _, path := range []string{agents, "/api/v1/agents"} {
		s.ada.Get(path + "?page_size=1").Want(http.StatusOK) // loads the snapshot
		used := allocated(func() {
			res, err := http.DefaultClient.Do(s.ada.Request(http.MethodHead, path+"?page_size=100", nil))
			require.NoError(t, err)
			text, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			require.Empty(t, text)
			require.Equal(t, http.StatusOK, res.StatusCode)
			require.Equal(t, "application/json", res.Header.Get("Content-Type"))
		})
		require.Less(t, used, uint64(1<<20))
		found := map[string]bool{}
		pages := 0
		for cursor := ""; ; {
			pages++
			var r apitest.Response
			used := allocated(func() { r = s.ada.Get(path + "?page_size=100&cursor=" + cursor) })
			require.LessOrEqual(t, len(r.Text), 4<<20+1000)
			require.Less(t, used, uint64(64<<20), "most of it by the client")
			for _, item := range r.Items() {
				require.Equal(t, prompt, item["systemPrompt"])
				found[item["name"].(string)] = true
			}
			body := r.Want(http.StatusOK)
			require.EqualValues(t, 100, body["total"])
			next, _ := body["next"].(string)
			if cursor = next; cursor == "" {
				break
			}
		}
		require.Equal(t, names, found)
		require.Equal(t, 4, pages)
	}
	text := s.bob.Get(manifest).Text
	require.NotContains(t, text, `\u0026`)
	require.Less(t, len(text), 100*2500)
	for _, cursor := range []string{"0", "-1", "x", "1.5"} {
		s.ada.Get(agents+"?cursor="+cursor).Error(http.StatusBadRequest, wire.InvalidRequest)
	}
}

const providers = "/api/v1/admin/providers"

// largeProvider returns the body of a provider of about 100 KB.
func largeProvider(name string) object {
	var models []object
	for i := range 200 {
		models = append(models, object{"id": fmt.Sprint(i, strings.Repeat("<", 100)), "displayName": strings.Repeat("é", 120)})
	}
	return object{"name": name, "protocol": "openai", "baseUrl": "https://models.example/v1", "apiKey": "k", "models": models,
		"body": object{"metadata": object{"x": strings.Repeat("x", 60_000)}}}
}

// clone adds providers with the columns of one.
func (s *server) clone(t *testing.T, n int) {
	s.exec(t, `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < `+fmt.Sprint(n)+`)
		INSERT INTO providers (id, tenant_id, name, name_fold, protocol, auth_style, base_url, api_key_enc, settings_enc, models, enabled, version, created_at, updated_at)
		SELECT id || i, tenant_id, name || i, name_fold || i, protocol, auth_style, base_url, api_key_enc, settings_enc, models, enabled, version, created_at + 1, updated_at FROM providers, n`)
}

// An import compares the providers at an address one by one, and a page of them ends at 4 MiB.
func TestManyLargeProviders(t *testing.T) {
	each := func(t *testing.T, url string) {
		s := open(t, url, nil)
		s.ada.Post(providers, largeProvider("p")).Want(http.StatusCreated)
		s.clone(t, 400)
		var r apitest.Response
		used := allocated(func() {
			r = s.importYAML("agents: [{id: a, model: m, provider: {protocol: openai, baseUrl: https://models.example/v1}}]", "")
		})
		r.Error(http.StatusConflict, wire.Conflict) // they exceed the quota
		require.Less(t, used, uint64(96<<20), "with garbage")
		names := map[string]bool{}
		for cursor := ""; ; {
			used := allocated(func() { r = s.ada.Get(providers + "?page_size=100&cursor=" + cursor) })
			require.LessOrEqual(t, len(r.Text), 4<<20+1000)
			require.NotContains(t, r.Text, `\u003c`)
			require.Less(t, used, uint64(96<<20), "with garbage, and what the client needs")
			for _, item := range r.Items() {
				names[item["name"].(string)] = true
			}
			cursor, _ = r.Want(http.StatusOK)["next"].(string)
			if cursor == "" {
				break
			}
		}
		require.Len(t, names, 401+3)
	}
	dbtest.Each(t, each)
}

// Providers and all kinds of components count for one quota of rows and bytes.
func TestQuotaOfATenant(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, url string) {
		s := open(t, url, nil)
		s.ada.Post(agents, demo("a")).Want(http.StatusCreated)
		s.ada.Post(mcps, object{"name": "m", "transport": "stdio", "command": "c"}).Want(http.StatusCreated)
		s.ada.Post(providers, largeProvider("p")).Want(http.StatusCreated)
		s.clone(t, 180)
		for name, row := range map[string]struct {
			method, path string
			body         object
		}{
			"a provider":          {"POST", providers, largeProvider("q")},
			"an agent":            {"POST", agents, demo("b", "systemPrompt", strings.Repeat("x", 200_000))},
			"a larger agent":      {"PUT", agents + "/a", demo("a", "systemPrompt", strings.Repeat("x", 200_000))},
			"an MCP server":       {"POST", mcps, object{"name": "n", "transport": "stdio", "command": "c", "env": object{"A": strings.Repeat("x", 30_000)}}},
			"a larger MCP server": {"PUT", mcps + "/m", object{"transport": "stdio", "command": "c", "env": object{"A": strings.Repeat("x", 30_000)}}},
			"a scene":             {"POST", scenes, object{"name": "s", "agentName": "a", "prompt": strings.Repeat("x", 100_000)}},
			"a knowledge set":     {"POST", knowledge, object{"name": "k", "datasetId": "d", "description": strings.Repeat("x", 2000)}},
		} {
			message := s.ada.Do(row.method, row.path, row.body).Error(http.StatusConflict, wire.Conflict)["message"]
			require.Contains(t, message, "33554432", name)
		}
		s.ada.Put(agents+"/a", demo("a", "enabled", false)).Want(http.StatusOK)
		s.ada.Delete(mcps + "/m").Want(http.StatusNoContent)
		s.eve.Post(providers, largeProvider("q")).Want(http.StatusCreated)
	})
}
