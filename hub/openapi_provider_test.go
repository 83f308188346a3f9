package hub_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
)

const providers = "/api/v1/admin/providers"

// modelServer serves a list of models.
func (c *contract) modelServer() string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"data":[{"id":"m1","display_name":"Model 1"},{"id":"m2"}]}`)
	}))
	c.t.Cleanup(server.Close)
	return server.URL
}

func (c *contract) providers(admin string) {
	const public = "/api/v1/providers"
	address := c.modelServer()
	with := func(fields string) string {
		return c.override(`{"name":"Gateway","protocol":"openai","baseUrl":"`+address+`","apiKey":"sk-1234"}`, fields)
	}
	c.faulty("POST", providers, admin, `{}`, with(`,"name":" "`), with(`,"protocol":"demo"`), with(`,"authStyle":"basic"`), with(`,"baseUrl":"ftp://a"`),
		with(`,"apiKey":"a b"`), with(`,"models":[{"id":""}]`), with(`,"models":[{"id":"m","contextWindow":-1}]`), with(`,"name":"a\nb"`))
	c.reject(400, wire.InvalidRequest, "POST", providers, admin, with(`,"apiKey":1`))
	const models = `,"models":[{"id":"m1","displayName":"Model 1","contextWindow":1000,"maxOutput":100},{"id":"m2"}]`
	made := c.ok(201, "POST", providers, admin, with(models+`,"enabled":true,"later":[]`))
	path := providers + "/" + made["id"].(string)
	other := providers + "/" + c.ok(201, "POST", providers, admin, `{"name":"Other","protocol":"anthropic","authStyle":null,"baseUrl":null,"apiKey":null,"models":null,"enabled":null}`)["id"].(string)
	c.reject(409, wire.NameTaken, "POST", providers, admin, with(`,"name":"GATEWAY"`))
	for _, list := range []string{providers, public, public + "/runtime-config"} {
		c.unpaged(list, admin)
		require.Len(c.t, c.ok(200, "GET", list+"?q=gate", admin, "")["items"], 1)
		c.reject(400, wire.InvalidRequest, "GET", list+"?q="+strings.Repeat("q", 201), admin, "")
	}
	for _, one := range []string{path, public + "/" + made["id"].(string), providers + "/demo", public + "/openai"} {
		c.ok(200, "GET", one, admin, "")
	}
	c.send("PUT", path, admin, with(models), "If-Match", `"1"`).want(200)
	full := strings.Replace(with(`,"apiKeyHeader":"api-key","authStyle":"api_key","headers":{"X-Team":"h-1234"},"body":{"user":"u-1234","safe":true,"n":null},"streamUsage":false`),
		address, address+"?api-version=1", 1)
	rich := providers + "/" + c.ok(201, "POST", providers, admin, strings.Replace(full, "Gateway", "Rich", 1))["id"].(string)
	for _, read := range []string{rich, public + strings.TrimPrefix(rich, providers), providers, public, public + "/runtime-config"} {
		c.ok(200, "GET", read, admin, "")
	}
	c.ok(200, "PUT", rich+"/key", admin, `{"apiKey":"k-2"}`)
	c.ok(200, "POST", providers+"/probe", admin, full)
	c.ok(200, "PUT", rich, admin, strings.Replace(strings.Replace(full, "Gateway", "Rich", 1), "h-1234", "h-5678", 1))
	c.faulty("PUT", rich, admin, with(`,"apiKeyHeader":"a b"`), with(`,"baseUrl":"https://a.example?ü=1"`))
	c.reject(412, wire.PreconditionFailed, "DELETE", rich, admin, "", "If-Match", "99")
	c.ok(204, "DELETE", rich, admin, "")
	c.send("PUT", path, admin, with(models+`,"apiKey":null,"authStyle":"none"`), "If-Match", `1`).want(200)
	c.reject(412, wire.PreconditionFailed, "PUT", path, admin, with(models), "If-Match", `"1"`)
	c.reject(404, wire.NotFound, "POST", path+"/reveal-key", admin, "")
	c.ok(200, "PUT", path, admin, with(models))
	c.ok(200, "POST", path+"/reveal-key", admin, "")
	key := `{"apiKey":"k"}`
	for _, one := range []string{providers + "/anthropic", path} {
		c.ok(200, "PUT", one+"/key", admin, key)
		c.ok(200, "GET", one, admin, "")
		c.faulty("PUT", one+"/key", admin, `{"apiKey":""}`, `{"apiKey":"a b"}`)
		c.ok(204, "DELETE", one+"/key", admin, "")
	}
	for method, body := range map[string]string{"PUT": key, "DELETE": ""} {
		c.reject(403, code.BuiltinReadonly, method, providers+"/demo/key", admin, body)
		c.reject(404, wire.NotFound, method, providers+"/"+unknownID+"/key", admin, body)
	}
	c.faulty("PUT", path, admin, `{}`, with(`,"protocol":""`))
	c.reject(409, wire.NameTaken, "PUT", other, admin, with(""))
	for _, method := range []string{"PUT", "DELETE"} {
		body := map[string]string{"PUT": with("")}[method]
		c.reject(403, code.BuiltinReadonly, method, providers+"/demo", admin, body)
		c.reject(404, wire.NotFound, method, providers+"/"+unknownID, admin, body)
	}
	for _, missing := range []string{providers + "/" + unknownID, public + "/" + unknownID} {
		c.reject(404, wire.NotFound, "GET", missing, admin, "")
	}
	c.reject(404, wire.NotFound, "POST", providers+"/"+unknownID+"/probe", admin, "")

	require.Equal(c.t, true, c.ok(200, "POST", path+"/probe", admin, "")["ok"])
	require.Equal(c.t, true, c.ok(200, "POST", providers+"/demo/probe", admin, "")["ok"])
	const probe = providers + "/probe"
	require.Equal(c.t, true, c.ok(200, "POST", probe, admin, `{"protocol":"anthropic","baseUrl":"`+address+`","apiKey":"sk-1234","authStyle":"bearer"}`)["ok"])
	denied := `{"name":"Metadata","protocol":"openai","baseUrl":"http://169.254.169.254"}`
	require.Equal(c.t, "address_denied", c.ok(200, "POST", probe, admin, denied)["errorCode"])
	c.ok(200, "PUT", other, admin, denied)
	require.Equal(c.t, "address_denied", c.ok(200, "POST", other+"/probe", admin, "")["errorCode"])
	c.faulty("POST", probe, admin, `{}`, `{"protocol":"openai","baseUrl":"llm.example.com"}`)
	c.ok(204, "DELETE", other, admin, "")
}
