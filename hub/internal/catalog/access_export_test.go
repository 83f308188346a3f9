package catalog_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/provider"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/rbac"
)

// A copy of a closed agent is closed, and an agent of a file without access is not open.
func TestAccessSurvivesAnExport(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		for _, access := range []object{
			{"users": []any{"zoe"}}, {"groups": []any{"staff", "true", "a: b"}}, {"users": []any{}}, {"users": []any{"zoe"}, "everyone": true}, {"everyone": true},
		} {
			made := s.ada.Post(agents, demo("coder", "access", access)).Want(http.StatusCreated)
			exported := s.ada.Get(agents + "/coder/export").Text
			s.ada.Delete(agents + "/coder").Want(http.StatusNoContent)
			require.Equal(t, made["access"], s.importYAML(exported, "").Want(http.StatusCreated)["access"], exported)
			s.ada.Put(agents+"/coder", demo("coder", "access", object{"groups": []any{"others"}})).Want(http.StatusOK)
			require.Equal(t, made["access"], s.importYAML(exported, "?replace=true").Want(http.StatusOK)["access"])
			s.ada.Delete(agents + "/coder").Want(http.StatusNoContent)
		}
		const plain = "agents:\n- id: plain\n  model: m\n  provider: {protocol: demo}\n"
		for _, text := range []string{plain, plain + "  hub: {title: Plain}\n"} {
			made := s.importYAML(text, "").Want(http.StatusCreated)
			require.Equal(t, object{"users": []any{s.ada.Caller.UserID}, "groups": []any{}, "everyone": false}, made["access"])
			s.As("acme", "max", rbac.Member).Get("/api/v1/agents/plain").Error(http.StatusNotFound, "not_found")
			s.ada.Get("/api/v1/agents/plain").Want(http.StatusOK)
			s.ada.Put(agents+"/plain", demo("plain", "access", object{"everyone": true})).Want(http.StatusOK)
			require.Equal(t, true, s.importYAML(text, "?replace=true").Want(http.StatusOK)["access"].(object)["everyone"], "what an admin chose")
			s.ada.Delete(agents + "/plain").Want(http.StatusNoContent)
		}
	})
}

// Every field of an agent survives an export.
func TestEveryFieldSurvivesAnExport(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		s.ada.Post(mcps, object{"name": "web", "transport": "http", "url": "https://m.example"}).Want(http.StatusCreated)
		s.ada.Post(knowledge, object{"name": "handbook", "datasetId": "hb"}).Want(http.StatusCreated)
		send(t, s.ada, http.MethodPost, skills, "SKILL.md", "---\nname: pdf\ndescription: d\n---\n").Want(http.StatusCreated)
		body := with(everySetting(t), "name", "coder", "title", "Coder", "titleEn", "Coder EN", "descriptionEn", "Writes", "icon", "x", "isDefault", true,
			"enabled", false, "providerId", provider.Demo, "mcps", []any{"web"}, "knowledge", []any{object{"name": "handbook", "description": "d"}},
			"tools", []any{"Read"}, "skills", []any{"pdf"}, "access", object{"users": []any{"zoe"}, "groups": []any{"staff"}, "everyone": false},
			"deployment", object{"replicas": 2.0}, "approvers", "admin")
		requireEvery[wire.AgentRequest](t, body)
		made := s.ada.Post(agents, body).Want(http.StatusCreated)
		exported := s.ada.Get(agents + "/coder/export").Text
		s.ada.Delete(agents + "/coder").Want(http.StatusNoContent)
		again := s.importYAML(exported, "").Want(http.StatusCreated)
		for name := range made {
			if !slices.Contains([]string{"id", "createdAt", "updatedAt"}, name) {
				require.Equal(t, made[name], again[name], name)
			}
		}
	})
}

// Secrets of an MCP server are not sent to another destination: neither by a change of the server
// nor by one of its row.
func TestSecretsOfAnMCPServerAreBoundToItsDestination(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		web := object{
			"name": "web", "transport": "http", "url": "https://m.example/a?token=planted-q&x=planted-1&x=planted-2", "headers": object{"X-Key": "planted-h"},
			"oauth": object{"clientId": "hub", "clientSecret": "planted-o", "issuer": "https://login.example"},
		}
		made := s.ada.Post(mcps, web).Want(http.StatusCreated)
		require.Equal(t, "https://m.example/a?token=***&x=***&x=***", made["url"])
		local := object{"name": "local", "transport": "stdio", "command": "run", "args": []any{"--visible"}, "env": object{"A": "planted-e"}}
		s.ada.Post(mcps, local).Want(http.StatusCreated)
		s.ada.Post(agents, demo("a", "mcps", []any{"web", "local"})).Want(http.StatusCreated)
		url := func() string {
			d, err := s.Deployment(t.Context(), "acme", "a")
			require.NoError(t, err)
			return d.MCPServers["web"].URL
		}
		require.Equal(t, web["url"], url())
		require.EqualValues(t, 1, s.ada.Put(mcps+"/web", made).Want(http.StatusOK)["version"], "what was read can be sent back")

		for _, host := range []string{
			"https://thief.example", "http://m.example", "https://m.example:444", "https://m.example.", "https://m.\u212Aexample",
		} {
			address := host + "/a?token=***&x=***&x=***"
			faults(t, s.ada.Put(mcps+"/web", with(made, "url", address)), "query.token", "query.x[0/2]", "query.x[1/2]", "headers.X-Key", "oauth.clientSecret")
		}
		faults(t, s.ada.Put(mcps+"/web", with(made, "oauth", object{"clientId": "hub", "clientSecret": "***", "issuer": "https://thief.example"})),
			"query.token", "query.x[0/2]", "query.x[1/2]", "headers.X-Key", "oauth.clientSecret")
		faults(t, s.ada.Put(mcps+"/web", with(made, "url", "https://m.example/a?token=***&x=***")), "query.x")
		kept := object{"A": "***"}
		for name, changed := range map[string]object{
			"the command":           {"command": "other", "env": kept},
			"a variable like it":    {"env": object{"A": "***", "a": "***"}},
			"a renamed variable":    {"env": object{"B": "***"}},
			"an address in its way": {"transport": "http", "command": nil, "args": nil, "env": nil, "url": "https://m.example", "headers": kept},
		} {
			require.Contains(t, s.ada.Put(mcps+"/local", with(local, "env", kept, "title", name)).Want(http.StatusOK)["env"], "A")
			s.ada.Put(mcps+"/local", with(with(local, "title", name), pairs(changed)...)).Error(http.StatusBadRequest, wire.ValidationFailed)
		}
		two := with(local, "name", "two", "env", object{"A": "planted-e", "B": "planted-b"})
		s.ada.Post(mcps, two).Want(http.StatusCreated)
		s.ada.Post(agents, demo("two", "mcps", []any{"two"})).Want(http.StatusCreated)
		for _, changed := range []object{
			{"args": []any{"--other"}}, {"args": nil}, {"cwd": "mine"}, {"env": object{"A": "***", "B": "other"}}, {"env": object{"A": "***", "MODE": "slow"}},
			{"args": []any{"--other"}, "env": object{"A": "***"}},
		} {
			s.ada.Put(mcps+"/two", with(with(two, "env", object{"A": "***", "B": "planted-b"}), pairs(changed)...)).Want(http.StatusOK)
			d, err := s.Deployment(t.Context(), "acme", "two")
			require.NoError(t, err)
			require.EqualValues(t, "planted-e", d.MCPServers["two"].Env["A"], "it is sealed for the new settings")
		}
		s.ada.Put(mcps+"/web", with(made, "url", "https://m.example/b?token=***&x=planted-3&x=***")).Want(http.StatusOK)
		require.Equal(t, "https://m.example/b?token=planted-q&x=planted-3&x=planted-2", url())
		exported := s.ada.Get(agents + "/a/export").Text
		require.NotContains(t, exported, "planted")
		require.NotContains(t, exported, "***")
		require.NotContains(t, strings.Join(s.Audit("acme"), "\n"), "planted")

		for _, change := range []string{
			`url = 'https://thief.example/b' WHERE name = 'web'`, `command = 'thief' WHERE name = 'local'`,
			`args = '["--eval=send"]' WHERE name = 'local'`, `cwd = 'mine' WHERE name = 'local'`,
			`settings = replace(settings, 'login.example', 'thief.example') WHERE name = 'web'`,
			`settings = replace(settings, 'login.example', 'thief.example'), secrets = replace(secrets, 'login.example', 'thief.example') WHERE name = 'web'`,
			`settings = replace(settings, 'login.example', 'thief.example'), secrets = replace(secrets, ' https://login.example', '') WHERE name = 'web'`,
		} {
			var settings, secrets string
			require.NoError(t, s.db.Read().QueryRowContext(t.Context(), `SELECT settings, secrets FROM mcps WHERE name = 'web'`).Scan(&settings, &secrets))
			s.exec(t, `UPDATE mcps SET `+change)
			_, err := s.Deployment(t.Context(), "acme", "a")
			require.ErrorContains(t, err, "set it again")
			_, err = s.db.Write().ExecContext(t.Context(), `UPDATE mcps SET url = 'https://m.example/b', settings = $1, secrets = $2 WHERE name = 'web'`, settings, secrets)
			require.NoError(t, err)
			s.exec(t, `UPDATE mcps SET command = 'run', args = '["--visible"]', cwd = '' WHERE name = 'local'`)
		}
		require.NotEmpty(t, url())

		// A letter whose lower case is ASCII is one of another host.
		turkish := object{"name": "i", "transport": "http", "url": "https://mail.example", "headers": object{"X-Key": "planted-i"}}
		s.ada.Post(mcps, turkish).Want(http.StatusCreated)
		for _, host := range []string{"https://ma\u0130l.example", "https://ma%C4%B0l.example"} {
			faults(t, s.ada.Put(mcps+"/i", with(turkish, "url", host, "headers", object{"X-Key": "***"})), "headers.X-Key")
		}
		s.ada.Put(mcps+"/i", with(turkish, "url", "HTTPS://MAIL.example/a", "headers", object{"X-Key": "***"})).Want(http.StatusOK)
	})
}

// pairs returns the members of an object as arguments of with.
func pairs(o object) (all []any) {
	for name, value := range o {
		all = append(all, name, value)
	}
	return all
}
