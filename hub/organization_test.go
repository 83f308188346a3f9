package hub_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub"
	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/deploytest"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/secret"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// A customer leaves, and another one gets the name of the organization. Nothing that the former one
// has gives access to the data of the new one.
func TestTheNameOfADeletedOrganization(t *testing.T) {
	t.Parallel()
	database := sqlite(t)
	driver := &deploytest.Memory{}
	t.Cleanup(driver.Close)
	s := open(t, database, func(cfg *hub.Config) {
		cfg.External, cfg.OpsKey, cfg.ChatPushKey, cfg.Deployer = true, opsKey, pushKey, driver
		cfg.BootstrapAdmins = []string{"acme/sub:ada"}
	})
	o := &org{server: s, name: "acme"}
	register := func(name, issuer, more string) response {
		return o.send("POST", tenantClients, "", `{"org":"`+name+`","clientId":"hub-`+name+`","clientSecret":"s","issuer":"`+issuer+`"`+more+`}`, "X-Ops-Key", opsKey)
	}
	former, next := newIssuer(t), newIssuer(t)
	require.Equal(t, http.StatusCreated, register("other", former.URL, "").status)
	require.Equal(t, http.StatusCreated, register("acme", former.URL, "").status)
	o.admin = s.signIn(former, "acme", "ada")
	o.made("POST", agents, `{"name":"helper","providerId":"demo","model":"demo"}`)
	deployment := agents + "/helper/deploy"
	o.made("POST", deployment, "")
	state := func() map[string]any { return o.send("GET", deployment, o.admin, "").want(200) }
	require.Eventually(t, func() bool { return state()["state"] == "running" }, time.Minute, 20*time.Millisecond)
	key := state()["apiKey"].(string)
	cli := o.made("POST", issue, `{"name":"ci"}`)["token"].(string)
	const proxied = "/runtime/acme/helper/v1/agents"
	require.Equal(t, http.StatusOK, o.send("GET", proxied, "", "", "x-api-key", key).status)

	require.Equal(t, http.StatusNoContent, o.send("DELETE", tenantClients+"/acme", "", "", "X-Ops-Key", opsKey).status)
	gone := func() {
		t.Helper()
		for _, token := range []string{o.admin, cli} {
			for _, path := range []string{"/auth/userinfo", providers, agents, deployment, "/api/v1/providers/runtime-config"} {
				o.send("GET", path, token, "").wantError(401, string(wire.TokenRevoked))
			}
		}
		require.NotEqual(t, http.StatusOK, o.send("GET", proxied, "", "", "x-api-key", key).status)
	}
	gone()

	register("acme", next.URL, "").wantError(409, string(wire.Conflict))
	gone()
	require.Equal(t, http.StatusCreated, register("acme", next.URL, `,"adopt":true`).status)
	eve := s.signIn(next, "acme", "ada")
	o.send("GET", providers, eve, "").want(200)
	require.Equal(t, "member", o.send("GET", "/auth/userinfo", eve, "").want(200)["role"])
	require.NoError(t, s.RestoreAdmin(t.Context(), "acme/sub:ada"))
	owner := &org{server: s, name: "acme", admin: s.signIn(next, "acme", "ada")}
	owner.made("POST", providers, `{"name":"own","protocol":"openai","baseUrl":"https://model.example.com","apiKey":"key-of-the-new-customer"}`)
	owner.made("POST", deployment+"/start", "")
	require.Eventually(t, func() bool {
		return owner.send("GET", deployment, owner.admin, "").want(200)["state"] == "running"
	}, time.Minute, 20*time.Millisecond)
	gone()
	token, err := s.AdminToken(t.Context(), "acme/sub:ada")
	require.NoError(t, err)
	require.Equal(t, "admin", o.send("GET", "/auth/userinfo", token, "").want(200)["role"])
	_, err = s.AdminToken(t.Context(), "beta/ada")
	require.ErrorIs(t, err, wire.NotFound)
}

// A registration is not data. The first login of a user is.
func TestDataOfAnOrganization(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t), func(cfg *hub.Config) { cfg.External, cfg.OpsKey = true, opsKey })
	o := &org{server: s}
	register := func(name, issuer string) response {
		return o.send("POST", tenantClients, "", `{"org":"`+name+`","clientId":"hub-`+name+`","clientSecret":"s","issuer":"`+issuer+`"}`, "X-Ops-Key", opsKey)
	}
	one, two := newIssuer(t), newIssuer(t)
	register("first", one.URL)
	for _, p := range []*issuer{one, two, one} {
		require.Equal(t, http.StatusCreated, register("acme", p.URL).status)
		require.Equal(t, http.StatusNoContent, o.send("DELETE", tenantClients+"/acme", "", "", "X-Ops-Key", opsKey).status)
	}
	require.Equal(t, http.StatusCreated, register("acme", one.URL).status)
	require.Equal(t, http.StatusOK, register("acme", two.URL).status)
	s.signIn(two, "acme", "ada")
	register("acme", one.URL).wantError(409, string(wire.Conflict))
}

// The answers of an organization end when its client is deleted, in the hub of the request and in
// another one, and its late writes fail. Those of another organization continue.
func TestStreamsOfADeletedOrganization(t *testing.T) {
	t.Parallel()
	database := postgres(t)
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Stream(modeltest.Text("Half an answer"), modeltest.Hang())))
	driver := &deploytest.Memory{Serve: func(req deploy.Request) (http.Handler, error) {
		req.Config.Provider = agent.Provider{Protocol: agent.ProtocolAnthropic, BaseURL: agent.Secret(up.URL), APIKey: "k"}
		return runtimeWithFile(t, req)
	}}
	t.Cleanup(driver.Close)
	keys := []string{secret.Generate()}
	launch := func() *server {
		return open(t, database, func(cfg *hub.Config) {
			cfg.External, cfg.OpsKey, cfg.Deployer, cfg.EncryptionKeys = true, opsKey, driver, keys
			cfg.BootstrapAdmins = []string{"acme/sub:ada", "other/sub:ada"}
		})
	}
	s := launch()
	other := launch()
	p := newIssuer(t)
	o := &org{server: s}
	tokens := map[string]string{}
	for _, name := range []string{"other", "acme"} {
		in := `{"org":"` + name + `","clientId":"hub-` + name + `","clientSecret":"s","issuer":"` + p.URL + `"}`
		o.send("POST", tenantClients, "", in, "X-Ops-Key", opsKey).want(201)
		o.admin = s.signIn(p, name, "ada")
		tokens[name] = o.admin
		o.made("POST", agents, `{"name":"same","providerId":"demo","model":"demo"}`)
		o.made("POST", agents+"/same/deploy", "")
		require.Eventually(t, func() bool {
			return o.send("GET", agents+"/same/deploy", o.admin, "").want(200)["state"] == "running"
		}, time.Minute, 20*time.Millisecond)
	}
	const chats = "/api/v1/agents/same/chat/sessions"
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	stream := func(hub *server, token string) io.ReadCloser {
		chat := hub.call("POST", chats, token, "").want(201)["id"].(string)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, hub.url+chats+"/"+chat+"/messages", strings.NewReader(`{"message":"hello"}`))
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+token)
		res, err := hub.client.Do(req)
		require.NoError(t, err)
		t.Cleanup(func() { _ = res.Body.Close() })
		return res.Body
	}
	stays := stream(s, tokens["other"])
	ends := []io.Reader{stream(s, tokens["acme"]), stream(other, tokens["acme"])}
	up.Await(t, 3)
	const provider = `{"name":"late","protocol":"openai","baseUrl":"https://models.example.com","apiKey":"k"}`
	late := other.hold("POST", providers, tokens["acme"], "application/json", provider[:10])
	require.Equal(t, http.StatusNoContent, o.send("DELETE", tenantClients+"/acme", "", "", "X-Ops-Key", opsKey).status)
	_, _ = io.WriteString(late.body, provider[10:])
	_ = late.body.Close()
	require.Contains(t, []int{0, http.StatusUnauthorized}, (<-late.done).status)
	for i, end := range ends {
		text, err := io.ReadAll(end)
		require.NoError(t, err)
		require.Contains(t, string(text), "event: done")
		if i == 0 { // the runtime may stop before the other hub checks its requests
			require.Contains(t, string(text), "event: cancelled")
			require.Contains(t, string(text), `"reason":"client_request"`)
		}
	}
	require.NotContains(t, s.call("GET", providers, tokens["other"], "").text, "late")
	var n int
	require.NoError(t, dbtest.Open(t, database).Read().QueryRowContext(t.Context(), `SELECT COUNT(*) FROM providers WHERE name = 'late'`).Scan(&n))
	require.Zero(t, n)
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(io.Discard, stays)
	}()
	s.call("GET", "/auth/userinfo", tokens["other"], "").want(200)
	select {
	case <-read:
		t.Error("the stream of another organization has ended")
	default:
	}
}
