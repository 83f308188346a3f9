package provider_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/rbac"
)

func TestProviders(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		body := gateway(object{"name": " Gateway ", "baseUrl": "HTTPS://LLM.example.com:443/v1/", "models": []object{
			{"id": "m1", "displayName": "Model 1", "contextWindow": 1000, "maxOutput": 100}, {"id": "m2"},
		}, "later": 1})
		res := s.acme.Post(admin, body)
		made := res.Want(http.StatusCreated)
		id := made["id"].(string)
		want := object{
			"id": id, "name": "Gateway", "protocol": "openai", "authStyle": "bearer", "baseUrl": "https://llm.example.com/v1",
			"maskedKey": "sk-p...wxyz", "hasKey": true, "keyState": "ready", "shared": false, "enabled": true, "version": 1.0,
			"models":    []any{object{"id": "m1", "displayName": "Model 1", "contextWindow": 1000.0, "maxOutput": 100.0}, object{"id": "m2"}},
			"createdAt": "2026-03-01T12:00:00.123456Z", "updatedAt": "2026-03-01T12:00:00.123456Z",
		}
		require.Equal(t, want, made)
		require.Equal(t, `"1"`, res.Header.Get("ETag"))
		member := s.As("acme", "max", rbac.Member)
		for _, path := range []string{admin, public} {
			res := member.Get(path + "/" + id)
			require.Equal(t, want, res.Want(http.StatusOK))
			require.Equal(t, `"1"`, res.Header.Get("ETag"))
			require.Equal(t, []string{"Anthropic", "OpenAI", "Demo", "Gateway"}, names(member.Get(path).Items()))
			require.Equal(t, want, member.Get(path).Items()[3])
		}

		res = s.acme.Put(admin+"/"+id, object{"name": "Local", "protocol": "anthropic", "baseUrl": "http://10.0.0.1:8000", "enabled": false, "apiKey": plantedKey}, "If-Match", `"1"`)
		after := res.Want(http.StatusOK)
		require.Equal(t, `"2"`, res.Header.Get("ETag"))
		require.Equal(t, []any{"Local", "anthropic", "api_key", "http://10.0.0.1:8000", "sk-p...wxyz", false, 2.0, []any{}},
			[]any{after["name"], after["protocol"], after["authStyle"], after["baseUrl"], after["maskedKey"], after["enabled"], after["version"], after["models"]})
		s.acme.Put(admin+"/"+id, gateway(nil), "If-Match", "1").Error(http.StatusPreconditionFailed, wire.PreconditionFailed)
		again := s.acme.Put(admin+"/"+id, object{"name": "Local", "protocol": "anthropic", "baseUrl": "http://10.0.0.1:8000/", "enabled": false}).Want(http.StatusOK)
		require.Equal(t, after, again, "nothing changed")

		s.acme.Delete(admin + "/" + id).Want(http.StatusNoContent)
		s.acme.Delete(admin+"/"+id).Error(http.StatusNotFound, wire.NotFound)
		s.acme.Get(admin+"/"+id).Error(http.StatusNotFound, wire.NotFound)
		require.Equal(t, []string{
			`provider.create Gateway {"protocol":"openai","authStyle":"bearer","baseUrl":"https://llm.example.com/v1","models":["m1","m2"],"enabled":true,"hasKey":true}`,
			`provider.update Local {"name":{"from":"Gateway","to":"Local"},"protocol":{"from":"openai","to":"anthropic"},"authStyle":{"from":"bearer","to":"api_key"},` +
				`"baseUrl":{"from":"https://llm.example.com/v1","to":"http://10.0.0.1:8000"},"models":{"from":["m1","m2"],"to":[]},"enabled":{"from":true,"to":false}}`,
			`provider.delete Local {"protocol":"anthropic","baseUrl":"http://10.0.0.1:8000"}`,
		}, s.Audit("acme"))
	})
}

func TestKeysOfProviders(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		id := create(s.acme, gateway(nil))
		reveal := func() any {
			return s.acme.Post(admin+"/"+id+"/reveal-key", nil).Want(http.StatusOK)["apiKey"]
		}
		put := func(key any) object {
			return s.acme.Put(admin+"/"+id, gateway(object{"apiKey": key})).Want(http.StatusOK)
		}
		absent := gateway(nil)
		delete(absent, "apiKey")
		require.Equal(t, plantedKey, reveal())
		s.acme.Put(admin+"/"+id, absent).Want(http.StatusOK)
		require.Equal(t, plantedKey, reveal(), "an absent key stays")
		put("")
		require.Equal(t, plantedKey, reveal(), "an empty key stays")
		require.Equal(t, "****", put("short")["maskedKey"])
		require.Equal(t, "short", reveal())
		require.Equal(t, "****", put("short-" + strings.Repeat("0", 17))["maskedKey"])
		require.Equal(t, "shor...0000", put("short-" + strings.Repeat("0", 18))["maskedKey"])
		removed := put(nil)
		require.Equal(t, []any{"", false, "missing"}, []any{removed["maskedKey"], removed["hasKey"], removed["keyState"]})
		s.acme.Post(admin+"/"+id+"/reveal-key", nil).Error(http.StatusNotFound, wire.NotFound)
		none := s.acme.Put(admin+"/"+id, gateway(object{"apiKey": nil, "authStyle": "none"})).Want(http.StatusOK)
		require.Equal(t, "not_required", none["keyState"])
		put(plantedKey)
		var actions []string
		for _, entry := range s.Audit("acme")[1:] {
			actions = append(actions, strings.TrimPrefix(entry, "provider."))
		}
		require.Equal(t, []string{
			"reveal_key Gateway", "reveal_key Gateway", "reveal_key Gateway", `update Gateway {"apiKey":"replaced"}`, "reveal_key Gateway",
			`update Gateway {"apiKey":"replaced"}`, `update Gateway {"apiKey":"replaced"}`, `update Gateway {"apiKey":"removed"}`,
			`update Gateway {"authStyle":{"from":"bearer","to":"none"}}`, `update Gateway {"authStyle":{"from":"none","to":"bearer"},"apiKey":"added"}`,
		}, actions)
	})
}

func TestBuiltinProvidersAreReadOnly(t *testing.T) {
	s := onSQLite(t, nil)
	for _, id := range []string{"anthropic", "openai", "demo"} {
		seed := s.acme.Get(public + "/" + id).Want(http.StatusOK)
		require.Equal(t, []any{true, false, "", true}, []any{seed["shared"], seed["hasKey"], seed["maskedKey"], seed["enabled"]})
		require.NotContains(t, seed, "createdAt")
		s.acme.Put(admin+"/"+id, gateway(nil)).Error(http.StatusForbidden, code.BuiltinReadonly)
		s.acme.Delete(admin+"/"+id).Error(http.StatusForbidden, code.BuiltinReadonly)
		s.acme.Post(admin+"/"+id+"/reveal-key", nil).Error(http.StatusNotFound, wire.NotFound)
	}
	require.Equal(t, "not_required", s.acme.Get(public + "/demo").Want(http.StatusOK)["keyState"])
	require.Equal(t, "missing", s.acme.Get(public + "/openai").Want(http.StatusOK)["keyState"])
	require.Empty(t, s.Audit("acme"))
}

func TestProviderNamesAreUnique(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		create(s.acme, gateway(nil))
		create(s.beta, gateway(nil))
		s.acme.Post(admin, gateway(object{"name": "GATEWAY"})).Error(http.StatusConflict, wire.NameTaken)
		other := create(s.acme, gateway(object{"name": "Ähre"}))
		s.acme.Put(admin+"/"+other, gateway(object{"name": "gateway"})).Error(http.StatusConflict, wire.NameTaken)
		s.acme.Post(admin, gateway(object{"name": "äHRE"})).Error(http.StatusConflict, wire.NameTaken)
	})
}

func TestProviderLists(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		for i := range 7 {
			create(s.acme, gateway(object{"name": fmt.Sprintf("Provider %d", 6-i), "enabled": i != 0}))
		}
		create(s.acme, gateway(object{"name": `100%_\ Ä`}))
		create(s.beta, gateway(object{"name": "Provider of beta"}))
		var all []string
		for page := 1; page < 7; page++ {
			res := s.acme.Get(fmt.Sprintf("%s?page_size=2&page=%d", public, page))
			require.EqualValues(t, 11, res.Want(http.StatusOK)["total"])
			all = append(all, names(res.Items())...)
		}
		require.Equal(t, []string{
			"Anthropic", "OpenAI", "Demo", `100%_\ Ä`, "Provider 0", "Provider 1", "Provider 2", "Provider 3", "Provider 4", "Provider 5", "Provider 6",
		}, all)
		for q, want := range map[string][]string{
			"vider%203": {"Provider 3"}, "PROVIDER%205": {"Provider 5"}, "%25": {`100%_\ Ä`}, "_": {`100%_\ Ä`}, "%5C": {`100%_\ Ä`}, "%C3%A4": {`100%_\ Ä`},
			"open": {"OpenAI"}, "AN": {"Anthropic"}, "%27": nil, "Provider__": nil,
		} {
			require.Equal(t, want, names(s.acme.Get(admin+"?q="+q).Items()), q)
		}
		config := s.acme.Get(public + "/runtime-config?page_size=100")
		require.EqualValues(t, 10, config.Want(http.StatusOK)["total"])
		require.NotContains(t, names(config.Items()), "Provider 6", "it is disabled")
		require.Equal(t, object{
			"id": config.Items()[4]["id"], "name": "Provider 0", "protocol": "openai", "authStyle": "bearer", "baseUrl": "https://llm.example.com/v1",
			"maskedKey": "sk-p...wxyz", "hasKey": true, "keyState": "ready", "shared": false, "models": []any{}, "enabled": true,
			"version": 1.0, "createdAt": "2026-03-01T12:00:00.123456Z", "updatedAt": "2026-03-01T12:00:00.123456Z",
		}, config.Items()[4])
		s.acme.Get(public+"?page=0").Error(http.StatusBadRequest, wire.InvalidRequest)
		s.acme.Get(public+"/runtime-config?page=0").Error(http.StatusBadRequest, wire.InvalidRequest)
	})
}

func TestProvidersOfAnotherTenant(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		id := create(s.acme, gateway(nil))
		path := admin + "/" + id
		s.beta.Get(path).Error(http.StatusNotFound, wire.NotFound)
		s.beta.Get(public+"/"+id).Error(http.StatusNotFound, wire.NotFound)
		s.beta.Put(path, gateway(nil)).Error(http.StatusNotFound, wire.NotFound)
		s.beta.Delete(path).Error(http.StatusNotFound, wire.NotFound)
		s.beta.Post(path+"/reveal-key", nil).Error(http.StatusNotFound, wire.NotFound)
		s.beta.Post(path+"/probe", nil).Error(http.StatusNotFound, wire.NotFound)
		require.Len(t, s.beta.Get(admin).Items(), 3)
		require.Empty(t, s.Audit("beta"))
		require.Equal(t, plantedKey, s.acme.Post(path+"/reveal-key", nil).Want(http.StatusOK)["apiKey"])
	})
}

func TestMembersOnlyReadProviders(t *testing.T) {
	s := onSQLite(t, nil)
	id := create(s.acme, gateway(nil))
	member := s.As("acme", "max", rbac.Member)
	for _, res := range []func() int{
		func() int { return member.Post(admin, gateway(nil)).Status },
		func() int { return member.Put(admin+"/"+id, gateway(nil)).Status },
		func() int { return member.Delete(admin + "/" + id).Status },
		func() int { return member.Post(admin+"/"+id+"/reveal-key", nil).Status },
		func() int { return member.Post(admin+"/"+id+"/probe", nil).Status },
		func() int { return member.Post(admin+"/probe", gateway(nil)).Status },
	} {
		require.Equal(t, http.StatusForbidden, res())
	}
	// Without HTTP, the service authorizes too.
	ctx := t.Context()
	_, err := s.service.RevealKey(ctx, member.Caller, id)
	require.ErrorContains(t, err, "member")
	require.ErrorContains(t, s.service.DeleteProvider(ctx, member.Caller, id, nil), "member")
	_, err = s.service.Providers(ctx, api.Caller{TenantID: "acme"}, api.Page{Number: 1, Size: 1})
	require.Error(t, err)
}

func TestProviderFaults(t *testing.T) {
	s := onSQLite(t, nil)
	for name, row := range map[string]struct {
		change object
		field  string
	}{
		"no name":                 {object{"name": " "}, "name"},
		"a long name":             {object{"name": strings.Repeat("n", 129)}, "name"},
		"no protocol":             {object{"protocol": ""}, "protocol"},
		"the demo protocol":       {object{"protocol": "demo"}, "protocol"},
		"another authentication":  {object{"authStyle": "basic"}, "authStyle"},
		"a key with a space":      {object{"apiKey": "a b"}, "apiKey"},
		"a key with a line break": {object{"apiKey": "a\r\nHost: b"}, "apiKey"},
		"a long key":              {object{"apiKey": strings.Repeat("k", 4097)}, "apiKey"},
		"a model without an id":   {object{"models": []object{{"displayName": "m"}}}, "models[0].id"},
		"a model twice":           {object{"models": []object{{"id": "m"}, {"id": "m"}}}, "models[1].id"},
		"a negative window":       {object{"models": []object{{"id": "m", "contextWindow": -1}}}, "models[0].contextWindow"},
		"a large output":          {object{"models": []object{{"id": "m", "maxOutput": 1<<30 + 1}}}, "models[0].maxOutput"},
		"many models":             {object{"models": make([]object, 201)}, "models"},
	} {
		fault := s.acme.Post(admin, gateway(row.change)).Error(http.StatusBadRequest, wire.ValidationFailed)
		require.Contains(t, fault["data"].(object)["fields"], row.field, name)
	}
	for _, url := range []string{
		"llm.example.com", "ftp://llm.example.com", "https://ap\u0130.example.com", "https://ap%C4%B0.example.com", "https://\u212A.example.com", "https://", "https://a b", "https://user@llm.example.com", "https://u:p@llm.example.com", "https://llm.example.com?x=\u00fc",
		"https://llm.example.com?", "https://llm.example.com#f", "https://llm.example.com:0", "https://llm.example.com:65536", "https://llm.example.com:", "https://:443",
		"http://2130706433", "http://0x7f000001", "http://0x7f.0.0.1", "http://0177.0.0.1", "http://127.1", "http://1.2.3.4.5", "http://[::1%25lo]", "http://[::1",
		"https://-a.example.com", "https://bücher.example", "https://a..b", "https:opaque", "/v1", "https://" + strings.Repeat("a", 64) + ".example", "https://a.example/" + strings.Repeat("p", 2048),
	} {
		fault := s.acme.Post(admin, gateway(object{"baseUrl": url})).Error(http.StatusBadRequest, wire.ValidationFailed)
		require.Contains(t, fault["data"].(object)["fields"], "baseUrl", url)
	}
	res := s.acme.Post(admin, gateway(object{"apiKey": []string{plantedKey}}))
	require.Equal(t, object{"fields": object{"apiKey": "must be a string or null"}}, res.Error(http.StatusBadRequest, wire.InvalidRequest)["data"])
	require.NotContains(t, res.Text, plantedKey)
	s.acme.Put(admin+"/"+"0198c0de-0000-7000-8000-000000000000", gateway(nil)).Error(http.StatusNotFound, wire.NotFound)
	require.Empty(t, s.Audit("acme"))

	for from, to := range map[string]string{
		"": "https://api.openai.com/v1", "http://[2001:DB8:0::1]:80/": "http://[2001:db8::1]", "http://192.0.2.1:8080//": "http://192.0.2.1:8080",
		"https://LLM.example.com./a%2Fb/": "https://llm.example.com./a%2Fb", "http://localhost:11434/v1": "http://localhost:11434/v1",
	} {
		made := s.acme.Post(admin, gateway(object{"name": "at " + to, "baseUrl": from})).Want(http.StatusCreated)
		require.Equal(t, to, made["baseUrl"])
	}
}

// The audit entry of a change has a maximum size, and JSON encodes these characters with six bytes.
func TestLongestModelsCanBeReplaced(t *testing.T) {
	s := onSQLite(t, nil)
	models := func(end string) (all []object) {
		for i := range 200 {
			all = append(all, object{"id": strings.Repeat("<", 120) + strconv.Itoa(i) + end})
		}
		return all
	}
	p := s.acme.Post(admin, object{"name": "p", "protocol": "openai", "models": models("a")}).Want(http.StatusCreated)
	s.acme.Put(admin+"/"+p["id"].(string), object{"name": "p", "protocol": "openai", "models": models("b")}).Want(http.StatusOK)
}
