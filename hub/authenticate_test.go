package hub_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/rbac"
)

// own authenticates users of a program that embeds the hub: their token is own/ID/ROLE.
func own(r *http.Request) (*api.Caller, error) {
	id, role, _ := strings.Cut(strings.TrimPrefix(api.Bearer(r), "own/"), "/")
	switch {
	case !strings.HasPrefix(api.Bearer(r), "own/"):
		return nil, nil
	case id == "expired":
		return nil, wire.TokenExpired
	case id == "broken":
		return nil, errors.New("the database of the program is locked")
	case id == "other":
		return &api.Caller{UserID: id, TenantID: "not a tenant", RoleNow: rbac.Role(role)}, nil
	}
	return &api.Caller{UserID: id, UserName: strings.ToUpper(id), RoleNow: rbac.Role(role), Groups: []string{"ops"}}, nil
}

// Users of the embedding program have the permissions of their role, next to those of the hub.
func TestUsersOfTheEmbeddingProgram(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t), func(cfg *hub.Config) { cfg.Authenticate = own })
	admin := s.setUp()
	const agents = "/api/v1/admin/agents"
	info := s.call("GET", "/auth/userinfo", "own/7/maintainer", "").want(http.StatusOK)
	require.Equal(t, []any{"7", "7", "7", "maintainer", "default", "own", []any{"ops"}},
		[]any{info["id"], info["username"], info["display_name"], info["role"], info["tenant_id"], info["token_type"], info["groups"]})
	s.call("POST", agents, "own/mia/member", `{"name":"helper","providerId":"demo","model":"demo"}`).wantError(http.StatusForbidden, string(wire.Forbidden))
	s.call("POST", agents, "own/ada/maintainer", `{"name":"helper","providerId":"demo","model":"demo"}`).want(http.StatusCreated)
	s.call("GET", agents, admin, "").want(http.StatusOK)
	s.call("GET", "/api/v1/agents/helper", "own/mia/member", "").want(http.StatusOK)

	const sessions = "/api/v1/agents/helper/chat/sessions"
	id := s.call("POST", sessions, "own/mia/member", `{}`).want(http.StatusCreated)["id"].(string)
	s.call("GET", sessions+"/"+id+"/messages", "own/mia/member", "").want(http.StatusOK)
	s.call("GET", sessions+"/"+id+"/messages", "own/eve/member", "").wantError(http.StatusNotFound, string(wire.NotFound))

	require.Contains(t, s.call("GET", "/api/v1/admin/audit-logs?action=agent.create", "own/root/admin", "").text, `"userName":"ADA"`)
	s.call("GET", "/api/v1/admin/users", "own/root/admin", "").want(http.StatusOK)
	s.call("POST", "/api/v1/admin/invites", "own/root/admin", `{"role":"admin"}`).wantError(http.StatusForbidden, string(wire.Forbidden))
	s.call("POST", "/api/v1/cli/issue-token", "own/root/admin", `{"name":"ci"}`).wantError(http.StatusForbidden, string(wire.Forbidden))
	s.call("POST", "/auth/change-password", "own/root/admin", `{"old_password":"x","new_password":"`+password+`"}`).wantError(http.StatusForbidden, string(wire.Forbidden))

	s.call("GET", "/auth/userinfo", "own/expired/admin", "").wantError(http.StatusUnauthorized, string(wire.TokenExpired))
	for _, faulty := range []string{"own/broken/admin", "own/7/owner", "own/7/", "own//admin", "own/other/admin", "own/" + strings.Repeat("x", 300) + "/admin"} {
		s.call("GET", "/auth/userinfo", faulty, "").wantError(http.StatusInternalServerError, string(code.InternalError))
	}
	s.call("GET", "/auth/userinfo", "unknown", "").wantError(http.StatusUnauthorized, string(wire.Unauthenticated))
	require.Contains(t, s.close(), "the database of the program is locked")
}
