package catalog_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/wire"
)

func TestAccessOfAnAgent(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		all := object{"users": []any{}, "groups": []any{}, "everyone": true}
		require.Equal(t, all, s.ada.Post(agents, demo("a")).Want(http.StatusCreated)["access"])
		sees := func(change func(*api.Caller)) bool {
			caller := s.bob.Caller
			change(&caller)
			_, err := s.AgentEnabled(t.Context(), caller, "a")
			_, read := s.EnabledAgent(t.Context(), caller, "a")
			require.Equal(t, err, read)
			m, listed := s.Manifest(t.Context(), caller)
			require.NoError(t, listed)
			require.Equal(t, err == nil, len(m.Agents) == 1)
			return err == nil
		}
		asBob := func(*api.Caller) {}
		inGroups := func(groups ...string) func(*api.Caller) { return func(c *api.Caller) { c.Groups = groups } }
		for _, row := range []struct {
			name   string
			access any
			caller func(*api.Caller)
			want   bool
		}{
			{"everyone", object{"everyone": true}, asBob, true},
			{"nobody", object{"everyone": false}, asBob, false},
			{"empty", object{}, asBob, false},
			{"no lists", object{"users": nil, "groups": nil, "everyone": nil}, asBob, false},
			{"another user", object{"users": []any{"eve"}}, asBob, false},
			{"the username", object{"users": []any{"eve", "BOB"}}, asBob, true},
			{"the id", object{"users": []any{"id-bob"}}, asBob, true},
			{"a username that is the id of another user", object{"users": []any{"0198c0de-0000-7000-8000-000000000000"}},
				func(c *api.Caller) { c.UserName = "0198c0de-0000-7000-8000-000000000000" }, false},
			{"a letter that folds to one of the username", object{"users": []any{"kim"}}, func(c *api.Caller) { c.UserName = "\u212Aim" }, false},
			{"a letter outside ASCII in another case", object{"users": []any{"\u00e9ve"}}, func(c *api.Caller) { c.UserName = "\u00c9ve" }, true},
			{"a group", object{"groups": []any{"staff"}}, inGroups("other", "staff"), true},
			{"a group in another letter case", object{"groups": []any{"staff"}}, inGroups("Staff"), false},
			{"no group", object{"groups": []any{"staff"}}, asBob, false},
			{"empty lists", object{"users": []any{}, "groups": nil}, asBob, false},
			{"a user or everyone", object{"users": []any{"eve"}, "everyone": true}, asBob, true},
			{"a maintainer", object{"everyone": false}, func(c *api.Caller) { *c = s.ada.Caller }, true},
			{"the hub", object{"everyone": false}, func(c *api.Caller) { *c = api.Caller{TenantID: "acme"} }, true},
		} {
			s.ada.Put(agents+"/a", demo("a", "access", row.access)).Want(http.StatusOK)
			require.Equal(t, row.want, sees(row.caller), row.name)
		}

		// An absent access is unchanged: an older client and an import open no agent.
		restricted := object{"users": []any{"eve"}, "groups": []any{"staff"}, "everyone": false}
		s.ada.Put(agents+"/a", demo("a", "access", restricted)).Want(http.StatusOK)
		require.Contains(t, strings.Join(s.Audit("acme"), "\n"), `"to":["everyone: false","groups: staff","users: eve"]`)
		require.Equal(t, restricted, s.ada.Put(agents+"/a", demo("a", "title", "A")).Want(http.StatusOK)["access"])
		require.Equal(t, restricted, s.ada.Put(agents+"/a", demo("a", "access", nil)).Want(http.StatusOK)["access"])
		exported := s.ada.Get(agents + "/a/export").Text
		require.Equal(t, restricted, s.importYAML(exported, "?replace=true").Want(http.StatusOK)["access"])
		s.ada.Put(agents+"/a/tools", object{"items": []any{"Read"}}).Want(http.StatusOK)
		require.Equal(t, restricted, s.ada.Get(agents + "/a").Want(http.StatusOK)["access"])
		s.bob.Get(agents+"/a").Error(http.StatusNotFound, wire.NotFound)
		faults(t, s.ada.Put(agents+"/a", demo("a", "access", object{"users": []any{""}})), "access.users[0]")
		s.ada.Put(agents+"/a", demo("a", "access", object{"users": "eve"})).Error(http.StatusBadRequest, wire.InvalidRequest)

		// An agent that an earlier version stored has no access.
		_, err := s.db.Write().ExecContext(t.Context(), `UPDATE agents SET access = ''`)
		require.NoError(t, err)
		require.True(t, func() bool { _, err := s.AgentEnabled(t.Context(), s.bob.Caller, "a"); return err == nil }())
	})
}

// Absent approvers are unchanged: an older client and an import weaken no agent. The hash of an
// agent whose owner approves is that of an earlier version.
func TestApproversOfAnAgent(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		owned := s.ada.Post(agents, demo("a")).Want(http.StatusCreated)
		require.Equal(t, "owner", owned["approvers"])
		exported := s.ada.Get(agents + "/a/export").Text
		roles := s.ada.Put(agents+"/a", demo("a", "approvers", "maintainer")).Want(http.StatusOK)
		require.NotEqual(t, owned["contentHash"], roles["contentHash"])
		require.Equal(t, "maintainer", s.bob.Get("/api/v1/agents/a").Want(http.StatusOK)["approvers"], "members see who approves")
		require.Contains(t, strings.Join(s.Audit("acme"), "\n"), `"approvers":{"from":"owner","to":"maintainer"}`)

		require.Equal(t, "maintainer", s.ada.Put(agents+"/a", demo("a", "title", "A")).Want(http.StatusOK)["approvers"])
		require.Equal(t, "maintainer", s.ada.Put(agents+"/a", demo("a", "approvers", nil)).Want(http.StatusOK)["approvers"])
		plain := "agents:\n- id: a\n  model: demo\n  provider: {protocol: demo}\n"
		require.Equal(t, "maintainer", s.importYAML(plain, "?replace=true").Want(http.StatusOK)["approvers"])
		s.ada.Put(agents+"/a/tools", object{"items": []any{"Read"}}).Want(http.StatusOK)
		require.Equal(t, "maintainer", s.ada.Get(agents + "/a").Want(http.StatusOK)["approvers"])
		again := s.importYAML(exported, "?replace=true").Want(http.StatusOK)
		require.Equal(t, "owner", again["approvers"])
		require.Equal(t, owned["contentHash"], again["contentHash"])
		require.Contains(t, s.Audit("acme")[len(s.Audit("acme"))-1], `"approvers":"owner"`)
	})
}
