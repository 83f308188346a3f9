package hub_test

import (
	"database/sql"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub"
	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/deploytest"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
)

// write is a request that changes something, of the route with that path.
type write struct{ method, route, path, body string }

// harmless are the routes with a method that writes, but without a write of their own.
var harmless = map[string]string{
	"POST /api/v1/admin/aigc/verify":                                       "it reads keys",
	"POST /api/v1/admin/runs/:id/cancel":                                   "there is no answer in progress: chat.TestRunsAreListedAndCancelled",
	"POST /api/v1/agents/:name/chat/sessions/:id/cancel":                   "it is a conflict without an answer: TestAccessEndsForStreams",
	"POST /api/v1/agents/:name/chat/sessions/:id/messages/:message/cancel": "it is a conflict after the answer: chat.TestCancelOfAnAnswer",
	"POST /api/v1/admin/chat/sessions/:id/messages/:message/cancel":        "it is a conflict after the answer: chat.TestAdministratorsFollowAnswers",
}

// allWrites returns a request for each route that writes, in an order in which all succeed.
func (o *org) allWrites(t *testing.T) []write {
	t.Helper()
	const name, id = "/:name", "/:id"
	made := func(path, body string) string { return o.made("POST", path, body)["id"].(string) }
	cho, bobs := made(users, userBody("cho", "member")), o.join(o.admin, "maintainer", "bob")
	bob := o.send("GET", "/auth/userinfo", bobs, "").want(200)["id"].(string)
	bobsToken := o.send("POST", issue, bobs, `{"name":"ci"}`).want(201)["id"].(string)
	invite, token := made(invites, `{"role":"member"}`), made(issue, `{"name":"spare"}`)
	const provider = `{"name":"spare","protocol":"openai","baseUrl":"https://models.example.com","apiKey":"key-spare"}`
	spare, old := made(providers, provider), made(providers, strings.Replace(provider, "spare", "old", 1))
	const tool, skill = "export default {name: 'spare', description: 'd', call() {}}", "---\nname: spare\ndescription: d\n---\ntext\n"
	const agent, scene = `"providerId":"demo","model":"demo"`, `"agentName":"same","title":"t","description":"d","prompt":"p"`
	const mcp, item = `"transport":"http","url":"https://mcp.example.com"`, `"datasetId":"d","title":"t","description":"d"`
	o.made("POST", tools, form("spare.ts", tool))
	o.made("POST", skills, form("SKILL.md", skill))
	for path, fields := range map[string]string{agents: agent, scenes: scene, mcps: mcp, knowledge: item} {
		o.made("POST", path, `{"name":"spare",`+fields+`}`)
	}
	const chats, deployment = "/api/v1/agents/:name/chat/sessions", agents + name + "/deploy"
	myChats, myDeployment := strings.Replace(chats, name, "/same", 1), strings.Replace(deployment, name, "/same", 1)
	chat, oldChat, wait := made(myChats, ""), made(myChats, ""), o.asks(o.admin, o.member)
	own := o.call("POST", "/auth/login", "", `{"username":"admin","password":"`+password+`"}`).want(200)["access_token"].(string)
	session := ""
	for _, item := range o.send("GET", "/auth/sessions", own, "").want(200)["items"].([]any) {
		if item := item.(map[string]any); item["current"] == true {
			session = item["id"].(string)
		}
	}
	return []write{
		{"POST", users, users, userBody("dot", "member")},
		{"PATCH", users + id, users + "/" + cho, `{"displayName":"Cho"}`},
		{"POST", users + id + "/reset-password", users + "/" + cho + "/reset-password", ""},
		{"DELETE", users + id + "/tokens/:tokenId", users + "/" + bob + "/tokens/" + bobsToken, ""},
		{"DELETE", users + id + "/sessions", users + "/" + bob + "/sessions", ""},
		{"DELETE", users + id, users + "/" + cho, ""},
		{"POST", invites, invites, `{"role":"member"}`},
		{"DELETE", invites + id, invites + "/" + invite, ""},
		{"POST", issue, issue, `{"name":"new"}`},
		{"DELETE", tokens + id, tokens + "/" + token, ""},
		{"POST", providers, providers, strings.Replace(provider, "spare", "new", 1)},
		{"PUT", providers + id, providers + "/" + spare, strings.Replace(provider, "key-spare", "key-changed", 1)},
		{"PUT", providers + id + "/key", providers + "/anthropic/key", `{"apiKey":"key"}`},
		{"POST", providers + id + "/reveal-key", providers + "/" + spare + "/reveal-key", ""},
		{"DELETE", providers + id + "/key", providers + "/" + spare + "/key", ""},
		{"POST", providers + id + "/probe", providers + "/demo/probe", ""},
		{"POST", providers + "/probe", providers + "/probe", `{"protocol":"openai","baseUrl":"http://127.0.0.1:1","apiKey":"k"}`},
		{"DELETE", providers + id, providers + "/" + old, ""},
		{"POST", tools, tools, form("new.ts", strings.Replace(tool, "spare", "new", 1))},
		{"PUT", tools + name, tools + "/spare", `{"title":"changed"}`},
		{"PUT", tools + name + "/file", tools + "/spare/file", form("spare.ts", strings.Replace(tool, "'d'", "'changed'", 1))},
		{"DELETE", tools + name, tools + "/spare", ""},
		{"POST", skills, skills, form("SKILL.md", strings.Replace(skill, "spare", "new", 1))},
		{"PUT", skills + name, skills + "/spare", `{"title":"changed"}`},
		{"PUT", skills + name + "/file", skills + "/spare/file", form("SKILL.md", strings.Replace(skill, "text", "changed", 1))},
		{"DELETE", skills + name, skills + "/spare", ""},
		{"POST", scenes, scenes, `{"name":"new",` + scene + `}`},
		{"PUT", scenes + name, scenes + "/spare", `{` + strings.Replace(scene, `"t"`, `"changed"`, 1) + `}`},
		{"DELETE", scenes + name, scenes + "/spare", ""},
		{"POST", mcps, mcps, `{"name":"new",` + mcp + `}`},
		{"PUT", mcps + name, mcps + "/spare", `{"title":"changed",` + mcp + `}`},
		{"DELETE", mcps + name, mcps + "/spare", ""},
		{"POST", knowledge, knowledge, `{"name":"new",` + item + `}`},
		{"PUT", knowledge + name, knowledge + "/spare", `{` + strings.Replace(item, `"t"`, `"changed"`, 1) + `}`},
		{"DELETE", knowledge + name, knowledge + "/spare", ""},
		{"POST", agents, agents, `{"name":"new",` + agent + `}`},
		{"POST", agents + "/import", agents + "/import", "agents:\n- id: imported\n  model: demo\n  provider: {protocol: demo}\n"},
		{"PUT", agents + name, agents + "/same", `{"title":"changed",` + agent + `}`},
		{"PUT", agents + name + "/tools", agents + "/same/tools", `{"items":["same"]}`},
		{"PUT", agents + name + "/skills", agents + "/same/skills", `{"items":["same"]}`},
		{"PUT", agents + name + "/mcps", agents + "/same/mcps", `{"items":["same"]}`},
		{"PUT", agents + name + "/knowledge", agents + "/same/knowledge", `{"items":[]}`},
		{"DELETE", agents + name, agents + "/spare", ""},
		{"POST", chats, myChats, `{"title":"new"}`},
		{"POST", chats + id + "/messages", myChats + "/" + chat + "/messages", `{"message":"hello"}`},
		{"POST", "/api/v1/agents/:name/chat/uploads", "/api/v1/agents/same/chat/uploads", "{}"},
		{"DELETE", chats + id, myChats + "/" + oldChat, ""},
		{"POST", waits + id, waits + "/" + wait, `{"decision":"approve"}`},
		{"DELETE", allChats + id, allChats + "/" + chat, ""},
		{"POST", pushChats, pushChats, pushed("new", "same", "me")},
		{"POST", deployment, myDeployment, ""},
		{"POST", deployment + "/stop", myDeployment + "/stop", ""},
		{"POST", deployment + "/start", myDeployment + "/start", ""},
		{"POST", deployment + "/rotate-key", myDeployment + "/rotate-key", ""},
		{"POST", deployment + "/rollback", myDeployment + "/rollback", `{"revision":1}`},
		{"DELETE", deployment, myDeployment, ""},
		{"PUT", "/api/v1/admin/aigc/config", "/api/v1/admin/aigc/config", `{"enabled":true,"companyName":"changed","contentProducer":"00119144030071526726XG10000","signing":{"enabled":true}}`},
		{"POST", "/api/v1/admin/aigc/config/rotate-key", "/api/v1/admin/aigc/config/rotate-key", ""},
		{"DELETE", "/api/v1/admin/aigc/config", "/api/v1/admin/aigc/config", ""},
		{"PUT", "/api/v1/admin/budgets/:kind/:name", "/api/v1/admin/budgets/agent/same", `{"period":"day","unit":"cost","hard":1}`},
		{"DELETE", "/api/v1/admin/budgets/:kind/:name", "/api/v1/admin/budgets/agent/same", ""},
		{"POST", "/auth/sessions", "/auth/sessions", `{"code_challenge":"` + strings.Repeat("A", 43) + `"}`},
		{"DELETE", "/auth/sessions/:id", "/auth/sessions/" + session, ""},
		{"POST", "/auth/change-password", "/auth/change-password", `{"old_password":"` + password + `","new_password":"another ` + password + `"}`},
	}
}

// do sends the request.
func (o *org) do(w write, token string) response {
	o.t.Helper()
	if strings.HasSuffix(w.path, "/import") {
		return o.send(w.method, w.path, token, w.body, "Content-Type", yamlType)
	}
	return o.send(w.method, w.path, token, w.body)
}

// stored returns what the requests of users change, but for the audit log.
func stored(t *testing.T, d *db.DB) (all []string) {
	t.Helper()
	for _, query := range []string{
		"SELECT 'user', username, role || status || display_name || password_hash FROM members",
		"SELECT 'invite', id, CAST(revoked_at AS TEXT) FROM invites", "SELECT 'token', id, CAST(revoked_at AS TEXT) FROM cli_tokens",
		"SELECT 'session', id, CAST(revoked_at AS TEXT) FROM sessions", "SELECT 'refresh', session_id, CAST(rotated_at AS TEXT) FROM refresh_tokens",
		"SELECT 'provider', id, CAST(updated_at AS TEXT) FROM providers", "SELECT 'aigc', tenant_id, config FROM aigc_configs", "SELECT 'aigc', tenant_id, kid FROM aigc_keys",
		"SELECT 'agent', name, CAST(version AS TEXT) FROM agents", "SELECT 'bound', agent_id || kind, name FROM agent_bindings",
		"SELECT 'tool', name, hash || CAST(version AS TEXT) FROM tools", "SELECT 'skill', name, hash || CAST(version AS TEXT) FROM skills",
		"SELECT 'scene', name, CAST(version AS TEXT) FROM scenes", "SELECT 'mcp', name, CAST(version AS TEXT) FROM mcps", "SELECT 'knowledge', name, CAST(version AS TEXT) FROM knowledge",
		"SELECT 'budget', name, CAST(hard AS TEXT) FROM usage_budgets",
		"SELECT 'chat', id, CAST(message_count AS TEXT) FROM chat_sessions", "SELECT 'message', id, role FROM chat_messages", "SELECT 'file', id, session_key FROM chat_files", "SELECT 'wait', id, answer FROM chat_waits", "SELECT 'deployment', key, desired || CAST(edition AS TEXT) FROM deployments",
	} {
		rows, err := db.Collect(t.Context(), d.Read(), query, func(row db.Scanner) (text string, err error) {
			var kind, name string
			var value sql.NullString
			err = row.Scan(&kind, &name, &value)
			return fmt.Sprint(kind, " ", name, " ", value.String), err
		}, query)
		require.NoError(t, err)
		all = append(all, rows...)
	}
	slices.Sort(all)
	return all
}

// Another replica ends the access of a caller that this one has cached, and whose state it would
// accept forever: its clock is fixed. Each route that writes is called after each kind of end.
func TestAWriteIsAuthorizedWhenItIsCommitted(t *testing.T) {
	t.Parallel()
	url := sqlite(t)
	var stands atomic.Pointer[time.Time]
	driver := &deploytest.Memory{Serve: func(req deploy.Request) (http.Handler, error) { return runtimeWithFile(t, req) }}
	t.Cleanup(driver.Close)
	s := open(t, url, func(cfg *hub.Config) {
		cfg.Deployer = driver
		cfg.Now = func() time.Time {
			if at := stands.Load(); at != nil {
				return *at
			}
			return time.Now()
		}
	})
	o := &org{server: s, name: "default", admin: s.setUp()}
	o.member = s.join(o.admin, "member", "meg")
	eve := s.join(o.admin, "admin", "eve")
	o.fill()
	me := o.send("GET", "/auth/userinfo", o.admin, "").want(200)["id"].(string)
	cli := o.made("POST", issue, `{"name":"mine"}`)["token"].(string)
	writes := o.allWrites(t)
	for _, route := range s.Routes() {
		name := route.Method + " " + route.Path
		if route.Method != http.MethodGet && route.Access != api.Open && !route.Prefix && harmless[name] == "" {
			require.True(t, slices.ContainsFunc(writes, func(w write) bool { return w.method+" "+w.route == name }), "%s has no request", name)
		}
	}
	replica := dbtest.Open(t, url)
	now := time.Now()
	stands.Store(&now)
	entries := func() int { // but for denied permissions
		return int(s.call("GET", "/api/v1/admin/audit-logs", eve, "").want(200)["total"].(float64)) - s.denials(eve)
	}
	before, recorded := stored(t, replica), entries()
	for _, end := range []struct{ name, change, undo, token string }{
		{"disabled", "UPDATE members SET status = 'disabled' WHERE id = $1", "UPDATE members SET status = 'active' WHERE id = $1", o.admin},
		{"disabled, with a CLI token", "UPDATE members SET status = 'disabled' WHERE id = $1", "UPDATE members SET status = 'active' WHERE id = $1", cli},
		{"signed out", "UPDATE sessions SET revoked_at = 1 WHERE user_id = $1", "UPDATE sessions SET revoked_at = NULL WHERE user_id = $1", o.admin},
		{"token revoked", "UPDATE cli_tokens SET revoked_at = 1 WHERE user_id = $1", "UPDATE cli_tokens SET revoked_at = NULL WHERE user_id = $1", cli},
		{"demoted", "UPDATE members SET role = 'member' WHERE id = $1", "UPDATE members SET role = 'admin' WHERE id = $1", o.admin},
	} {
		exec := func(query string) {
			_, err := replica.Write().ExecContext(t.Context(), query, me)
			require.NoError(t, err)
		}
		for i, w := range writes {
			if i%50 == 0 { // denied permissions are limited by the minute
				later := stands.Load().Add(61 * time.Second)
				stands.Store(&later)
			}
			if end.name == "demoted" && (strings.HasPrefix(w.route, "/auth/") || strings.Contains(w.route, "/chat/")) {
				continue // members may do so
			}
			s.call("GET", "/auth/userinfo", end.token, "").want(200) // is cached
			exec(end.change)
			res := o.do(w, end.token)
			exec(end.undo)
			require.Contains(t, []int{401, 403}, res.status, "%s: %s %s: %s", end.name, w.method, w.path, res.text)
			require.NotContains(t, res.text, "key-spare")
		}
		require.Equal(t, before, stored(t, replica), end.name)
		require.Equal(t, recorded, entries(), end.name)
	}
	stands.Store(nil)
	for _, w := range writes {
		res := o.do(w, o.admin)
		require.Less(t, res.status, 300, "%s %s: %s", w.method, w.path, res.text)
	}
}
