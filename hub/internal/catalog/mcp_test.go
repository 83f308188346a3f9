package catalog_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/runtime/agent"
)

func TestCWDOfAnMCPServer(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		body := object{"name": "m", "transport": "stdio", "command": "run", "args": []any{"-v"}, "env": object{"TOKEN": "sk-planted"}}
		require.NotContains(t, s.ada.Post(mcps, body).Want(http.StatusCreated), "cwd")
		without := s.ada.Post(agents, demo("a", "mcps", []any{"m"})).Want(http.StatusCreated)["contentHash"]
		require.NotContains(t, s.ada.Get(agents+"/a/export").Text, "cwd")
		put := func(cwd any, version float64) {
			t.Helper()
			require.Equal(t, version, s.ada.Put(mcps+"/m", with(body, "cwd", cwd)).Want(http.StatusOK)["version"])
		}
		stored := func() any { return s.bob.Get(mcps + "/m").Want(http.StatusOK)["cwd"] }
		hash := func() any { return s.ada.Get(agents + "/a").Want(http.StatusOK)["contentHash"] }

		put(nil, 1)
		put(" ", 1)
		put(" tools/files ", 2)
		put("tools/files", 2)
		require.Equal(t, "tools/files", stored())
		require.Equal(t, "tools/files", s.bob.Get(mcps).Items()[0]["cwd"])
		changed := hash()
		require.NotEqual(t, without, changed)
		require.Contains(t, strings.Join(s.Audit("acme"), "\n"), `"cwd":{"from":"","to":"tools/files"}`)
		d, err := s.Deployment(t.Context(), "acme", "a")
		require.NoError(t, err)
		require.Equal(t, agent.MCPServer{
			Transport: "stdio", Command: "run", Args: []string{"-v"}, Env: map[string]agent.Secret{"TOKEN": "sk-planted"}, CWD: "tools/files",
		}, d.MCPServers["m"])
		require.NoError(t, d.Validate())

		// The exported agent has it, and is imported as it was.
		exported := s.ada.Get(agents + "/a/export").Text
		file, err := agent.Parse("agents.yaml", []byte(exported), func(string) (string, bool) { return "v", true })
		require.NoError(t, err, exported)
		require.Equal(t, "tools/files", file.Agents[0].MCPServers["m"].CWD)
		s.ada.Delete(agents + "/a").Want(http.StatusNoContent)
		require.Equal(t, changed, s.importYAML(exported, "").Want(http.StatusCreated)["contentHash"])

		put("", 3) // replaced as a whole, like the other fields
		require.Nil(t, stored())
		require.Equal(t, without, hash())

		for _, cwd := range []string{"a\u0007b", "a\nb", "a\u202eb", "a\u200b", strings.Repeat("x", 4097)} {
			faults(t, s.ada.Put(mcps+"/m", with(body, "cwd", cwd)), "cwd")
			faults(t, s.ada.Post(mcps, with(body, "name", "n", "cwd", cwd)), "cwd")
		}
		for _, transport := range []string{"http", "sse"} {
			faults(t, s.ada.Post(mcps, object{"name": "n", "transport": transport, "url": "https://m.example", "cwd": "x"}), "cwd")
		}
		s.ada.Put(mcps+"/m", with(body, "cwd", 1)).Error(http.StatusBadRequest, wire.InvalidRequest)
		require.EqualValues(t, 3, s.bob.Get(mcps + "/m").Want(http.StatusOK)["version"])
		for _, cwd := range []string{"/srv/天气", "..", ".", strings.Repeat("x", 4096)} { // by the rules of the runtime
			s.ada.Put(mcps+"/m", with(body, "cwd", cwd)).Want(http.StatusOK)
			require.Equal(t, cwd, stored())
		}
	})
}

// The digest of a server without cwd. If it changes, agents of earlier versions are outdated.
func TestTheDigestOfAnMCPServerHasThisValue(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		s.ada.Post(mcps, object{"name": "m", "transport": "stdio", "command": "run", "args": []any{"-v"}, "env": object{"TOKEN": "x"}}).Want(http.StatusCreated)
		var digest string
		require.NoError(t, s.db.Read().QueryRowContext(t.Context(), `SELECT digest FROM mcps`).Scan(&digest))
		require.Equal(t, "1 sha256:f595f0707c4272041cbff02e505b13e8183ce5186ebae8530f0d3240cda04026", digest)
	})
}
