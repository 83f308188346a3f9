package catalog_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/catalog"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/rbac"
)

func TestAnAgentIsStoredAsItWasSent(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		s.ada.Post(mcps, object{"name": "files", "transport": "stdio", "command": "files"}).Want(http.StatusCreated)
		s.ada.Post(knowledge, object{"name": "handbook", "datasetId": "hb"}).Want(http.StatusCreated)
		body := demo("coder", "title", "Coder", "titleEn", "Coder (EN)", "description", "Writes code.\nWell.", "descriptionEn", "x", "icon", "🛠",
			"enabled", true, "isDefault", true, "systemPrompt", " You write code.\n", "maxTurns", 7.0, "permissionMode", "plan",
			"allowedTools", []any{"Read", "Bash(git *)"}, "disallowedTools", []any{"Write"}, "tools", []any{"Read"}, "skills", []any{}, "mcps", []any{"files"},
			"knowledge", []any{object{"name": "handbook", "description": "for staff"}}, "settingSources", []any{"project"},
			"subagents", object{"reviewer": object{"description": "reviews", "prompt": "Review.", "tools": []any{}, "mcpServers": []any{"files"}, "maxTurns": 3.0}})
		created := s.ada.Post(agents, body)
		a := created.Want(http.StatusCreated)
		require.Equal(t, `"1"`, created.Header.Get("ETag"))
		for name, value := range body {
			require.Equal(t, value, a[name], name)
		}
		require.Regexp(t, `^sha256:[0-9a-f]{64}$`, a["contentHash"])
		for _, path := range []string{agents + "/coder", "/api/v1/agents/coder"} {
			require.Equal(t, a, s.ada.Get(path).Want(http.StatusOK), path)
		}
		require.Equal(t, []object{a}, s.ada.Get("/api/v1/agents").Items())

		// What was read can be sent back, and changes nothing.
		require.Equal(t, a, s.ada.Put(agents+"/coder", a, "If-Match", "1").Want(http.StatusOK))
		require.Len(t, s.Audit("acme"), 3)
		s.eve.Get(agents+"/coder").Error(http.StatusNotFound, wire.NotFound)
	})
}

func TestDefaultsOfAnAgent(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		a := s.ada.Post(agents, demo("a")).Want(http.StatusCreated)
		want := object{
			"title": "a", "description": "", "enabled": true, "isDefault": false, "systemPrompt": "", "maxTurns": 10.0, "permissionMode": "default",
			"allowedTools": nil, "disallowedTools": []any{}, "tools": []any{}, "skills": []any{}, "mcps": []any{}, "knowledge": []any{},
			"subagents": object{}, "settingSources": []any{"user", "project"}, "approvers": "owner", "version": 1.0,
		}
		for name, value := range want {
			require.Equal(t, value, a[name], name)
		}
		none := s.ada.Put(agents+"/a", demo("a", "allowedTools", []any{}, "settingSources", []any{})).Want(http.StatusOK)
		require.Equal(t, []any{}, none["allowedTools"])
		require.Equal(t, []any{}, none["settingSources"])
		require.NotEqual(t, a["contentHash"], none["contentHash"])
		require.Equal(t, none, s.ada.Get(agents+"/a").Want(http.StatusOK))
	})
}

func TestInvalidAgents(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		for name, row := range map[string]struct {
			body   object
			fields []string
		}{
			"nothing":          {object{}, []string{"name", "providerId", "model"}},
			"name":             {demo("A b"), []string{"name"}},
			"reserved name":    {demo("manifest"), []string{"name"}},
			"long name":        {demo(strings.Repeat("a", 64)), []string{"name"}},
			"unknown provider": {demo("a", "providerId", "none"), []string{"providerId"}},
			"mode and turns":   {demo("a", "permissionMode", "root", "maxTurns", 0), []string{"permissionMode", "maxTurns"}},
			"title":            {demo("a", "title", "a\u202eb", "icon", "\n"+strings.Repeat("i", 1001)), []string{"title", "icon"}},
			"sources":          {demo("a", "settingSources", []any{"user", "etc"}), []string{"settingSources[1]"}},
			"bound twice":      {demo("a", "tools", []any{"Read", "Read"}), []string{"tools[1]"}},
			"unknown parts": {
				demo("a", "tools", []any{"Read", "x"}, "skills", []any{"s"}, "mcps", []any{"m"}, "knowledge", []any{"k"}),
				[]string{"tools[1]", "skills[0]", "mcps[0]", "knowledge[0]"},
			},
			"subagents": {
				demo("a", "subagents", object{"r": object{"description": "d", "prompt": "", "mcpServers": []any{"m"}}, "B": object{"description": "", "prompt": "p"}}),
				[]string{"subagents.r.prompt", "subagents.B", "subagents.B.description", "subagents.r.mcpServers[0]"},
			},
			"server of a subagent": {
				demo("a", "subagents", object{"r": object{"description": "d", "prompt": "p", "mcpServers": []any{"m"}}}), []string{"subagents.r.mcpServers[0]"},
			},
			"lists": {demo("a", "allowedTools", []any{""}, "disallowedTools", []any{strings.Repeat("x", 501)}), []string{"allowedTools[0]", "disallowedTools[0]"}},
		} {
			t.Run(name, func(t *testing.T) { faults(t, s.ada.Post(agents, row.body), row.fields...) })
		}
		s.ada.Post(agents, demo("a")).Want(http.StatusCreated)
		faults(t, s.ada.Put(agents+"/a", demo("b")), "name")
		require.Len(t, s.Audit("acme"), 1)
	})
}

func TestAgentNameIsUniqueInItsTenant(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		s.ada.Post(agents, demo("a", "title", "Ada's")).Want(http.StatusCreated)
		s.ada.Post(agents, demo("a")).Error(http.StatusConflict, wire.NameTaken)
		s.eve.Post(agents, demo("a", "title", "Eve's")).Want(http.StatusCreated)
		require.Equal(t, "Ada's", s.bob.Get("/api/v1/agents/a").Want(http.StatusOK)["title"])
		require.Equal(t, "Eve's", s.eve.Get("/api/v1/agents/a").Want(http.StatusOK)["title"])
		s.eve.Delete(agents + "/a").Want(http.StatusNoContent)
		require.Equal(t, "Ada's", s.bob.Get("/api/v1/agents/a").Want(http.StatusOK)["title"])
		require.Empty(t, s.eve.Get("/api/v1/agents").Items())
	})
}

func TestOneOfManyConcurrentCreationsSucceeds(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		var all sync.WaitGroup
		status := make([]int, 8)
		for i := range status {
			all.Go(func() {
				status[i] = s.ada.Post(agents, demo("same", "isDefault", true)).Status
				s.ada.Post(agents, demo(fmt.Sprint("other", i), "isDefault", true)).Want(http.StatusCreated)
			})
		}
		all.Wait()
		created := 0
		for _, code := range status {
			if code == http.StatusCreated {
				created++
			} else {
				require.Equal(t, http.StatusConflict, code)
			}
		}
		require.Equal(t, 1, created)
		defaults := 0
		for _, a := range s.bob.Get("/api/v1/agents?page_size=100").Items() {
			if a["isDefault"] == true {
				defaults++
			}
		}
		require.Equal(t, 1, defaults)
	})
}

func TestConcurrentUpdatesWithAVersionDoNotOverwriteEachOther(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		s.ada.Post(agents, demo("a")).Want(http.StatusCreated)
		var all sync.WaitGroup
		status := make([]int, 8)
		for i := range status {
			all.Go(func() {
				status[i] = s.ada.Put(agents+"/a", demo("a", "title", fmt.Sprint(i)), "If-Match", `"1"`).Status
			})
		}
		all.Wait()
		changed := 0
		for _, code := range status {
			if code == http.StatusOK {
				changed++
			} else {
				require.Equal(t, http.StatusPreconditionFailed, code)
			}
		}
		require.Equal(t, 1, changed)
		s.ada.Put(agents+"/a", demo("a", "title", "x")).Want(http.StatusOK)
		require.Equal(t, 3.0, s.bob.Get(agents + "/a").Want(http.StatusOK)["version"])
	})
}

func TestOneAgentIsTheDefault(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		s.ada.Post(agents, demo("a", "isDefault", true)).Want(http.StatusCreated)
		s.eve.Post(agents, demo("a", "isDefault", true)).Want(http.StatusCreated)
		s.ada.Post(agents, demo("b", "isDefault", true)).Want(http.StatusCreated)
		a := s.ada.Get(agents + "/a").Want(http.StatusOK)
		require.Equal(t, false, a["isDefault"])
		require.Equal(t, 2.0, a["version"])
		require.Equal(t, true, s.eve.Get(agents + "/a").Want(http.StatusOK)["isDefault"])
		s.ada.Put(agents+"/a", demo("a", "isDefault", true)).Want(http.StatusOK)
		require.Equal(t, false, s.ada.Get(agents + "/b").Want(http.StatusOK)["isDefault"])
		require.Contains(t, s.Audit("acme"), `agent.update b {"isDefault":{"from":true,"to":false}}`)
	})
}

func TestADisabledAgentIsHidden(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		s.ada.Post(agents, demo("a", "enabled", false)).Want(http.StatusCreated)
		s.bob.Get("/api/v1/agents/a").Error(http.StatusNotFound, wire.NotFound)
		require.Empty(t, s.bob.Get("/api/v1/agents").Items())
		require.Empty(t, s.bob.Get(manifest).Want(http.StatusOK)["agents"])
		require.Len(t, s.bob.Get(agents).Items(), 1)
		s.ada.Put(agents+"/a", demo("a")).Want(http.StatusOK)
		s.bob.Get("/api/v1/agents/a").Want(http.StatusOK)
	})
}

func TestAgentsAreListedByNameAndFoundByNameOrTitle(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		for name, title := range map[string]string{"b-2": "50%_Ärzte", "a": "Zepra", "b1": `back\slash`, "a-b": "x"} {
			s.ada.Post(agents, demo(name, "title", title)).Want(http.StatusCreated)
		}
		for query, want := range map[string]string{
			"": "a a-b b-2 b1", "?q=B": "a-b b-2 b1", "?q=zEp": "a", "?q=%25": "b-2", "?q=_": "b-2", `?q=%5C`: "b1", "?q=ÄRZ": "b-2", "?q=nothing": "",
			"?page=2&page_size=3": "b1", "?page_size=2": "a a-b",
		} {
			for _, path := range []string{agents, "/api/v1/agents"} {
				var got []string
				for _, a := range s.bob.Get(path + query).Items() {
					got = append(got, a["name"].(string))
				}
				require.Equal(t, want, strings.Join(got, " "), path+query)
			}
		}
		require.Equal(t, 4.0, s.bob.Get(agents + "?page=9").Want(http.StatusOK)["total"])
	})
}

func TestADeployedAgentIsNotDeleted(t *testing.T) {
	deployed := func(cfg *catalog.Config) {
		cfg.Deployed = func(_ context.Context, _ *sql.Tx, tenantID, name string) (bool, error) {
			return tenantID == "acme" && name == "a", nil
		}
	}
	each(t, deployed, func(t *testing.T, s *server) {
		for _, c := range []func(string, any){func(p string, b any) { s.ada.Post(p, b).Want(201) }, func(p string, b any) { s.eve.Post(p, b).Want(201) }} {
			c(agents, demo("a"))
		}
		s.ada.Delete(agents+"/a").Error(http.StatusConflict, code.AgentDeployed)
		s.eve.Delete(agents + "/a").Want(http.StatusNoContent)
		s.ada.Delete(agents+"/none").Error(http.StatusNotFound, wire.NotFound)
	})
}

// The transaction of a deploy has locked the agent before it is deleted.
func TestAnAgentIsNotDeletedDuringItsDeploy(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		var deployed atomic.Bool
		read := make(chan struct{}, 1)
		s := open(t, url, func(cfg *catalog.Config) {
			cfg.Deployed = func(context.Context, *sql.Tx, string, string) (bool, error) {
				defer func() { read <- struct{}{} }()
				return deployed.Load(), nil
			}
		})
		s.ada.Post(agents, demo("a")).Want(201)
		result := make(chan error, 1)
		require.NoError(t, s.db.Tx(t.Context(), func(tx *sql.Tx) error {
			require.NoError(t, s.LockAgent(t.Context(), tx, "acme", "a"))
			require.ErrorIs(t, s.LockAgent(t.Context(), tx, "acme", "none"), wire.NotFound)
			require.ErrorIs(t, s.LockAgent(t.Context(), tx, "other", "a"), wire.NotFound)
			go func() { result <- s.DeleteAgent(t.Context(), s.ada.Caller, "a", nil) }()
			select {
			case <-read: // too early
			case <-time.After(50 * time.Millisecond): // it waits for the lock
			}
			deployed.Store(true)
			return nil
		}))
		require.ErrorIs(t, <-result, code.AgentDeployed)
	})
}

func TestMembersOnlyRead(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		for _, path := range []string{agents, scenes, mcps, knowledge} {
			s.bob.Get(path).Items()
			s.bob.Post(path, object{}).Error(http.StatusForbidden, wire.Forbidden)
			s.bob.Put(path+"/a", object{}).Error(http.StatusForbidden, wire.Forbidden)
			s.bob.Delete(path+"/a").Error(http.StatusForbidden, wire.Forbidden)
		}
		_, err := s.CreateAgent(t.Context(), s.bob.Caller, catalog.AgentInput{AgentRequest: wire.AgentRequest{Name: "a", ProviderID: "demo", Model: "m"}})
		require.Error(t, err, "the service authorizes too")
		_, err = s.Agents(t.Context(), s.As("acme", "x", "").Caller, api.Page{Number: 1, Size: 1})
		require.Error(t, err)
		require.Error(t, rbac.AdminRead.Check(s.As("acme", "x", "").Caller))
	})
}

func TestTheAuditLogHasTheChangedFieldsOfAnAgent(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		s.ada.Post(agents, demo("a", "systemPrompt", "The password is hunter2.")).Want(http.StatusCreated)
		s.ada.Put(agents+"/a", demo("a", "systemPrompt", "x", "model", "other", "tools", []any{"Read"}, "allowedTools", []any{"Read"})).Want(http.StatusOK)
		s.ada.Delete(agents + "/a").Want(http.StatusNoContent)
		log := s.Audit("acme")
		require.Len(t, log, 4)
		require.Regexp(t, `^agent.update a \{"model":\{"from":"demo","to":"other"\},"systemPrompt":\{"from":"sha256:[0-9a-f]{16} \(24 characters\)",`+
			`"to":"sha256:[0-9a-f]{16} \(1 characters\)"\},"allowedTools":\{"from":null,"to":\["Read"\]\}\}$`, log[1])
		require.Equal(t, `agent.bind a {"kind":"tool","items":{"from":[],"to":["Read"]}}`, log[2])
		require.NotContains(t, strings.Join(log, "\n"), "hunter2")
	})
}

// The audit entry of a change has a maximum size.
func TestLongestListsOfAnAgentCanBeReplaced(t *testing.T) {
	t.Parallel()
	s := open(t, dbtest.SQLite(t, series...), nil)
	list := func(end string) (all []string) {
		for range 200 {
			all = append(all, "Bash("+strings.Repeat("<", 300)+end+")")
		}
		return all
	}
	s.ada.Post(agents, demo("a", "allowedTools", list("a"), "disallowedTools", list("b"))).Want(http.StatusCreated)
	s.ada.Put(agents+"/a", demo("a", "allowedTools", list("b"), "disallowedTools", list("a"))).Want(http.StatusOK)
	entries := s.Audit("acme")
	require.Contains(t, entries[len(entries)-1], " more: sha256:")
}

// A setting that the runtime rejects is rejected when it is saved: a deployment would fail.
func TestRulesOfToolsAreThoseOfTheRuntime(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		faulty := demo("a", "allowedTools", []any{"Read", "Bash(git *"}, "disallowedTools", []any{"WebFetch(example.com)"},
			"subagents", object{"r": object{"description": "d", "prompt": "p", "tools": []any{"Edit()"}}})
		fields := []string{"allowedTools[1]", "disallowedTools[0]", "subagents.r.tools[0]"}
		faults(t, s.ada.Post(agents, faulty), fields...)
		s.ada.Post(agents, demo("a")).Want(http.StatusCreated)
		faults(t, s.ada.Put(agents+"/a", faulty), fields...)
		s.ada.Put(agents+"/a", demo("a", "allowedTools", []any{"Bash(git *)"})).Want(http.StatusOK)
	})
}
