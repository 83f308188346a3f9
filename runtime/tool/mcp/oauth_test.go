package mcp_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/tool"
)

// protected serves tools to callers with a token of an authorization server, which it names.
func protected(t *testing.T, issuer func(self string) string) *httptest.Server {
	tools := streamable(toolServer())
	var server *httptest.Server
	server = web(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/.well-known/oauth-protected-resource/mcp":
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(map[string]any{"resource": server.URL + "/mcp", "authorization_servers": []string{issuer(server.URL)}})
		case r.Header.Get("Authorization") != "Bearer token-1":
			w.Header().Set("WWW-Authenticate", "Bearer resource_metadata="+server.URL+"/.well-known/oauth-protected-resource/mcp")
			w.WriteHeader(http.StatusUnauthorized)
		default:
			tools.ServeHTTP(w, r)
		}
	}))
	return server
}

// issuer is an authorization server for one client. It counts the requests.
func issuer(t *testing.T, count *atomic.Int64) *httptest.Server {
	var server *httptest.Server
	server = web(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		count.Add(1)
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/.well-known/oauth-authorization-server":
			fmt.Fprintf(w, `{"issuer":%q,"token_endpoint":%q,"authorization_endpoint":%q,"response_types_supported":["code"],`+
				`"code_challenge_methods_supported":["S256"],"token_endpoint_auth_methods_supported":["client_secret_basic"]}`,
				server.URL, server.URL+"/token", server.URL+"/authorize")
		case "/token":
			if id, secret, _ := r.BasicAuth(); id != "hosts" || secret != "s3cret-of-hosts" || r.FormValue("grant_type") != "client_credentials" {
				w.WriteHeader(http.StatusUnauthorized)
				fmt.Fprint(w, `{"error":"invalid_client"}`)
				return
			}
			fmt.Fprint(w, `{"access_token":"token-1","token_type":"Bearer","expires_in":3600}`)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	return server
}

func TestTokenOfClientCredentials(t *testing.T) {
	var count atomic.Int64
	login := issuer(t, &count)
	def := overHTTP(protected(t, func(string) string { return login.URL }).URL + "/mcp")
	def.OAuth = agent.OAuth{ClientID: "hosts", ClientSecret: "s3cret-of-hosts", Issuer: login.URL}
	s := newWorld(t).open(def)
	require.Equal(t, tool.Result{Output: "a"}, call(t, find(t, s, "echo"), `{"text":"a"}`))

	def.OAuth.ClientSecret = "wrong-secret"
	w := newWorld(t)
	_, err := w.open(def).Tools(t.Context())
	require.ErrorContains(t, err, "invalid_client")
	require.NotContains(t, err.Error()+w.log.String(), "wrong-secret")
}

// A server cannot send the secret to another authorization server than the configured one, nor make
// the runtime send requests there.
func TestSecretIsSentOnlyToTheIssuer(t *testing.T) {
	var count atomic.Int64
	evil := issuer(t, &count)
	for name, row := range map[string]struct{ configured, named string }{
		"no issuer":      {"", evil.URL},
		"another issuer": {"https://login.example", evil.URL},
		"a letter whose lower case is that of the issuer": {"https://login.example", "https://log\u0130n.example"},
		"the same, escaped": {"https://login.example", "https://log%C4%B0n.example"},
	} {
		t.Run(name, func(t *testing.T) {
			def := overHTTP(protected(t, func(string) string { return row.named }).URL + "/mcp")
			def.OAuth = agent.OAuth{ClientID: "hosts", ClientSecret: "s3cret-of-hosts", Issuer: row.configured}
			w := newWorld(t)
			_, err := w.open(def).Tools(t.Context())
			require.ErrorContains(t, err, "another origin than that of the configured url or of the issuer of oauth")
			require.Zero(t, count.Load())
			require.NotContains(t, err.Error()+w.log.String(), "s3cret-of-hosts")
		})
	}
}

// tenant is an authorization server that publishes no PKCE: its issuer has a path, and judge
// returns the error for a request for a token, or "".
func tenant(t *testing.T, endpoint string, judge func(url.Values) string) *httptest.Server {
	var server *httptest.Server
	server = web(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/tenant/v2.0/.well-known/openid-configuration":
			fmt.Fprintf(w, `{"issuer":%q,"token_endpoint":%q,"token_endpoint_auth_methods_supported":["client_secret_post"]}`,
				server.URL+"/tenant/v2.0", cmp.Or(endpoint, server.URL)+"/oauth2/token")
		case "/oauth2/token":
			fault := "invalid_client"
			if r.ParseForm() == nil && r.PostForm.Get("client_secret") == "s3cret-of-hosts" {
				fault = judge(r.PostForm)
			}
			if fault != "" {
				w.WriteHeader(http.StatusBadRequest)
				fmt.Fprintf(w, `{"error":%q}`, fault)
				return
			}
			fmt.Fprint(w, `{"access_token":"token-1","token_type":"Bearer","expires_in":3600}`)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	return server
}

func TestClientCredentialsNeedNoPKCE(t *testing.T) {
	type judge = func(form url.Values, resource string) string
	need := func(name, value string) judge {
		return func(form url.Values, _ string) string {
			if form.Get(name) != value {
				return "invalid_request"
			}
			return ""
		}
	}
	for name, row := range map[string]struct {
		oauth agent.OAuth
		judge judge
		far   bool // the token endpoint has another origin
		fault string
	}{
		"the resource is sent": {judge: func(form url.Values, resource string) string { return need("resource", resource)(form, "") }},
		"the resource is rejected": {oauth: agent.OAuth{Scope: "api://tools/.default"}, judge: func(form url.Values, _ string) string {
			if form.Has("resource") {
				return "invalid_target"
			}
			return need("scope", "api://tools/.default")(form, "")
		}},
		"two scopes":         {oauth: agent.OAuth{Scope: "tools/read  tools/write"}, judge: need("scope", "tools/read tools/write")},
		"no scope":           {judge: need("scope", "")},
		"an audience":        {oauth: agent.OAuth{Audience: "https://tools.example"}, judge: need("audience", "https://tools.example")},
		"another origin":     {judge: need("grant_type", "client_credentials"), far: true},
		"a scope that fails": {oauth: agent.OAuth{Scope: "other"}, judge: need("scope", "tools"), fault: "invalid_request"},
	} {
		t.Run(name, func(t *testing.T) {
			var resource string
			check := func(form url.Values) string { return row.judge(form, resource) }
			login := tenant(t, "", check)
			if row.far {
				login = tenant(t, login.URL, check)
			}
			server := protected(t, func(string) string { return login.URL + "/tenant/v2.0" })
			resource = server.URL + "/mcp"
			def := overHTTP(resource)
			def.OAuth = row.oauth
			def.OAuth.ClientID, def.OAuth.ClientSecret, def.OAuth.Issuer = "hosts", "s3cret-of-hosts", login.URL+"/tenant/v2.0"
			w := newWorld(t)
			s := w.open(def)
			if row.fault != "" {
				_, err := s.Tools(t.Context())
				require.ErrorContains(t, err, row.fault)
				require.NotContains(t, err.Error()+w.log.String(), "s3cret-of-hosts")
				return
			}
			require.Equal(t, tool.Result{Output: "a"}, call(t, find(t, s, "echo"), `{"text":"a"}`))
		})
	}
}

// Another tenant of the configured origin does not get the secret.
func TestIssuerIsComparedAsAWhole(t *testing.T) {
	login := tenant(t, "", func(url.Values) string { return "" })
	def := overHTTP(protected(t, func(string) string { return login.URL + "/tenant/v2.0" }).URL + "/mcp")
	def.OAuth = agent.OAuth{ClientID: "hosts", ClientSecret: "s3cret-of-hosts", Issuer: login.URL + "/other/v2.0"}
	_, err := newWorld(t).open(def).Tools(t.Context())
	require.ErrorContains(t, err, "is not the issuer of oauth")
}
