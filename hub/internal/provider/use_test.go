package provider_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/internal/provider"
	"github.com/seed93082962/agenthost/hub/internal/settings"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/secret"
	"github.com/seed93082962/agenthost/runtime/agent"
)

func TestAProviderInUseIsNotDeleted(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		id := create(s.acme, gateway(nil))
		s.users["acme/"+id] = []string{"writer", "coder"}
		fault := s.acme.Delete(admin+"/"+id).Error(http.StatusConflict, code.InUse)
		require.Equal(t, object{"agents": []any{"coder", "writer"}}, fault["data"])
		s.acme.Get(admin + "/" + id).Want(http.StatusOK)
		require.Len(t, s.Audit("acme"), 1)
	})
}

// Of a deletion and a concurrent Reserve, one succeeds.
func TestRaceOfReserveAndDelete(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		s := open(t, url, func(cfg *provider.Config) {
			cfg.InUse = func(ctx context.Context, tx *sql.Tx, tenantID, id string) ([]string, error) {
				return db.Collect(ctx, tx, "list agents", func(row db.Scanner) (name string, err error) {
					err = row.Scan(&name)
					return name, err
				},
					`SELECT name FROM agents_of_test WHERE tenant_id = $1 AND provider_id = $2`, tenantID, id)
			}
		})
		ctx := t.Context()
		_, err := s.db.Write().ExecContext(ctx, `CREATE TABLE agents_of_test (tenant_id TEXT, name TEXT, provider_id TEXT)`)
		require.NoError(t, err)
		for i := range 8 {
			id := create(s.acme, gateway(object{"name": fmt.Sprint("p", i)}))
			var reserved error
			var deleted int
			var wait sync.WaitGroup
			wait.Go(func() {
				reserved = s.db.Tx(ctx, func(tx *sql.Tx) error {
					if err := s.service.Reserve(ctx, tx, "acme", id); err != nil {
						return err
					}
					_, err := tx.ExecContext(ctx, `INSERT INTO agents_of_test VALUES ('acme', 'a', $1)`, id)
					return err
				})
			})
			wait.Go(func() { deleted = s.acme.Delete(admin + "/" + id).Status })
			wait.Wait()
			if reserved == nil {
				require.Equal(t, http.StatusConflict, deleted)
			} else {
				require.ErrorIs(t, reserved, wire.NotFound)
				require.Equal(t, http.StatusNoContent, deleted)
			}
		}
	})
}

func TestReserve(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		id := create(s.acme, gateway(nil))
		for _, row := range []struct {
			tenant, id string
			found      bool
		}{{"acme", id, true}, {"beta", id, false}, {"acme", "demo", true}, {"acme", "none", false}} {
			err := s.db.Tx(t.Context(), func(tx *sql.Tx) error { return s.service.Reserve(t.Context(), tx, row.tenant, row.id) })
			require.Equal(t, row.found, err == nil, row)
			require.Equal(t, !row.found, errors.Is(err, wire.NotFound), row)
			p, _, err := s.service.Get(t.Context(), s.db.Read(), row.tenant, row.id)
			require.Equal(t, row.found, err == nil, row)
			require.Equal(t, row.found, p.ID == row.id, row)
		}
	})
}

// Of concurrent updates of one version, one succeeds.
func TestRaceOfUpdates(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		id := create(s.acme, gateway(nil))
		var mu sync.Mutex
		var wait sync.WaitGroup
		statuses := map[int]int{}
		for i := range 6 {
			wait.Go(func() {
				status := s.acme.Put(admin+"/"+id, gateway(object{"name": fmt.Sprint("n", i)}), "If-Match", `"1"`).Status
				mu.Lock()
				defer mu.Unlock()
				statuses[status]++
			})
		}
		wait.Wait()
		require.Equal(t, map[int]int{http.StatusOK: 1, http.StatusPreconditionFailed: 5}, statuses)
	})
}

func TestMatch(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		match := func(protocol, url string) string {
			p, err := s.service.Match(t.Context(), "acme", "", agent.Provider{Protocol: protocol, BaseURL: agent.Secret(url)}, api.Fields{})
			if err != nil {
				require.ErrorIs(t, err, wire.NotFound)
				return ""
			}
			return p.Name
		}
		create(s.beta, gateway(nil))
		require.Equal(t, []string{"OpenAI", "OpenAI", "Anthropic", "Demo", "", "", "", ""}, []string{
			match("openai", ""), match("openai", "https://API.openai.com/v1/"), match("anthropic", ""), match("demo", "x"),
			match("anthropic", "https://api.openai.com/v1"), match("openai", "https://llm.example.com/v1"), match("other", ""), match("openai", ":"),
		})
		create(s.acme, gateway(object{"name": "without key", "apiKey": nil}))
		require.Equal(t, "without key", match("openai", "https://llm.example.com/v1"))
		create(s.acme, gateway(object{"name": "disabled", "enabled": false}))
		create(s.acme, gateway(object{"name": "with key"}))
		require.Equal(t, "with key", match("openai", "https://LLM.example.com:443/v1"))
		create(s.acme, gateway(object{"name": "own vendor", "baseUrl": ""}))
		require.Equal(t, "own vendor", match("openai", ""))
	})
}

func TestOpen(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		ctx := t.Context()
		id := create(s.acme, gateway(nil))
		got, open, err := s.service.Open(ctx, s.db.Read(), "acme", id)
		require.NoError(t, err)
		view, masked, err := s.service.Get(ctx, s.db.Read(), "acme", id)
		require.NoError(t, err)
		require.Equal(t, view, got)
		want := agent.Provider{Protocol: "openai", AuthStyle: "bearer", BaseURL: "https://llm.example.com/v1"}
		require.Equal(t, want, masked)
		want.APIKey = plantedKey
		require.Equal(t, want, open)
		require.NotContains(t, fmt.Sprintf("%v %+v", open, open), plantedKey)
		_, _, err = s.service.Open(ctx, s.db.Read(), "beta", id)
		require.ErrorIs(t, err, wire.NotFound)
		_, open, err = s.service.Open(ctx, s.db.Read(), "beta", "demo")
		require.NoError(t, err)
		require.Equal(t, agent.Provider{Protocol: "demo", AuthStyle: "none"}, open)
	})
}

// A row whose key cannot be opened is listed, and works again with a new key.
func TestKeysThatCannotBeOpened(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		ctx := t.Context()
		id, moved := create(s.acme, gateway(nil)), create(s.acme, gateway(object{"name": "Moved"}))
		_, err := s.db.Write().ExecContext(ctx, `UPDATE providers SET api_key_enc = (SELECT api_key_enc FROM providers WHERE id = $1) WHERE id = $2`, id, moved)
		require.NoError(t, err)
		for _, p := range s.acme.Get(public).Items()[3:] {
			want := []any{"sk-p...wxyz", true, "ready"}
			if p["id"] == moved {
				want = []any{"", true, "needs_reconfiguration"}
			}
			require.Equal(t, want, []any{p["maskedKey"], p["hasKey"], p["keyState"]})
		}
		path := admin + "/" + moved
		s.acme.Post(path+"/reveal-key", nil).Error(http.StatusConflict, wire.Conflict)
		probe := s.acme.Post(path+"/probe", nil).Want(http.StatusOK)
		require.Equal(t, []any{false, "needs_reconfiguration"}, []any{probe["ok"], probe["errorCode"]})
		_, _, err = s.service.Open(ctx, s.db.Read(), "acme", moved)
		require.ErrorIs(t, err, wire.Conflict)
		n, err := s.store.Reseal(ctx, provider.Sealed()...)
		require.NoError(t, err)
		require.Zero(t, n)
		repaired := s.acme.Put(path, gateway(object{"name": "Moved"})).Want(http.StatusOK)
		require.Equal(t, "ready", repaired["keyState"])
	})
}

// A key belongs to a tenant and a base URL: a row that someone changed in the database reveals it
// to no other address and no other tenant. A change through the API keeps it.
func TestAKeyIsBoundToItsTenantAndBaseURL(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		ctx := t.Context()
		var received atomic.Value
		thief := serve(t, func(_ http.ResponseWriter, r *http.Request) { received.Store(r.Header.Get("Authorization")) })
		for column, value := range map[string]string{"base_url": thief.URL, "tenant_id": "beta"} {
			id := create(s.acme, gateway(object{"name": column}))
			_, err := s.db.Write().ExecContext(ctx, `UPDATE providers SET `+column+` = $1 WHERE id = $2`, value, id)
			require.NoError(t, err)
			owner, path := s.acme, admin+"/"+id
			if column == "tenant_id" {
				owner = s.beta
			}
			require.Equal(t, "needs_reconfiguration", owner.Get(path).Want(http.StatusOK)["keyState"])
			owner.Post(path+"/reveal-key", nil).Error(http.StatusConflict, wire.Conflict)
			require.Equal(t, "needs_reconfiguration", owner.Post(path+"/probe", nil).Want(http.StatusOK)["errorCode"])
			_, _, err = s.service.Open(ctx, s.db.Read(), owner.Caller.TenantID, id)
			require.ErrorIs(t, err, wire.Conflict)
			for _, change := range []object{{"name": "x" + column, "baseUrl": thief.URL}, {"name": "x" + column, "baseUrl": "https://llm.example.com/v2"}} {
				body := gateway(change)
				delete(body, "apiKey")
				if stored := owner.Get(path).Want(http.StatusOK)["baseUrl"].(string); settings.Origin(stored) != settings.Origin(body["baseUrl"].(string)) {
					owner.Put(path, body).Error(http.StatusBadRequest, wire.ValidationFailed)
					continue
				}
				require.Equal(t, "needs_reconfiguration", owner.Put(path, body).Want(http.StatusOK)["keyState"], "a change does not bind the key")
			}
			n, err := s.store.Rebind(ctx, provider.Sealed()...)
			require.NoError(t, err)
			require.Zero(t, n)
		}
		require.Nil(t, received.Load())

		id := create(s.acme, gateway(nil))
		moved := gateway(object{"baseUrl": "https://llm.example.com/v2"})
		delete(moved, "apiKey")
		require.Equal(t, "ready", s.acme.Put(admin+"/"+id, moved).Want(http.StatusOK)["keyState"])
		require.Equal(t, plantedKey, s.acme.Post(admin+"/"+id+"/reveal-key", nil).Want(http.StatusOK)["apiKey"])
	})
}

// Keys that an earlier version sealed are bound when a hub starts, or by Reseal.
func TestKeysOfAnEarlierVersion(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		ctx := t.Context()
		for name, bind := range map[string]func(context.Context, ...store.Sealed) (int, error){"start": s.store.Rebind, "rekey": s.store.Reseal} {
			id := create(s.acme, gateway(object{"name": name}))
			former := s.store.Keyring.Seal([]byte("former"), secret.AAD("providers", "api_key_enc", id))
			_, err := s.db.Write().ExecContext(ctx, `UPDATE providers SET api_key_enc = $1 WHERE id = $2`, former, id)
			require.NoError(t, err)
			require.Equal(t, "needs_reconfiguration", s.acme.Get(admin + "/" + id).Want(http.StatusOK)["keyState"])
			for _, want := range []int{1, 0} {
				n, err := bind(ctx, provider.Sealed()...)
				require.NoError(t, err)
				require.Equal(t, want, n)
			}
			require.Equal(t, "former", s.acme.Post(admin+"/"+id+"/reveal-key", nil).Want(http.StatusOK)["apiKey"])
		}
	})
}

func TestRekey(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		ctx := t.Context()
		older, newer := secret.Generate(), secret.Generate()
		at := func(keys ...string) *provider.Service {
			cfg := s.cfg
			cfg.Store = s.with(keys...)
			return s.start(cfg)
		}
		var made []string
		for i := range 103 { // more than a batch
			p, err := at(older).CreateProvider(ctx, s.acme.Caller, openAI(fmt.Sprint("p", i), fmt.Sprint("key", i)))
			require.NoError(t, err)
			made = append(made, p.ID)
		}
		lost := create(s.beta, gateway(nil)) // sealed with another key
		both, ring := at(newer, older), s.with(newer, older)
		var wait sync.WaitGroup
		var total [2]int
		for i := range total { // concurrently, also with a change
			wait.Go(func() {
				n, err := ring.Reseal(ctx, provider.Sealed()...)
				require.NoError(t, err)
				total[i] = n
			})
		}
		_, err := both.UpdateProvider(ctx, s.acme.Caller, made[0], nil, openAI("p0", "new"))
		require.NoError(t, err)
		wait.Wait()
		require.InDelta(t, 103, total[0]+total[1], 1)
		only := at(newer)
		for i, id := range made {
			_, got, err := only.Open(ctx, s.db.Read(), "acme", id)
			require.NoError(t, err)
			want := fmt.Sprint("key", i)
			if i == 0 {
				want = "new"
			}
			require.Equal(t, want, string(got.APIKey))
		}
		require.Contains(t, s.log.String(), lost)
		n, err := ring.Reseal(ctx, provider.Sealed()...)
		require.NoError(t, err)
		require.Zero(t, n)
	})
}

// openAI returns the request for a provider with a key.
func openAI(name, key string) provider.Input {
	return provider.Input{ProviderRequest: wire.ProviderRequest{
		Name: name, ProbeRequest: wire.ProbeRequest{Protocol: "openai", APIKey: wire.KeyChange{Value: key}},
	}}
}

// A configuration can name the provider: of several at its address, that one matches.
func TestMatchPrefersAName(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		for _, name := range []string{"first", "second"} {
			create(s.acme, gateway(object{"name": name}))
		}
		want := agent.Provider{Protocol: "openai", BaseURL: "https://llm.example.com/v1"}
		for name, found := range map[string]string{"second": "second", "first": "first", "": "first", "other": "first", "OpenAI": "first"} {
			p, err := s.service.Match(t.Context(), "acme", name, want, api.Fields{})
			require.NoError(t, err)
			require.Equal(t, found, p.Name, name)
		}
	})
}
