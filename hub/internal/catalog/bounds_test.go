package catalog_test

import (
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/catalog"
	"github.com/seed93082962/agenthost/hub/internal/provider"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
)

// exec changes rows, such as those of an earlier version of the program.
func (s *server) exec(t testing.TB, statement string, args ...any) {
	t.Helper()
	_, err := s.db.Write().ExecContext(t.Context(), statement, args...)
	require.NoError(t, err)
}

// number returns the number that a statement selects.
func (s *server) number(t testing.TB, statement string) (n int) {
	t.Helper()
	require.NoError(t, s.db.Read().QueryRowContext(t.Context(), statement).Scan(&n))
	return n
}

// A change of an agent, and a list, do not read the environments of MCP servers. The test runs
// without others, because it measures what the process allocates.
func TestAChangeReadsOnlyWhatTheAgentUses(t *testing.T) {
	s := open(t, dbtest.SQLite(t, series...), nil)
	s.ada.Post(mcps, object{"name": "m", "transport": "stdio", "command": "run", "env": object{"A": strings.Repeat("x", 32<<10)}}).Want(http.StatusCreated)
	s.exec(t, `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
		INSERT INTO mcps (id, tenant_id, name, title, description, search, transport, command, args, env, url, headers, enabled, version, created_at, updated_at, digest)
		SELECT 'id' || i, tenant_id, 'm' || i, title, description, search, transport, command, args, env, url, headers, enabled, version, created_at, updated_at, digest
		FROM mcps, n WHERE name = 'm'`)
	s.ada.Post(agents, demo("coder", "mcps", []string{"m"})).Want(http.StatusCreated)
	s.ada.Get(agents).Want(http.StatusOK)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	hash := s.ada.Put(agents+"/coder", demo("coder", "title", "New")).Want(http.StatusOK)["contentHash"]
	require.Equal(t, hash, s.ada.Get(agents).Items()[0]["contentHash"])
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(8<<20), "500 environments have 22 MB")
}

// Rows that an earlier version wrote have no digest, or that of a former version of the row. The
// hashes of agents are those of their content, and the digests are stored once.
func TestDigestsOfAnEarlierVersion(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		s.ada.Post(mcps, object{"name": "m", "transport": "stdio", "command": "one"}).Want(http.StatusCreated)
		s.ada.Post(knowledge, object{"name": "k", "datasetId": "one"}).Want(http.StatusCreated)
		made := s.ada.Post(agents, demo("a", "mcps", []string{"m"}, "knowledge", []string{"k"})).Want(http.StatusCreated)
		for _, table := range []string{"mcps", "knowledge"} {
			s.exec(t, `UPDATE `+table+` SET digest = ''`)
		}
		s.exec(t, `UPDATE catalog_heads SET version = version + 1`)
		require.Equal(t, made["contentHash"], s.ada.Get(agents + "/a").Want(http.StatusOK)["contentHash"])
		require.Zero(t, s.number(t, `SELECT (SELECT COUNT(*) FROM mcps WHERE digest = '') + (SELECT COUNT(*) FROM knowledge WHERE digest = '')`))

		s.exec(t, `UPDATE mcps SET command = 'two', version = version + 1`)
		s.exec(t, `UPDATE catalog_heads SET version = version + 1`)
		changed := s.ada.Get(agents + "/a").Want(http.StatusOK)["contentHash"]
		require.NotEqual(t, made["contentHash"], changed)
		s.exec(t, `UPDATE knowledge SET dataset_id = 'two', version = version + 1`)
		require.NotEqual(t, changed, s.ada.Put(agents+"/a", demo("a", "title", "x")).Want(http.StatusOK)["contentHash"])
		require.Zero(t, s.number(t, `SELECT COUNT(*) FROM knowledge WHERE digest NOT LIKE '2 sha256:%'`))
		s.ada.Put(mcps+"/m", object{"transport": "stdio", "command": "one"}).Want(http.StatusOK)
		s.ada.Put(knowledge+"/k", object{"datasetId": "one"}).Want(http.StatusOK)
		require.Equal(t, made["contentHash"], s.ada.Put(agents+"/a", demo("a")).Want(http.StatusOK)["contentHash"])
	})
}

// A PUT of what is stored returns it, and leaves no trace: no version, no audit entry, no row.
func TestAPUTWithoutAChangeWritesNothing(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		server := object{"name": "m", "transport": "http", "url": "https://m.example", "headers": object{"X-Key": "secret"}}
		s.ada.Post(mcps, server).Want(http.StatusCreated)
		s.ada.Post(knowledge, object{"name": "k", "datasetId": "d"}).Want(http.StatusCreated)
		s.ada.Post(agents, demo("a", "isDefault", true, "mcps", []string{"m"})).Want(http.StatusCreated)
		s.ada.Post(scenes, object{"name": "s", "agentName": "a", "prompt": "p"}).Want(http.StatusCreated)
		heads, entries := s.number(t, `SELECT SUM(version) FROM catalog_heads`), len(s.Audit("acme"))
		manifestNow := s.bob.Get(manifest).Text
		for path, bodies := range map[string][]object{
			agents + "/a":           {demo("a", "isDefault", true), demo("a", "isDefault", true, "mcps", []string{"m"})},
			agents + "/a/mcps":      {{"items": []string{"m"}}},
			agents + "/a/tools":     {{"items": []string{}}},
			agents + "/a/knowledge": {{"items": []string{}}},
			mcps + "/m":             {server, with(server, "headers", object{"x-key": "***"})},
			knowledge + "/k":        {{"datasetId": "d"}},
			scenes + "/s":           {{"agentName": "a", "prompt": "p"}},
		} {
			current := s.ada.Get(path).Want(http.StatusOK)
			for _, body := range bodies {
				r := s.ada.Put(path, body, "If-Match", `"1"`)
				require.Equal(t, current, r.Want(http.StatusOK), path)
				require.Equal(t, `"1"`, r.Header.Get("ETag"), path)
				s.ada.Put(path, body, "If-Match", `"2"`).Error(http.StatusPreconditionFailed, wire.PreconditionFailed)
			}
		}
		require.Equal(t, heads, s.number(t, `SELECT SUM(version) FROM catalog_heads`))
		require.Len(t, s.Audit("acme"), entries)
		require.Equal(t, manifestNow, s.bob.Get(manifest).Text)
		require.EqualValues(t, 2, s.ada.Put(agents+"/a", demo("a", "isDefault", true, "title", "x"), "If-Match", `"1"`).Want(http.StatusOK)["version"])
	})
}

// A tenant has at most 10,000 agents and components, and 32 MiB of agents.
func TestComponentsAreBounded(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		s.ada.Post(knowledge, object{"name": "k", "datasetId": "d"}).Want(http.StatusCreated)
		s.ada.Post(agents, demo("a")).Want(http.StatusCreated)
		s.exec(t, `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9997)
			INSERT INTO knowledge (id, tenant_id, name, title, description, search, dataset_id, enabled, version, created_at, updated_at)
			SELECT 'id' || i, tenant_id, 'k' || i, title, description, search, dataset_id, enabled, version, created_at, updated_at FROM knowledge, n WHERE name = 'k'`)
		s.ada.Post(mcps, object{"name": "m", "transport": "stdio", "command": "c"}).Want(http.StatusCreated)
		entries := len(s.Audit("acme"))
		for path, body := range map[string]object{
			agents: demo("b"), mcps: {"name": "n", "transport": "stdio", "command": "c"}, knowledge: {"name": "l", "datasetId": "d"}, scenes: {"name": "s", "agentName": "a", "prompt": "p"},
		} {
			message := s.ada.Post(path, body).Error(http.StatusConflict, wire.Conflict)["message"]
			require.Contains(t, message, "10000", path)
		}
		s.importYAML("agents:\n- id: c\n  model: m\n  provider: {protocol: demo}\n", "").Error(http.StatusConflict, wire.Conflict)
		require.Len(t, s.Audit("acme"), entries)
		s.eve.Post(knowledge, object{"name": "l", "datasetId": "d"}).Want(http.StatusCreated)
		s.ada.Put(agents+"/a", demo("a", "title", "x")).Want(http.StatusOK)
		s.ada.Delete(mcps + "/m").Want(http.StatusNoContent)
		s.ada.Post(agents, demo("b")).Want(http.StatusCreated)
		require.Len(t, s.ada.Get(agents).Items(), 2)
		require.Zero(t, s.number(t, `SELECT COUNT(*) FROM knowledge WHERE digest = '' AND tenant_id = 'acme'`))
	})
}

func TestAgentsAreBoundedInBytes(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		s.ada.Post(agents, demo("a", "systemPrompt", strings.Repeat("é", 1000), "tools", []string{"Read"})).Want(http.StatusCreated)
		size := s.number(t, `SELECT bytes FROM agents WHERE name = 'a'`)
		require.Greater(t, size, 3000)
		s.exec(t, `UPDATE agents SET bytes = $1`, 32<<20)
		require.Contains(t, s.ada.Post(agents, demo("b")).Error(http.StatusConflict, wire.Conflict)["message"], "33554432")
		s.ada.Put(agents+"/a", demo("a", "systemPrompt", "short")).Want(http.StatusOK)
		s.ada.Post(agents, demo("b", "systemPrompt", strings.Repeat("x", 10_000))).Want(http.StatusCreated)
		s.exec(t, `UPDATE agents SET bytes = $1 WHERE name = 'a'`, 32<<20)
		s.ada.Put(agents+"/b", demo("b", "systemPrompt", strings.Repeat("x", 10_001))).Error(http.StatusConflict, wire.Conflict)
		s.ada.Put(agents+"/b/tools", object{"items": []string{"Read"}}).Error(http.StatusConflict, wire.Conflict)
		s.ada.Put(agents+"/b", demo("b", "systemPrompt", strings.Repeat("x", 9_999))).Want(http.StatusOK)
		s.ada.Delete(agents + "/a").Want(http.StatusNoContent)
		s.ada.Put(agents+"/b", demo("b", "systemPrompt", strings.Repeat("x", 10_001))).Want(http.StatusOK)
	})
}

// Lists of agents have whole prompts, and lists of scenes none above 16 KiB.
func TestPromptsInLists(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		long, short := strings.Repeat("é", 8193), strings.Repeat("é", 8192)
		s.ada.Post(agents, demo("long", "systemPrompt", long, "subagents", object{"r": object{"description": "d", "prompt": long}})).Want(http.StatusCreated)
		for _, path := range []string{agents, "/api/v1/agents"} {
			full := s.ada.Get(path + "/long").Want(http.StatusOK)
			require.Equal(t, full, s.ada.Get(path).Items()[0])
			require.Equal(t, long, full["systemPrompt"])
			require.Equal(t, long, full["subagents"].(object)["r"].(object)["prompt"])
			require.NotContains(t, s.bob.Get(path).Text, "éé")
		}
		for name, prompt := range map[string]string{"s-long": long, "s-short": short} {
			s.ada.Post(scenes, object{"name": name, "agentName": "long", "prompt": prompt}).Want(http.StatusCreated)
			for _, path := range []string{scenes, "/api/v1/scenes"} {
				listed, full := s.ada.Get(path + "?q=" + name).Items()[0], s.ada.Get(path+"/"+name).Want(http.StatusOK)
				require.Equal(t, prompt, full["prompt"])
				if name == "s-short" {
					require.Equal(t, full, listed)
					continue
				}
				require.Equal(t, []any{"", true, nil}, []any{listed["prompt"], listed["promptOmitted"], full["promptOmitted"]})
			}
		}
	})
}

// An MCP server has 64 KiB of arguments, environment and headers, also if some of them are kept.
func TestValuesOfAnMCPServerAreBounded(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		value := strings.Repeat("x", 32<<10)
		web := object{"name": "w", "transport": "http", "url": "https://m.example", "headers": object{"A": value, "B": value[2:]}}
		s.ada.Post(mcps, web).Want(http.StatusCreated)
		kept := object{"A": "***", "B": "***"}
		s.ada.Put(mcps+"/w", with(web, "headers", kept)).Want(http.StatusOK)
		faults(t, s.ada.Put(mcps+"/w", with(web, "headers", with(kept, "C", ""))), "server")
		in := object{"name": "m", "transport": "stdio", "command": "c", "env": object{"A": value, "B": value[2:]}}
		s.ada.Post(mcps, in).Want(http.StatusCreated)
		s.ada.Put(mcps+"/m", with(in, "env", kept)).Want(http.StatusOK)
		faults(t, s.ada.Put(mcps+"/m", with(in, "env", with(kept, "C", ""))), "server")
		faults(t, s.ada.Put(mcps+"/m", with(in, "env", kept, "args", []string{"x"})), "server")
		faults(t, s.ada.Post(mcps, with(in, "name", "n", "env", object{"A": value, "B": value})), "server")
		faults(t, s.ada.Post(mcps, object{"name": "n", "transport": "stdio", "command": "c", "args": strings.Split(strings.Repeat(value[:4000]+" ", 20), " ")}), "server")
	})
}

func TestURLsOfMCPServersHaveNoCredentials(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		for _, address := range []string{"https://user:secret@m.example", "https://user@m.example/a", "https://@m.example", "HTTP://:x@m.example:8080", "https://a%40b:c@m.example",
			// These are not addresses of a host, or cannot be parsed.
			"https:user:secret@m.example", "https:///user:secret@m.example", `https:/\user:secret@m.example`, "https://[::1]@user:secret/", "https://user:secret%40m.example",
			"m.example", "ftp://m.example", "https://", "https://m .example"} {
			for _, transport := range []string{"http", "sse"} {
				r := s.ada.Post(mcps, object{"name": "m", "transport": transport, "url": address})
				faults(t, r, "url")
				require.NotContains(t, r.Text, "secret")
			}
		}
		s.ada.Post(mcps, object{"name": "m", "transport": "http", "url": "https://m.example/@user?a=b@c"}).Want(http.StatusCreated)
	})
}

// A value of a row that has another tenant now, or that an earlier version sealed, is not opened.
func TestValuesOfMCPServersAreBoundToTheirTenant(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		s.ada.Post(mcps, object{"name": "m", "transport": "stdio", "command": "c", "env": object{"A": "1"}}).Want(http.StatusCreated)
		s.exec(t, `UPDATE mcps SET tenant_id = 'other'`)
		s.eve.Post(agents, object{"name": "a", "providerId": provider.Demo, "model": "m", "mcps": []string{"m"}}).Want(http.StatusCreated)
		_, err := s.Deployment(t.Context(), "other", "a")
		require.ErrorIs(t, err, wire.Conflict)
		n, err := s.cfg.Store.Rebind(t.Context(), catalog.Sealed()...)
		require.NoError(t, err)
		require.Zero(t, n)
	})
}
