package provider_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/provider"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// everySetting returns the body of a provider with every setting of the runtime. The secrets begin
// with "planted".
func everySetting(t *testing.T) object {
	t.Helper()
	body := object{
		"protocol": "openai", "baseUrl": "https://llm.example.com/v1?api-version=planted-query&x=planted%20x", "apiKey": plantedKey, "authStyle": "api_key",
		"apiKeyHeader": "api-key", "headers": object{"x-portkey-provider": "planted-header", "X-Empty": ""},
		"body":        object{"safe_prompt": true, "depth": 3, "nothing": nil, "user": "planted-user", "list": []any{"planted-list", 1.5, object{"a": "planted-a"}}},
		"streamUsage": false,
	}
	for field := range reflect.TypeFor[agent.Provider]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		require.Contains(t, body, name, "a new setting needs a value here")
	}
	body["name"] = "Gateway"
	return body
}

func TestEverySettingOfTheRuntimeIsStored(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		body := everySetting(t)
		made := s.acme.Post(admin, body).Want(http.StatusCreated)
		id := made["id"].(string)
		masked := object{
			"protocol": "openai", "baseUrl": "https://llm.example.com/v1?api-version=***&x=***", "authStyle": "api_key", "apiKeyHeader": "Api-Key",
			"headers": object{"X-Portkey-Provider": "***", "X-Empty": "***"}, "streamUsage": false,
			"body": object{"safe_prompt": true, "depth": 3.0, "nothing": nil, "user": "***", "list": []any{"***", 1.5, object{"a": "***"}}},
		}
		reads := []object{made, s.acme.Get(admin + "/" + id).Want(http.StatusOK), s.acme.Get(public + "/" + id).Want(http.StatusOK)}
		reads = append(reads, s.acme.Get(admin).Items()[3], s.acme.Get(public + "/runtime-config").Items()[3])
		for _, read := range reads {
			for name, want := range masked {
				require.Equal(t, want, read[name], name)
			}
			require.Equal(t, "ready", read["keyState"])
		}
		opened := func() agent.Provider {
			_, open, err := s.service.Open(t.Context(), s.db.Read(), "acme", id)
			require.NoError(t, err)
			return open
		}
		var want agent.Provider
		require.NoError(t, agent.DecodeForm(jsonOf(t, body), &want))
		want.APIKeyHeader, want.Headers = "Api-Key", map[string]agent.Secret{"X-Portkey-Provider": "planted-header", "X-Empty": ""}
		require.Equal(t, want, opened())

		// A response can be sent back, and *** is the stored value.
		path := admin + "/" + id
		require.EqualValues(t, 1, s.acme.Put(path, made).Want(http.StatusOK)["version"])
		require.Equal(t, want, opened())
		changed := s.acme.Get(path).Want(http.StatusOK)
		changed["headers"] = object{"X-Portkey-Provider": "planted-new", "X-More": "planted-more"}
		changed["body"].(object)["depth"] = 4
		delete(changed, "streamUsage")
		require.EqualValues(t, 2, s.acme.Put(path, changed).Want(http.StatusOK)["version"])
		want.Headers = map[string]agent.Secret{"X-Portkey-Provider": "planted-new", "X-More": "planted-more"}
		want.Body["depth"], want.StreamUsage = 4.0, nil
		require.Equal(t, want, opened())
		fault := s.acme.Put(path, with(changed, "headers", object{"X-Unknown": "***"})).Error(http.StatusBadRequest, wire.ValidationFailed)
		require.Contains(t, fault["data"].(object)["fields"], "headers.X-Unknown")

		// Secrets are in no row and in no entry of the audit log, which has the names.
		var row, log string
		require.NoError(t, s.db.Read().QueryRowContext(t.Context(), `SELECT base_url FROM providers`).Scan(&row))
		require.Equal(t, "https://llm.example.com/v1", row)
		var sealed []byte
		require.NoError(t, s.db.Read().QueryRowContext(t.Context(), `SELECT settings_enc FROM providers`).Scan(&sealed))
		log = strings.Join(s.Audit("acme"), "\n")
		require.NotContains(t, string(sealed)+log+s.Log.String(), "planted")
		for _, part := range []string{
			`"settings":["apiKeyHeader: Api-Key","baseUrl: ?api-version=***\u0026x=***","body.depth: 3"`, `"values":["headers.X-Portkey-Provider"]`, `"headers.X-More: ***"`,
		} {
			require.Contains(t, log, part)
		}
		n, err := s.store.Reseal(t.Context(), provider.Sealed()...)
		require.NoError(t, err)
		require.Zero(t, n)
	})
}

// Settings that the runtime rejects are rejected when they are saved, all at once.
func TestFaultsOfSettings(t *testing.T) {
	s := onSQLite(t, nil)
	fields := func(body object, code wire.Code) (names []string) {
		for name := range s.acme.Post(admin, body).Error(http.StatusBadRequest, code)["data"].(object)["fields"].(object) {
			names = append(names, name)
		}
		return names
	}
	require.ElementsMatch(t, []string{"name", "headers.Host", "headers.a b", "headers.X", "headers.X-Twice", "body.messages", "body.stream", "apiKeyHeader", "baseUrl"}, fields(object{
		"protocol": "openai", "baseUrl": "https://u@a.example", "apiKeyHeader": "a b",
		"headers": object{"host": "x", "a b": "x", "x": "a\nb", "x-twice": "a", "X-TWICE": "b"}, "body": object{"messages": 1, "stream": false, "top_k": 1},
	}, wire.ValidationFailed))
	require.ElementsMatch(t, []string{"apiKeyHeader", "streamUsage", "body.system"}, fields(object{
		"name": "a", "protocol": "anthropic", "apiKeyHeader": "x", "authStyle": "bearer", "streamUsage": true, "body": object{"system": "x"},
	}, wire.ValidationFailed))
	require.ElementsMatch(t, []string{"name", "headers", "streamUsage", "models", "protocol", "apiKey"}, fields(object{
		"name": 1, "headers": "x", "streamUsage": "no", "models": object{}, "apiKey": 1,
	}, wire.InvalidRequest))
	require.Equal(t, []string{"headers"}, fields(gateway(object{"headers": object{"X": strings.Repeat("x", 65<<10)}}), wire.ValidationFailed))
	s.acme.Post(admin, []any{}).Error(http.StatusBadRequest, wire.InvalidRequest)
}

// A probe sends what a run sends.
func TestAProbeSendsTheSettings(t *testing.T) {
	s := onSQLite(t, nil)
	var sent atomic.Value
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		sent.Store(fmt.Sprint(r.URL, " ", r.Header.Get("Api-Key"), " ", r.Header.Get("X-Portkey-Provider"), " ", r.Header.Get("Authorization")))
		reply(200, `{"data":[{"id":"m"},{"id":"planted-header"}]}`)(w, r)
	})
	body := with(everySetting(t), "baseUrl", server.URL+"/v1?api-version=1")
	id := create(s.acme, body)
	for _, result := range []object{s.acme.Post(admin+"/"+id+"/probe", nil).Want(http.StatusOK), s.acme.Post(admin+"/probe", body).Want(http.StatusOK)} {
		require.Equal(t, true, result["ok"], result)
		require.Equal(t, []any{object{"id": "m"}}, result["models"])
		require.Equal(t, "/v1/models?api-version=1 "+plantedKey+" planted-header ", sent.Load())
	}
}

// A file that is imported names a provider with its settings, not only its address.
func TestMatchComparesSettings(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		body := everySetting(t)
		create(s.acme, gateway(object{"name": "plain"}))
		create(s.acme, with(body, "name", "full"))
		match := func(change func(*agent.Provider)) (string, []string) {
			var want agent.Provider
			require.NoError(t, agent.DecodeForm(jsonOf(t, body), &want))
			change(&want)
			faults := api.Fields{}
			p, err := s.service.Match(t.Context(), "acme", "", want, faults)
			require.NoError(t, err)
			var fields []string
			for name := range faults {
				fields = append(fields, name)
			}
			return p.Name, fields
		}
		for name, row := range map[string]struct {
			change func(*agent.Provider)
			want   string
			faults []string
		}{
			"the same": {func(*agent.Provider) {}, "full", nil},
			"without settings": {func(p *agent.Provider) {
				*p = agent.Provider{Protocol: "openai", BaseURL: "https://llm.example.com/v1"}
			}, "plain", nil},
			"another key": {func(p *agent.Provider) { p.APIKey = "${KEY}" }, "full", nil},
			"variables": {func(p *agent.Provider) {
				p.Headers["x-portkey-provider"] = "${A}"
				p.BaseURL = "https://llm.example.com/v1?api-version=${B}&x=${C}"
			}, "full", nil},
			"another header":      {func(p *agent.Provider) { p.Headers["x-portkey-provider"] = "other" }, "full", []string{"headers.X-Portkey-Provider"}},
			"a further variable":  {func(p *agent.Provider) { p.Headers["X-More"] = "${A}" }, "full", []string{"headers.X-More"}},
			"another body":        {func(p *agent.Provider) { p.Body["depth"] = 4 }, "full", []string{"body.depth"}},
			"another query":       {func(p *agent.Provider) { p.BaseURL += "&y=1" }, "full", []string{"baseUrl"}},
			"another header name": {func(p *agent.Provider) { p.APIKeyHeader = "x-key" }, "full", []string{"apiKeyHeader"}},
		} {
			got, faults := match(row.change)
			require.Equal(t, row.want, got, name)
			require.ElementsMatch(t, row.faults, faults, name)
		}
	})
}

// JSON of a provider has no secret, also if it is logged.
func TestAProviderIsEncodedWithoutSecrets(t *testing.T) {
	s := onSQLite(t, nil)
	id := create(s.acme, everySetting(t))
	view, masked, err := s.service.Get(t.Context(), s.db.Read(), "acme", id)
	require.NoError(t, err)
	text, err := json.Marshal([]any{view, masked})
	require.NoError(t, err)
	require.NotContains(t, string(text)+fmt.Sprintf("%+v", view), "planted")
}

func jsonOf(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return text
}

// with returns the fields of a body, one of them replaced.
func with(body object, name string, value any) object {
	body = maps.Clone(body)
	body[name] = value
	return body
}

// Each part of a body has an identity of its own: *** is its value, and a change of only the
// structure is stored.
func TestTheStructureOfABodyIsStored(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		made := s.acme.Post(admin, with(everySetting(t), "body", object{"seed": 1})).Want(http.StatusCreated)
		id := made["id"].(string)
		path := admin + "/" + id
		put := func(body object) map[string]any {
			made["body"] = body
			s.acme.Put(path, made).Want(http.StatusOK)
			_, open, err := s.service.Open(t.Context(), s.db.Read(), "acme", id)
			require.NoError(t, err)
			return open.Body
		}
		version := 1
		for _, body := range []object{
			{"seed": []any{1.0}}, {"seed": []any{[]any{1.0}}}, {"a": object{"b": 1.0}}, {"a.b": 1.0},
			{"stop": "planted"}, {"stop": []any{"planted-2"}}, {"stop": object{"": "planted-3"}}, {"stop": []any{[]any{"planted-4"}}},
			{"l": []any{[]any{1.0}, 2.0}}, {"l": []any{1.0, []any{2.0}}}, {"n": "true"}, {"n": true},
			{"a": object{"b": object{"c": "planted-5"}}, "a.b": object{"c": "planted-6"}},
		} {
			require.EqualValues(t, body, put(body))
			version++
			require.EqualValues(t, version, s.acme.Get(path).Want(http.StatusOK)["version"], body)
		}
		for range 20 { // maps have no order
			require.EqualValues(t, object{"a": object{"b": object{"c": "planted-5"}}, "a.b": object{"c": "planted-6"}},
				put(object{"a": object{"b": object{"c": "***"}}, "a.b": object{"c": "***"}}))
		}
		require.EqualValues(t, version, s.acme.Get(path).Want(http.StatusOK)["version"])
		made["body"] = object{"a": object{"b.c": "***"}}
		s.acme.Put(path, made).Error(http.StatusBadRequest, wire.ValidationFailed)
		require.NotContains(t, strings.Join(s.Audit("acme"), "\n"), "planted")
	})
}
