package hub_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/api/apitest"
	"github.com/seed93082962/agenthost/hub/db/dbtest"
	"github.com/seed93082962/agenthost/hub/deploy/deploytest"
	"github.com/seed93082962/agenthost/rbac"
)

// ownObjects are the routes with parameters that are 204 for what does not exist, and the reason.
var ownObjects = map[string]string{
	"DELETE /api/v1/ops/tenant-clients/:org": "it is idempotent",
}

// bodies are the valid bodies of routes with parameters, by the end of their path.
var bodies = map[string]string{
	"/agents/:name": `{"providerId":"demo","model":"demo"}`, "/tools/:name": `{}`, "/skills/:name": `{}`, "/scenes/:name": `{"agentName":"shared"}`,
	"/mcps/:name": `{"transport":"http","url":"https://mcp.example.com"}`, "/knowledge/:name": `{"datasetId":"d"}`,
	"/agents/:name/tools": `{"items":[]}`, "/agents/:name/skills": `{"items":[]}`, "/agents/:name/mcps": `{"items":[]}`, "/agents/:name/knowledge": `{"items":[]}`,
	"/providers/:id": `{"name":"Mine","protocol":"openai"}`, "/chat/sessions/:id/messages": `{"message":"hello"}`,
}

// populate creates an object of each kind, and returns the ids by the path before them.
func (s *server) populate(admin string) map[string]string {
	s.t.Helper()
	create := func(path, body string) string {
		id, _ := s.call("POST", path, admin, body).want(http.StatusCreated)["id"].(string)
		return id
	}
	upload := func(path, file, content string) {
		req, err := http.NewRequestWithContext(s.t.Context(), "POST", s.url+path, strings.NewReader(form(file, content)))
		require.NoError(s.t, err)
		req.Header.Set("Authorization", "Bearer "+admin)
		req.Header.Set("Content-Type", formType)
		res, err := s.client.Do(req)
		require.NoError(s.t, err)
		require.NoError(s.t, res.Body.Close())
		require.Equal(s.t, http.StatusCreated, res.StatusCode, path)
	}
	upload(tools, "shared.ts", "export default {name: 'shared', description: 'd', call() {}}")
	upload(skills, "SKILL.md", "---\nname: shared\ndescription: d\n---\n")
	create(mcps, `{"name":"shared","transport":"http","url":"https://mcp.example.com"}`)
	create(knowledge, `{"name":"shared","datasetId":"d"}`)
	create(agents, `{"name":"shared","providerId":"demo","model":"demo","tools":["shared"],"skills":["shared"],"mcps":["shared"],"knowledge":["shared"]}`)
	create(scenes, `{"name":"shared","agentName":"shared"}`)
	chat := create("/api/v1/agents/shared/chat/sessions", `{"title":"Mine"}`)
	user := create(users, userBody("uma", "maintainer"))
	session := s.call("POST", "/auth/login", "", `{"username":"uma","password":"`+password+`"}`).want(http.StatusOK)["access_token"].(string)
	token := s.call("POST", issue, session, `{"name":"ci"}`).want(http.StatusCreated)["id"].(string)
	mine := s.call("GET", "/auth/sessions", session, "").want(http.StatusOK)["items"].([]any)[0].(map[string]any)["id"].(string)
	return map[string]string{
		"/auth/sessions/": mine, users + "/": user, invites + "/": create(invites, `{"role":"member"}`), "/api/v1/cli/tokens/": token,
		"/api/v1/admin/providers/": create(providers, `{"name":"Mine","protocol":"openai","apiKey":"sk-1234"}`), "/chat/sessions/": chat, ":tokenId": token,
	}
}

// Every route with parameters is called with the ids and names of another tenant, by an
// administrator.
func TestObjectsOfAnotherTenantAreNotFound(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, url string) {
		deployer := &deploytest.Memory{}
		t.Cleanup(deployer.Close)
		s := open(t, url, func(cfg *hub.Config) { cfg.Deployer = deployer })
		admin := s.setUp()
		ids := s.populate(admin)
		for _, row := range []string{
			`INSERT INTO tenants (id, created_at) VALUES ('other', 1)`,
			`INSERT INTO members (id, tenant_id, username, username_fold, display_name, role, status, auth_source, created_at, updated_at)
				VALUES ('id-eve', 'other', 'eve', 'eve', 'Eve', 'admin', 'active', 'local', 1, 1)`,
			`INSERT INTO sessions (id, tenant_id, user_id, created_at, last_used_at, idle_until, expires_at, remote_ip, network, user_agent)
				VALUES ('session-eve', 'other', 'id-eve', 1, 1, 9000000000000000, 9000000000000000, '', '', '')`,
		} {
			_, err := dbtest.Open(t, url).Write().ExecContext(t.Context(), row)
			require.NoError(t, err)
		}
		ids["/api/v1/providers/"] = ids["/api/v1/admin/providers/"]
		eve := apitest.Serve(t, apitest.Config{}, s.Routes()).As("other", "eve", rbac.Admin)
		walked := 0
		for _, route := range s.Routes() {
			name := route.Method + " " + route.Path
			if !strings.Contains(route.Path, "/:") || route.Access == api.Open || ownObjects[name] != "" {
				continue
			}
			path := strings.NewReplacer(":name", "shared", ":tokenId", ids[":tokenId"]).Replace(route.Path)
			for before, id := range ids {
				path = strings.Replace(path, before+":id", before+id, 1)
			}
			require.NotContains(t, path, ":", "there is no object for %s", name)
			body, kind := `{}`, "application/json"
			for end, valid := range bodies {
				if strings.HasSuffix(route.Path, end) {
					body = valid
				}
			}
			if strings.HasSuffix(path, "/file") {
				body, kind = form("shared.ts", "export default {name: 'shared', description: 'd', call() {}}"), formType
				if strings.HasPrefix(path, skills) {
					body = form("SKILL.md", "---\nname: shared\ndescription: d\n---\n")
				}
			}
			if route.Method == http.MethodGet || route.Method == http.MethodDelete {
				body = ""
			}
			r := eve.Do(route.Method, path, strings.NewReader(body), "Content-Type", kind)
			require.Equal(t, http.StatusNotFound, r.Status, "%s %s", name, r.Text)
			walked++
		}
		require.Greater(t, walked, 60)
		for _, path := range []string{agents, skills, scenes, mcps, knowledge, "/api/v1/agents", "/api/v1/skills", "/api/v1/scenes", "/api/v1/admin/chat/sessions", invites} {
			require.Empty(t, eve.Get(path).Items(), path)
		}
		for _, field := range []string{"tools", "skills", "mcps", "knowledge"} {
			r := eve.Post(agents, apitest.Object{"name": "mine", "providerId": "demo", "model": "m", field: []string{"shared"}})
			require.Contains(t, r.Error(http.StatusBadRequest, api.ValidationFailed)["data"].(apitest.Object)["fields"], field+"[0]")
		}
		eve.Post(agents, apitest.Object{"name": "mine", "providerId": ids["/api/v1/providers/"], "model": "m"}).Error(http.StatusBadRequest, api.ValidationFailed)
		for _, path := range []string{agents, tools, skills, scenes, mcps, knowledge} { // nothing was changed
			require.NotEmpty(t, s.call("GET", path+"/shared", admin, "").want(http.StatusOK))
		}
		require.Equal(t, http.StatusOK, s.call("GET", providers+"/"+ids["/api/v1/providers/"], admin, "").status)
	})
}
