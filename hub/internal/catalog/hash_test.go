package catalog_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/catalog"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
)

// unhashed are the fields that do not change the hash.
var unhashed = map[string]bool{"ID": true, "ContentHash": true, "Version": true, "CreatedAt": true, "UpdatedAt": true}

func TestTheContentHashChangesWithEachField(t *testing.T) {
	t.Parallel()
	base, err := catalog.ContentHash(catalog.Agent{}, nil)
	require.NoError(t, err)
	seen := map[string]string{base: "nothing"}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[catalog.Agent]()) {
		if field.Anonymous || !field.IsExported() {
			continue
		}
		var a catalog.Agent
		change(t, reflect.ValueOf(&a).Elem().FieldByIndex(field.Index), field.Name)
		hash, err := catalog.ContentHash(a, nil)
		require.NoError(t, err)
		if unhashed[field.Name] {
			require.Equal(t, base, hash, field.Name)
			continue
		}
		require.Empty(t, seen[hash], field.Name)
		seen[hash] = field.Name
	}
	empty, err := catalog.ContentHash(catalog.Agent{Agent: wire.Agent{AllowedTools: []string{}}}, nil)
	require.NoError(t, err)
	require.NotEqual(t, base, empty, "no tools, and every tool")
}

// change sets a value to one that is not zero.
func change(t *testing.T, v reflect.Value, name string) {
	t.Helper()
	if v.Type() == reflect.TypeFor[json.RawMessage]() {
		v.SetBytes([]byte(`{"type":"object"}`))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Float64:
		v.SetFloat(0.5)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		change(t, v.Elem(), name)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		change(t, v.Index(0), name)
	case reflect.Map:
		element := reflect.New(v.Type().Elem()).Elem()
		change(t, element, name)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("x"), element)
	case reflect.Struct:
		for _, field := range v.Fields() {
			if field.CanSet() {
				change(t, field, name)
			}
		}
	default:
		require.Fail(t, "a field of a new type", name)
	}
}

// The hash of the same content is the same in every version of the hub, so that clients keep what
// they have read.
func TestTheContentHashIsStable(t *testing.T) {
	t.Parallel()
	a := catalog.Agent{Agent: wire.Agent{Name: "a", Tools: []string{"y", "x"}, Knowledge: []wire.KnowledgeRef{{Name: "k"}}}}
	b := catalog.Agent{Agent: wire.Agent{Name: "a", Tools: []string{"x", "y"}, Knowledge: []wire.KnowledgeRef{{Name: "k"}}, Version: 9}}
	first, err := catalog.ContentHash(a, nil)
	require.NoError(t, err)
	second, err := catalog.ContentHash(b, nil)
	require.NoError(t, err)
	require.Equal(t, first, second)
	require.Equal(t, []string{"y", "x"}, a.Tools)
}

func TestTheManifestChangesWithWhatAgentsRun(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		s := open(t, url, nil)
		server := object{"name": "m", "transport": "http", "url": "https://m.example", "headers": object{"X-Key": "secret"}}
		s.ada.Post(mcps, server).Want(http.StatusCreated)
		s.ada.Post(knowledge, object{"name": "k", "datasetId": "d"}).Want(http.StatusCreated)
		s.ada.Post(agents, demo("a", "mcps", []any{"m"}, "knowledge", []any{"k"})).Want(http.StatusCreated)
		s.ada.Post(agents, demo("b")).Want(http.StatusCreated)
		read := func() string {
			r := s.bob.Get(manifest)
			body := r.Want(http.StatusOK)
			require.Equal(t, fmt.Sprintf("%q", body["contentHash"]), r.Header.Get("ETag"))
			for _, entry := range body["agents"].([]any) {
				e := entry.(object)
				require.Equal(t, s.bob.Get(agents + "/" + e["name"].(string)).Want(http.StatusOK)["contentHash"], e["contentHash"])
			}
			unchanged := s.bob.Do(http.MethodGet, manifest, nil, "If-None-Match", r.Header.Get("ETag"))
			require.Equal(t, http.StatusNotModified, unchanged.Status)
			require.Empty(t, unchanged.Text)
			return body["contentHash"].(string)
		}
		first := read()
		seen := map[string]bool{first: true}
		for i, do := range []func(){
			func() { s.ada.Put(mcps+"/m", with(server, "url", "https://n.example")).Want(http.StatusOK) },
			func() { s.ada.Put(knowledge+"/k", object{"datasetId": "e"}).Want(http.StatusOK) },
			func() { s.ada.Put(agents+"/b/tools", object{"items": []any{"Read"}}).Want(http.StatusOK) },
			func() { s.ada.Delete(agents + "/b").Want(http.StatusNoContent) },
			func() { s.ada.Put(agents+"/a", demo("a", "enabled", false)).Want(http.StatusOK) },
		} {
			do()
			hash := read()
			require.False(t, seen[hash], i)
			seen[hash] = true
		}
		before := read()
		s.ada.Put(mcps+"/m", with(server, "url", "https://n.example", "headers", object{"X-Key": "other"})).Want(http.StatusOK)
		require.Equal(t, before, read(), "the value of a header is not part of the hash")

		// Another process computes the same.
		again, err := catalog.New(s.cfg)
		require.NoError(t, err)
		m, err := again.Manifest(t.Context(), s.bob.Caller)
		require.NoError(t, err)
		require.Equal(t, before, m.ContentHash)
	})
}

func TestMCPServersShowNoSecret(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		body := object{"name": "m", "transport": "stdio", "command": "run", "args": []any{"-v"}, "env": object{"TOKEN": "sk-planted", "MODE": "fast"}}
		masked := object{"TOKEN": "***", "MODE": "***"}
		require.Equal(t, masked, s.ada.Post(mcps, body).Want(http.StatusCreated)["env"])
		s.eve.Post(mcps, body).Want(http.StatusCreated)
		for _, m := range append(s.bob.Get(mcps+"?q=M").Items(), s.bob.Get(mcps+"/m").Want(http.StatusOK)) {
			require.Equal(t, masked, m["env"])
		}
		var stored string
		require.NoError(t, s.db.Read().QueryRowContext(t.Context(), `SELECT env FROM mcps WHERE tenant_id = 'acme'`).Scan(&stored))
		require.NotContains(t, stored, "sk-planted")

		// *** means the stored value.
		changed := s.ada.Put(mcps+"/m", with(body, "title", "M", "env", object{"TOKEN": "***", "MODE": "slow"}), "If-Match", `"1"`).Want(http.StatusOK)
		require.Equal(t, 2.0, changed["version"])
		s.ada.Put(mcps+"/m", body, "If-Match", `"1"`).Error(http.StatusPreconditionFailed, "precondition_failed")
		faults(t, s.ada.Put(mcps+"/m", with(body, "env", object{"NEW": "***"})), "env.NEW")
		s.ada.Post(agents, demo("a", "mcps", []any{"m"})).Want(http.StatusCreated)
		d, err := s.Deployment(t.Context(), "acme", "a")
		require.NoError(t, err)
		require.Equal(t, "sk-planted", string(d.MCPServers["m"].Env["TOKEN"]))
		require.Equal(t, "slow", string(d.MCPServers["m"].Env["MODE"]))

		require.Equal(t, object{"agents": []any{"a"}}, s.ada.Delete(mcps+"/m").Error(http.StatusConflict, "in_use")["data"])
		s.eve.Delete(mcps + "/m").Want(http.StatusNoContent)
		require.NotContains(t, strings.Join(s.Audit("acme"), "\n")+s.Log.String(), "sk-planted")
		faults(t, s.ada.Post(mcps, object{"name": "a__b", "transport": "stdio", "url": "x", "env": object{"A=B": "x"}}), "name", "command", "url", "env")
		faults(t, s.ada.Post(mcps, object{"name": "x", "transport": "tcp", "headers": object{"a b": "x", "C": "x\ny"}}), "transport", "headers", "headers.C")
		s.ada.Post(mcps, body).Error(http.StatusConflict, "name_taken")
	})
}

func TestScenesAreListedInTheirOrder(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		s.ada.Post(agents, demo("a")).Want(http.StatusCreated)
		for i, name := range []string{"z", "y", "x"} {
			s.ada.Post(scenes, object{"name": name, "agentName": "a", "prompt": "p", "order": i}).Want(http.StatusCreated)
		}
		s.ada.Put(scenes+"/y", object{"agentName": "a", "order": 1, "enabled": false}).Want(http.StatusOK)
		var got []string
		for _, scene := range s.bob.Get("/api/v1/scenes").Items() {
			got = append(got, scene["name"].(string))
		}
		require.Equal(t, []string{"z", "x"}, got)
		s.bob.Get("/api/v1/scenes/y").Error(http.StatusNotFound, "not_found")
		s.bob.Get("/api/v1/scenes/z").Want(http.StatusOK)
		s.eve.Get("/api/v1/scenes/z").Error(http.StatusNotFound, "not_found")
		require.Len(t, s.bob.Get(scenes).Items(), 3)
		faults(t, s.ada.Post(scenes, object{"name": "w", "agentName": "none"}), "agentName")
		s.ada.Delete(agents+"/a").Error(http.StatusConflict, "conflict")
		s.ada.Put(agents+"/a", demo("a", "enabled", false)).Want(http.StatusOK)
		require.Empty(t, s.bob.Get("/api/v1/scenes").Items())
		for _, name := range []string{"x", "y", "z"} {
			s.ada.Delete(scenes + "/" + name).Want(http.StatusNoContent)
		}
		s.ada.Delete(agents + "/a").Want(http.StatusNoContent)
	})
}

func TestKnowledgeInUseIsNotDeleted(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		s.ada.Post(knowledge, object{"name": "k", "datasetId": "d"}).Want(http.StatusCreated)
		s.ada.Post(agents, demo("a")).Want(http.StatusCreated)
		items := object{"items": []any{object{"name": "k", "description": "mine"}}}
		s.ada.Put(agents+"/a/knowledge", items, "If-Match", "1").Want(http.StatusOK)
		require.Equal(t, items["items"], s.bob.Get(agents + "/a/knowledge").Want(http.StatusOK)["items"])
		faults(t, s.ada.Put(agents+"/a/mcps", object{"items": []any{"none"}}), "items[0]")
		faults(t, s.ada.Put(agents+"/a/tools", object{}), "items")
		s.ada.Put(agents+"/a/tools", object{"items": []any{"Read"}}, "If-Match", "1").Error(http.StatusPreconditionFailed, "precondition_failed")
		require.Equal(t, object{"agents": []any{"a"}}, s.ada.Delete(knowledge+"/k").Error(http.StatusConflict, "in_use")["data"])
		s.ada.Put(agents+"/a/knowledge", object{"items": []any{}}).Want(http.StatusOK)
		s.ada.Delete(knowledge + "/k").Want(http.StatusNoContent)
		faults(t, s.ada.Post(knowledge, object{"name": "K", "datasetId": " "}), "name", "datasetId")
	})
}

// A read does not wait for a change of the database in progress.
func TestReadsDoNotWaitForChanges(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		s.ada.Post(agents, demo("a")).Want(http.StatusCreated)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, s.db.Tx(t.Context(), func(*sql.Tx) error {
			list, err := s.EnabledAgents(ctx, s.bob.Caller, api.Page{Number: 1, Size: 10})
			require.NoError(t, err)
			require.Len(t, list.Items, 1)
			return nil
		}))
		require.NoError(t, ctx.Err())
	})
}

// A hash does not confirm a guess of what the caller does not see, and another tenant has another
// one. It is the same after a restart, and in a database of an earlier version.
func TestTheContentHashIsKeyed(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		hash := func(c *apitest.Client) any { return c.Get("/api/v1/agents/a").Want(http.StatusOK)["contentHash"] }
		listed := func(c *apitest.Client) any {
			return c.Get(manifest).Want(http.StatusOK)["agents"].([]any)[0].(object)["contentHash"]
		}
		agentWith := func(prompt string) object {
			return demo("a", "systemPrompt", prompt, "subagents", object{"r": object{"description": "d", "prompt": prompt}}, "access", object{"users": []string{prompt}, "everyone": true})
		}
		made := s.ada.Post(agents, agentWith("one")).Want(http.StatusCreated)
		s.eve.Post(agents, agentWith("one")).Want(http.StatusCreated)
		require.Equal(t, made["contentHash"], hash(s.ada))
		require.NotEqual(t, hash(s.ada), hash(s.eve))
		seen, tag := hash(s.bob), s.bob.Get(manifest).Header.Get("ETag")
		require.NotEqual(t, hash(s.ada), seen)
		require.Equal(t, seen, listed(s.bob))
		require.Equal(t, hash(s.ada), listed(s.ada))
		s.ada.Put(agents+"/a", agentWith("two")).Want(http.StatusOK)
		require.Equal(t, seen, hash(s.bob))
		require.Equal(t, tag, s.bob.Get(manifest).Header.Get("ETag"))
		require.NotEqual(t, made["contentHash"], hash(s.ada))

		again, err := catalog.New(s.cfg)
		require.NoError(t, err)
		a, err := again.EnabledAgent(t.Context(), s.bob.Caller, "a")
		require.NoError(t, err)
		require.Equal(t, seen, a.ContentHash)

		s.exec(t, `UPDATE catalog_heads SET hash_key = '', version = version + 1`)
		fresh := hash(s.bob)
		require.NotEqual(t, seen, fresh)
		s.exec(t, `UPDATE catalog_heads SET version = version + 1`)
		require.Equal(t, fresh, hash(s.bob))
	})
}
