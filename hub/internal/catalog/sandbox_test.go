package catalog_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/runtime/agent"
)

func TestSandboxOfAnAgent(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		require.NotContains(t, s.ada.Post(agents, demo("a")).Want(http.StatusCreated), "sandbox")
		hash := func() any { return s.ada.Get(agents + "/a").Want(http.StatusOK)["contentHash"] }
		without := hash()
		require.NotContains(t, s.ada.Get(agents+"/a/export").Text, "sandbox")
		put := func(sandbox any, version float64) {
			t.Helper()
			require.Equal(t, version, s.ada.Put(agents+"/a", demo("a", "sandbox", sandbox)).Want(http.StatusOK)["version"])
		}
		put(nil, 1)
		put(object{}, 1)
		put(object{"mode": "", "read": []any{}, "domains": nil}, 1)
		sent := object{
			"mode": "required", "read": []any{"/srv/${HOME}/天气", "../common"}, "write": []any{"out $1"}, "network": "proxy",
			"domains": []any{"example.com", "*.example.com:8443"},
		}
		put(sent, 2)
		put(with(sent, "write", []any{" out $1 "}), 2)
		for _, read := range []object{s.bob.Get(agents + "/a").Want(http.StatusOK), s.bob.Get(agents).Items()[0], s.bob.Get("/api/v1/agents/a").Want(http.StatusOK)} {
			require.Equal(t, sent, read["sandbox"])
		}
		changed := hash()
		require.NotEqual(t, without, changed)
		require.Contains(t, strings.Join(s.Audit("acme"), "\n"),
			`"sandbox":{"from":[],"to":["domains: example.com","domains: *.example.com:8443","mode: required","network: proxy","read: /srv/${HOME}/天气","read: ../common","write: out $1"]}`)
		want := agent.Sandbox{
			Mode: "required", Read: []string{"/srv/${HOME}/天气", "../common"}, Write: []string{"out $1"}, Network: "proxy",
			Domains: []string{"example.com", "*.example.com:8443"},
		}
		d, err := s.Deployment(t.Context(), "acme", "a")
		require.NoError(t, err)
		require.Equal(t, want, d.Sandbox)
		require.NoError(t, d.Validate())

		// The exported agent has it, also in the runtime, and is imported as it was.
		exported := s.ada.Get(agents + "/a/export").Text
		file, err := agent.Parse("agents.yaml", []byte(exported), func(string) (string, bool) { return "v", true })
		require.NoError(t, err, exported)
		require.Equal(t, want, file.Agents[0].Sandbox)
		put(object{"mode": "off"}, 3)
		require.NotEqual(t, changed, hash())
		require.Equal(t, changed, s.importYAML(exported, "?replace=true").Want(http.StatusOK)["contentHash"])
		entries := s.Audit("acme")
		require.Regexp(t, `^agent.import a .*"sandbox":\["domains: .*"mode: required",.*"replaced":true`, entries[len(entries)-1])
		s.ada.Delete(agents + "/a").Want(http.StatusNoContent)
		require.Contains(t, s.Audit("acme")[len(s.Audit("acme"))-1], `"mode: required"`)
		require.Equal(t, changed, s.importYAML(exported, "").Want(http.StatusCreated)["contentHash"])
		put(nil, 2) // replaced as a whole, like the other fields
		require.Equal(t, without, hash())

		long := strings.Repeat("x", 4096)
		messages := s.ada.Put(agents+"/a", demo("a", "sandbox", object{
			"mode": "on", "network": "some", "read": []any{"", "a\u0007b", long, "a\u200bb"}, "write": strings.Split(strings.Repeat("x,", 100)+"x", ","),
			"domains": []any{"https://example.com", "example.com"},
		})).Error(http.StatusBadRequest, wire.ValidationFailed)["data"].(object)["fields"]
		require.Equal(t, object{
			"sandbox.mode":       `"on" is not one of auto, required, off`,
			"sandbox.network":    `"some" is not one of proxy, none, all`,
			"sandbox.read[0]":    "must not be empty",
			"sandbox.read[1]":    "must not have control characters",
			"sandbox.read[2]":    "must have at most 4095 bytes",
			"sandbox.read[3]":    "must not have invisible characters",
			"sandbox.write":      "must have at most 100 entries",
			"sandbox.domains[0]": `domain "https://example.com": the port is not a number from 1 to 65535`,
		}, messages)
		faults(t, s.ada.Post(agents, demo("b", "sandbox", object{"network": "none", "domains": []any{"example.com"}})), "sandbox.domains")
		for _, sandbox := range []any{"off", []any{}, object{"mode": 1}, object{"read": "/srv"}} {
			s.ada.Put(agents+"/a", demo("a", "sandbox", sandbox)).Error(http.StatusBadRequest, wire.InvalidRequest)
		}
		require.Contains(t, s.importYAML(strings.Replace(exported, "mode: required", "mode: on", 1), "?replace=true").
			Error(http.StatusUnprocessableEntity, code.ArtifactInvalid)["data"].(object)["fields"], "agents[0].sandbox.mode")
		require.Equal(t, without, hash())
	})
}

// A server adds to the sandbox of its agent.
func TestSandboxOfAnMCPServer(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		body := object{"name": "m", "transport": "stdio", "command": "run"}
		require.NotContains(t, s.ada.Post(mcps, body).Want(http.StatusCreated), "sandbox")
		without := s.ada.Post(agents, demo("a", "mcps", []any{"m"}, "sandbox", object{"mode": "off"})).Want(http.StatusCreated)["contentHash"]
		put := func(sandbox any, version float64) {
			t.Helper()
			require.Equal(t, version, s.ada.Put(mcps+"/m", with(body, "sandbox", sandbox)).Want(http.StatusOK)["version"])
		}
		put(object{"write": []any{}}, 1)
		put(object{"read": []any{"/srv/files"}, "network": "all"}, 2)
		put(object{"read": []any{" /srv/files "}, "network": "all"}, 2)
		require.Equal(t, object{"read": []any{"/srv/files"}, "network": "all"}, s.bob.Get(mcps + "/m").Want(http.StatusOK)["sandbox"])
		require.Equal(t, object{"read": []any{"/srv/files"}, "network": "all"}, s.bob.Get(mcps).Items()[0]["sandbox"])
		changed := s.ada.Get(agents + "/a").Want(http.StatusOK)["contentHash"]
		require.NotEqual(t, without, changed)
		require.Contains(t, strings.Join(s.Audit("acme"), "\n"), `"sandbox":{"from":[],"to":["network: all","read: /srv/files"]}`)
		want := agent.MCPServer{Transport: "stdio", Command: "run", Args: []string{}, Sandbox: agent.Sandbox{Read: []string{"/srv/files"}, Network: "all"}}
		d, err := s.Deployment(t.Context(), "acme", "a")
		require.NoError(t, err)
		require.Equal(t, want, d.MCPServers["m"])
		require.Equal(t, agent.Sandbox{Mode: "off"}, d.Sandbox)
		require.NoError(t, d.Validate())
		exported := s.ada.Get(agents + "/a/export").Text
		file, err := agent.Parse("agents.yaml", []byte(exported), func(string) (string, bool) { return "v", true })
		require.NoError(t, err, exported)
		require.Equal(t, want.Sandbox, file.Agents[0].MCPServers["m"].Sandbox)
		s.ada.Delete(agents + "/a").Want(http.StatusNoContent)
		require.Equal(t, changed, s.importYAML(exported, "").Want(http.StatusCreated)["contentHash"])
		put(nil, 3)
		require.Equal(t, without, s.ada.Get(agents + "/a").Want(http.StatusOK)["contentHash"])

		faults(t, s.ada.Put(mcps+"/m", with(body, "sandbox", object{"mode": "off"})), "sandbox.mode")
		faults(t, s.ada.Post(mcps, with(body, "name", "n", "sandbox", object{"network": "x", "write": []any{"a\nb", ""}})),
			"sandbox.network", "sandbox.write[0]", "sandbox.write[1]")
		faults(t, s.ada.Post(mcps, object{"name": "n", "transport": "http", "url": "https://m.example", "sandbox": object{"read": []any{"/"}}}), "sandbox")
		require.EqualValues(t, 3, s.bob.Get(mcps + "/m").Want(http.StatusOK)["version"])
	})
}

// Sandboxes count for the size of a tenant, and the longest ones have an audit entry.
func TestLongSandboxes(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		s.ada.Post(agents, demo("a")).Want(http.StatusCreated)
		before := s.number(t, `SELECT bytes FROM agents`)
		list := func(text string, bytes, n int) (all []any) {
			for range n {
				all = append(all, strings.Repeat(text, bytes))
			}
			return all
		}
		s.ada.Put(agents+"/a", demo("a", "sandbox", object{"read": list("x", 4000, 100)})).Want(http.StatusOK)
		require.Greater(t, s.number(t, `SELECT bytes FROM agents`), before+400_000)
		for _, c := range []string{"<", "&"} { // each has 6 bytes in JSON
			s.ada.Put(agents+"/a", demo("a", "sandbox", object{"read": list(c, 4000, 8)},
				"disallowedTools", list(c, 500, 20), "allowedTools", list(c, 500, 20), "title", strings.Repeat(c, 128), "titleEn", strings.Repeat(c, 128),
				"description", strings.Repeat(c, 2000), "descriptionEn", strings.Repeat(c, 2000), "icon", strings.Repeat(c, 1000))).Want(http.StatusOK)
		}
		entries := s.Audit("acme")
		require.Contains(t, entries[len(entries)-1], "more: sha256:")
	})
}
