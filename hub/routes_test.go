package hub_test

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/rbac"
)

// access is the contract's table of routes and permissions. It must have exactly the routes of the
// hub.
const access = `
GET    /                                         anyone
GET    /console                                  anyone
GET    /console/:page                            anyone
GET    /console/:page/:item                      anyone
GET    /console/:page/:item/:part                anyone
GET    /console/assets/:version/:folder/:file    anyone
POST   /console/session                          anyone
DELETE /console/session                          anyone
POST   /console/session/refresh                  anyone
GET    /health                                   anyone
GET    /health/ready                             anyone
GET    /openapi.yaml                             anyone
GET    /openapi.json                             anyone
GET    /docs                                     anyone
*      /runtime                                  anyone
*      /openai/v1                                admin maintainer member
GET    /api/v1/agents/:name/detail               admin maintainer member
GET    /api/v1/admin/agents/:name/files          admin maintainer member
GET    /api/v1/admin/agents/:name/files/content  admin maintainer
GET    /.well-known/jwks.json                    anyone
GET    /artifacts/tools/:hash/:name              anyone
GET    /artifacts/skills/:hash/:name             anyone
GET    /auth/mode                                anyone
POST   /auth/setup                               anyone
POST   /auth/login                               anyone
GET    /auth/login                               anyone
POST   /auth/refresh                             anyone
POST   /auth/logout                              anyone
POST   /auth/register                            anyone
GET    /auth/invite/:token                       anyone
POST   /auth/change-password                     admin maintainer member
GET    /auth/userinfo                            admin maintainer member
GET    /auth/sessions                            admin maintainer member
POST   /auth/sessions                            admin maintainer member
DELETE /auth/sessions/:id                        admin maintainer member
GET    /api/v1/admin/users                       admin
POST   /api/v1/admin/users                       admin
GET    /api/v1/admin/users/:id                   admin
PATCH  /api/v1/admin/users/:id                   admin
DELETE /api/v1/admin/users/:id                   admin
POST   /api/v1/admin/users/:id/reset-password    admin
GET    /api/v1/admin/users/:id/sessions          admin
DELETE /api/v1/admin/users/:id/sessions          admin
GET    /api/v1/admin/users/:id/tokens            admin
DELETE /api/v1/admin/users/:id/tokens/:tokenId   admin
GET    /api/v1/admin/invites                     admin
POST   /api/v1/admin/invites                     admin
DELETE /api/v1/admin/invites/:id                 admin
POST   /api/v1/cli/issue-token                   admin maintainer
GET    /api/v1/cli/tokens                        admin maintainer
DELETE /api/v1/cli/tokens/:id                    admin maintainer
GET    /api/v1/providers                         admin maintainer member
GET    /api/v1/providers/runtime-config          admin maintainer member
GET    /api/v1/providers/:id                     admin maintainer member
GET    /api/v1/admin/providers                   admin maintainer member
POST   /api/v1/admin/providers                   admin maintainer
POST   /api/v1/admin/providers/probe             admin maintainer
GET    /api/v1/admin/providers/:id               admin maintainer member
PUT    /api/v1/admin/providers/:id               admin maintainer
DELETE /api/v1/admin/providers/:id               admin maintainer
PUT    /api/v1/admin/providers/:id/key           admin maintainer
DELETE /api/v1/admin/providers/:id/key           admin maintainer
POST   /api/v1/admin/providers/:id/reveal-key    admin maintainer
POST   /api/v1/admin/providers/:id/probe         admin maintainer
GET    /api/v1/agents                           admin maintainer member
GET    /api/v1/agents/manifest                  admin maintainer member
GET    /api/v1/agents/:name                     admin maintainer member
GET    /api/v1/admin/agents                     admin maintainer member
POST   /api/v1/admin/agents                     admin maintainer
POST   /api/v1/admin/agents/import              admin maintainer
GET    /api/v1/admin/agents/:name               admin maintainer member
PUT    /api/v1/admin/agents/:name               admin maintainer
DELETE /api/v1/admin/agents/:name               admin maintainer
GET    /api/v1/admin/agents/:name/export        admin maintainer
GET    /api/v1/admin/agents/:name/tools         admin maintainer member
PUT    /api/v1/admin/agents/:name/tools         admin maintainer
GET    /api/v1/admin/agents/:name/skills        admin maintainer member
PUT    /api/v1/admin/agents/:name/skills        admin maintainer
GET    /api/v1/admin/agents/:name/mcps          admin maintainer member
PUT    /api/v1/admin/agents/:name/mcps          admin maintainer
GET    /api/v1/admin/agents/:name/knowledge     admin maintainer member
PUT    /api/v1/admin/agents/:name/knowledge     admin maintainer
GET    /api/v1/admin/tools                      admin maintainer member
POST   /api/v1/admin/tools                      admin maintainer
GET    /api/v1/admin/tools/:name                admin maintainer member
PUT    /api/v1/admin/tools/:name                admin maintainer
DELETE /api/v1/admin/tools/:name                admin maintainer
PUT    /api/v1/admin/tools/:name/file           admin maintainer
GET    /api/v1/admin/tools/:name/download       admin maintainer member
GET    /api/v1/skills                           admin maintainer member
GET    /api/v1/skills/:name                     admin maintainer member
GET    /api/v1/skills/:name/download            admin maintainer member
GET    /api/v1/admin/skills                     admin maintainer member
POST   /api/v1/admin/skills                     admin maintainer
GET    /api/v1/admin/skills/:name               admin maintainer member
PUT    /api/v1/admin/skills/:name               admin maintainer
DELETE /api/v1/admin/skills/:name               admin maintainer
PUT    /api/v1/admin/skills/:name/file          admin maintainer
GET    /api/v1/scenes                           admin maintainer member
GET    /api/v1/scenes/:name                     admin maintainer member
GET    /api/v1/admin/scenes                     admin maintainer member
POST   /api/v1/admin/scenes                     admin maintainer
GET    /api/v1/admin/scenes/:name               admin maintainer member
PUT    /api/v1/admin/scenes/:name               admin maintainer
DELETE /api/v1/admin/scenes/:name               admin maintainer
GET    /api/v1/admin/mcps                       admin maintainer member
POST   /api/v1/admin/mcps                       admin maintainer
GET    /api/v1/admin/mcps/:name                 admin maintainer member
PUT    /api/v1/admin/mcps/:name                 admin maintainer
DELETE /api/v1/admin/mcps/:name                 admin maintainer
GET    /api/v1/admin/knowledge                  admin maintainer member
POST   /api/v1/admin/knowledge                  admin maintainer
GET    /api/v1/admin/knowledge/:name            admin maintainer member
PUT    /api/v1/admin/knowledge/:name            admin maintainer
DELETE /api/v1/admin/knowledge/:name            admin maintainer
GET    /api/v1/admin/aigc/config                 admin maintainer
PUT    /api/v1/admin/aigc/config                 admin maintainer
DELETE /api/v1/admin/aigc/config                 admin maintainer
POST   /api/v1/admin/aigc/config/rotate-key      admin maintainer
POST   /api/v1/admin/aigc/verify                 admin maintainer
GET    /api/v1/approvals                                 admin maintainer member
GET    /api/v1/approvals/:id                             admin maintainer member
POST   /api/v1/approvals/:id                             admin maintainer member
GET    /api/v1/agents/:name/chat/sessions                admin maintainer member
POST   /api/v1/agents/:name/chat/sessions                admin maintainer member
DELETE /api/v1/agents/:name/chat/sessions/:id            admin maintainer member
GET    /api/v1/agents/:name/chat/sessions/:id/messages   admin maintainer member
POST   /api/v1/agents/:name/chat/sessions/:id/messages   admin maintainer member
POST   /api/v1/agents/:name/chat/uploads                 admin maintainer member
GET    /api/v1/agents/:name/chat/sessions/:id/uploads/:upload admin maintainer member
GET    /api/v1/agents/:name/chat/sessions/:id/messages/:message/events admin maintainer member
POST   /api/v1/agents/:name/chat/sessions/:id/messages/:message/cancel admin maintainer member
POST   /api/v1/agents/:name/chat/sessions/:id/cancel     admin maintainer member
GET    /api/v1/agents/:name/chat/sessions/:id/transcript admin maintainer member
GET    /api/v1/admin/chat/sessions                       admin maintainer member
GET    /api/v1/admin/chat/sessions/:id                   admin maintainer member
DELETE /api/v1/admin/chat/sessions/:id                   admin maintainer member
GET    /api/v1/admin/chat/sessions/:id/messages          admin maintainer member
GET    /api/v1/admin/chat/sessions/:id/uploads/:upload   admin maintainer member
GET    /api/v1/admin/chat/sessions/:id/messages/:message/events admin maintainer member
POST   /api/v1/admin/chat/sessions/:id/messages/:message/cancel admin maintainer
GET    /api/v1/admin/chat/sessions/:id/transcript        admin maintainer member
GET    /api/v1/admin/runs                                admin maintainer
POST   /api/v1/admin/runs/:id/cancel                     admin maintainer
GET    /api/v1/admin/usage                               admin maintainer
GET    /api/v1/admin/usage/export                        admin maintainer
GET    /api/v1/admin/budgets                             admin maintainer
GET    /api/v1/admin/budgets/:kind/:name                 admin maintainer
PUT    /api/v1/admin/budgets/:kind/:name                 admin
DELETE /api/v1/admin/budgets/:kind/:name                 admin
POST   /api/v1/chat/push                                 admin maintainer member
GET    /api/v1/admin/agents/:name/deploy         admin maintainer member
POST   /api/v1/admin/agents/:name/deploy         admin maintainer
DELETE /api/v1/admin/agents/:name/deploy         admin maintainer
POST   /api/v1/admin/agents/:name/deploy/stop    admin maintainer
POST   /api/v1/admin/agents/:name/deploy/start   admin maintainer
POST   /api/v1/admin/agents/:name/deploy/rotate-key admin maintainer
POST   /api/v1/admin/agents/:name/deploy/rollback admin maintainer
GET    /api/v1/admin/agents/:name/deploy/revisions admin maintainer member
GET    /api/v1/admin/agents/:name/deploy/logs    admin maintainer
GET    /api/v1/admin/audit-logs                  admin
GET    /api/v1/admin/audit-logs/export           admin
GET    /api/v1/admin/audit-logs/verify           admin
GET    /api/v1/admin/settings                    admin
`

// rulesOf reads the table: method and path, and the roles, which are none where anyone may call.
func rulesOf(t *testing.T) map[string][]string {
	t.Helper()
	rules := map[string][]string{}
	for line := range strings.Lines(strings.TrimSpace(access)) {
		words := strings.Fields(line)
		require.Greater(t, len(words), 2, line)
		rules[words[0]+" "+words[1]] = words[2:]
	}
	return rules
}

func TestTheRouteTableMatchesTheContract(t *testing.T) {
	s, _ := started(t)
	rules := rulesOf(t)
	for _, route := range s.Routes() {
		name := cmp.Or(route.Method, "*") + " " + route.Path
		roles, ok := rules[name]
		require.True(t, ok, "%s is in no table", name)
		delete(rules, name)
		if route.Access == api.Open {
			require.Equal(t, []string{"anyone"}, roles, name)
			continue
		}
		for _, role := range []rbac.Role{rbac.Admin, rbac.Maintainer, rbac.Member} {
			allowed := route.Access == api.SignedIn || route.Group.Allows(role)
			require.Equal(t, strings.Contains(strings.Join(roles, " "), string(role)), allowed, "%s for %s", name, role)
		}
	}
	require.Empty(t, rules, "routes that are not there")
}

// The responses of these routes are small, or have limits of their own. All other GET routes have a
// share for each caller.
var smallResponses = []string{
	"/auth/userinfo", "/auth/sessions", "/api/v1/cli/tokens", // at most 100 sessions and tokens
	"/api/v1/admin/users", "/api/v1/admin/users/:id", "/api/v1/admin/users/:id/sessions", "/api/v1/admin/users/:id/tokens", "/api/v1/admin/invites",
	"/api/v1/admin/agents/:name/deploy", "/api/v1/admin/aigc/config", "/api/v1/admin/runs", "/api/v1/admin/settings", "/api/v1/approvals",
	"/api/v1/agents/:name/chat/sessions/:id/messages/:message/events", "/api/v1/admin/chat/sessions/:id/messages/:message/events",
}

func TestLargeResponsesHaveAShare(t *testing.T) {
	s, _ := started(t)
	for _, route := range s.Routes() {
		if route.Method == http.MethodGet && route.Access != api.Open {
			require.Equal(t, !slices.Contains(smallResponses, route.Path), route.Large, route.Path)
		}
	}
}

func TestEncodedSlashIsNotASeparator(t *testing.T) {
	s, admin := started(t)
	for _, route := range s.Routes() {
		path := strings.NewReplacer(":id", "0", ":tokenId", "0", ":token", "0", ":hash", "0", ":name", "0").Replace(route.Path)
		for i := 1; i < len(path); i++ {
			if path[i] != '/' {
				continue
			}
			for _, slash := range []string{"%2F", "%2f", "%2F..%2F", "/..%2f"} {
				encoded := path[:i] + slash + path[i+1:]
				s.call(route.Method, encoded, admin, "").wantError(http.StatusNotFound, "not_found")
			}
		}
	}
}

// Every route is called without a credential, with a session of every role, and with a CLI token.
// The objects do not exist and the bodies are empty, so that a request that passes the checks of
// its route gets neither 401 nor 403.
func TestEveryRouteForEveryRole(t *testing.T) {
	s, admin := started(t)
	tokens := map[string]string{
		"admin": s.join(admin, "admin", "ada"), "maintainer": s.join(admin, "maintainer", "mia"), "member": s.join(admin, "member", "meg"),
	}
	for _, role := range []string{"admin", "maintainer"} { // members get none
		tokens[role+" by CLI token"] = s.call("POST", "/api/v1/cli/issue-token", tokens[role], `{"name":"ci"}`).want(http.StatusCreated)["token"].(string)
	}
	before := s.denials(admin)
	denied := 0
	for name, roles := range rulesOf(t) {
		method, path, _ := strings.Cut(name, " ")
		if path == "/auth/logout" || strings.HasSuffix(path, "/audit-logs/export") {
			continue // the first would end what the others need, and has tests of its own, as the second has
		}
		path = strings.NewReplacer(":id", "0", ":tokenId", "0", ":token", "0", ":hash", "0", ":name", "0").Replace(path)
		open := roles[0] == "anyone"
		face := method == "*" && !open // whose errors have the form of its protocol
		if face {
			method, path = http.MethodGet, path+"/models"
		}
		status := s.call(method, path, "", "").status
		require.Equal(t, !open, status == http.StatusUnauthorized && path != "/auth/login", "%s without a token: %d", name, status)
		if open {
			continue
		}
		if rejected := s.call(method, path, "no such token", ""); face {
			require.Contains(t, rejected.text, `"code":"invalid_api_key"`)
		} else {
			rejected.wantError(http.StatusUnauthorized, "unauthenticated")
		}
		for who, token := range tokens {
			role, _, cli := strings.Cut(who, " ")
			res := s.call(method, path, token, "")
			if !strings.Contains(strings.Join(roles, " "), role) {
				res.wantError(http.StatusForbidden, "forbidden")
				if denied++; denied%50 == 0 { // 60 of a caller are recorded in a minute
					tokens["member"] = s.join(admin, "member", fmt.Sprint("meg", denied))
				}
				continue
			}
			require.NotEqual(t, http.StatusUnauthorized, res.status, "%s for %s: %s", name, who, res.text)
			if !cli || path != "/auth/change-password" {
				require.NotEqual(t, http.StatusForbidden, res.status, "%s for %s: %s", name, who, res.text)
			}
		}
	}
	require.Positive(t, denied)
	require.Equal(t, denied+2, s.denials(admin)-before, "every refused permission is recorded, and no bare 401: and each CLI token wanted to change a password")
}

// denials counts the denied permissions in the audit log.
func (s *server) denials(admin string) (n int) {
	s.t.Helper()
	for _, category := range []string{"auth", "user", "invite", "provider", "agent", "token", "aigc"} {
		n += int(s.call("GET", "/api/v1/admin/audit-logs?action="+category+".denied", admin, "").want(http.StatusOK)["total"].(float64))
	}
	return n
}
