package api_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/rbac"
)

// guarded returns a handler with one route for each kind of access. Each responds with the name of
// the caller.
func guarded(t testing.TB, change func(*api.Config)) http.Handler {
	who := func(w http.ResponseWriter, r *http.Request) error {
		same, _ := rbac.FromContext[api.Caller](r.Context())
		require.Equal(t, same, api.CallerOf(r))
		return api.Encode(w, http.StatusOK, api.CallerOf(r).UserName)
	}
	return handler(t, change,
		api.Route{Method: "GET", Path: "/open", Access: api.Open, Handle: who},
		api.Route{Method: "GET", Path: "/any", Access: api.SignedIn, Handle: who},
		api.Route{Method: "GET", Path: "/read/:id", Group: rbac.AdminRead, Handle: who},
		api.Route{Method: "POST", Path: "/write/:id", Group: rbac.AdminWrite, Category: "agent", Handle: who},
		api.Route{Method: "GET", Path: "/only", Group: rbac.AdminOnly, Category: "user", Handle: who},
		api.Route{Method: "GET", Path: "/ops", Access: api.Open, NoChallenge: true, Handle: func(http.ResponseWriter, *http.Request) error {
			return wire.Unauthenticated
		}},
		api.Route{Method: "POST", Path: "/own", Access: api.SignedIn, Category: "token", Handle: func(http.ResponseWriter, *http.Request) error {
			return wire.Forbidden.New("A CLI token cannot do this: sign in.")
		}},
		api.Route{Method: "GET", Path: "/disabled", Access: api.SignedIn, Handle: func(http.ResponseWriter, *http.Request) error {
			return code.BuiltinReadonly
		}},
	)
}

func TestAccess(t *testing.T) {
	const refused = `Bearer error="invalid_token"`
	for _, row := range []struct {
		name, request, authorization string
		status                       int
		code, challenge, denied      string
	}{
		{"open", "GET /open", "", 200, "", "", ""},
		{"open, with a token that nobody looks at", "GET /open", "Bearer expired-token", 200, "", "", ""},
		{"any role", "GET /any", "Bearer member-token", 200, "", "", ""},
		{"the scheme in any letters", "GET /any", "bEARER member-token", 200, "", "", ""},
		{"the group", "GET /read/1", "Bearer member-token", 200, "", "", ""},
		{"the smaller group", "POST /write/1", "Bearer maintainer-token", 200, "", "", ""},
		{"the smallest", "GET /only", "Bearer admin-token", 200, "", "", ""},

		{"no token", "GET /any", "", 401, "unauthenticated", "Bearer", ""},
		{"another scheme", "GET /any", "Basic YTpi", 401, "unauthenticated", "Bearer", ""},
		{"no token after the scheme", "GET /any", "Bearer ", 401, "unauthenticated", refused, ""},
		{"two tokens in one", "GET /any", "Bearer admin-token admin-token", 401, "unauthenticated", refused, ""},
		{"an unknown token", "GET /any", "Bearer x", 401, "unauthenticated", refused, ""},
		{"an expired one", "GET /any", "Bearer expired-token", 401, "token_expired", refused, ""},
		{"a revoked one", "GET /any", "Bearer revoked-token", 401, "token_revoked", refused, ""},
		{"no role", "GET /any", "Bearer no-role-token", 401, "unauthenticated", refused, ""},
		{"no user", "GET /any", "Bearer nobody-token", 401, "unauthenticated", refused, ""},
		{"a database that is away", "GET /any", "Bearer database-token", 503, "unavailable", "", ""},
		{"another credential", "GET /ops", "", 401, "unauthenticated", "", ""},

		{"an unknown path, before 401", "GET /nothing", "", 404, "not_found", "", ""},
		{"a wrong method, before 401", "PUT /only", "", 405, "method_not_allowed", "", ""},
		{"401, before 403", "GET /only", "Bearer x", 401, "unauthenticated", refused, ""},

		{"a role that may not", "POST /write/1", "Bearer member-token", 403, "forbidden", "", "POST /write/:id agent mel"},
		{"another", "GET /only", "Bearer maintainer-token", 403, "forbidden", "", "GET /only user max"},
		{"by HEAD", "HEAD /only", "Bearer maintainer-token", 403, "forbidden", "", "GET /only user max"},
		{"what the handler forbids", "POST /own", "Bearer admin-token", 403, "forbidden", "", "POST /own token ada"},
		{"a disabled caller", "GET /any", "Bearer disabled-token", 403, "account_disabled", "", "GET /any auth meg"},
		{"another 403", "GET /disabled", "Bearer admin-token", 403, "builtin_readonly", "", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			var denied []string
			h := guarded(t, func(c *api.Config) {
				c.Denied = func(r *http.Request, route api.Route, caller api.Caller, _ wire.Code) error {
					require.Equal(t, caller, api.CallerOf(r))
					denied = append(denied, strings.Join([]string{route.Method, route.Path, route.Category, caller.UserName}, " "))
					return nil
				}
			})
			method, path, _ := strings.Cut(row.request, " ")
			var headers []string
			if row.authorization != "" {
				headers = []string{"Authorization", row.authorization}
			}
			w := send(h, method, path, "", headers...)
			require.Equal(t, row.status, w.Code, w.Body)
			if row.code != "" {
				require.Equal(t, row.code, faultOf(t, w).Code)
			}
			require.Equal(t, row.challenge, w.Header().Get("Www-Authenticate"))
			require.Equal(t, row.denied, strings.Join(denied, "; "))
		})
	}
}

func TestTwoAuthorizationHeadersAreRejected(t *testing.T) {
	w := send(guarded(t, nil), "GET", "/any", "", "Authorization", "Bearer x", "Authorization", "Bearer admin-token")
	require.Equal(t, 401, w.Code)
}

func TestEveryDenialIsRecorded(t *testing.T) {
	for name, row := range map[string]struct {
		err    error
		status int
		code   string
	}{
		"the database is away": {errDatabase, 503, "unavailable"},
		"anything else":        {errors.New("no"), 500, "internal_error"},
	} {
		t.Run(name, func(t *testing.T) {
			h := guarded(t, func(c *api.Config) {
				c.Denied = func(*http.Request, api.Route, api.Caller, wire.Code) error { return row.err }
			})
			w := send(h, "GET", "/only", "", "Authorization", "Bearer member-token")
			require.Equal(t, row.status, w.Code)
			require.Equal(t, row.code, faultOf(t, w).Code)
		})
	}
}

// A role can change after authentication: the denial is recorded with the role that was denied.
func TestADenialRecordsTheDeniedRole(t *testing.T) {
	var role rbac.Role
	h := handler(t, func(c *api.Config) {
		c.Denied = func(_ *http.Request, _ api.Route, caller api.Caller, _ wire.Code) error {
			role = caller.RoleNow
			return nil
		}
	}, api.Route{Method: "GET", Path: "/only", Group: rbac.AdminOnly, Handle: func(http.ResponseWriter, *http.Request) error {
		return rbac.AdminOnly.Check(api.Caller{RoleNow: rbac.Member})
	}})
	require.Equal(t, 403, send(h, "GET", "/only", "", "Authorization", "Bearer admin-token").Code)
	require.Equal(t, rbac.Member, role)
}

func TestCategoryDefaultsToAuth(t *testing.T) {
	h := guarded(t, func(c *api.Config) {
		c.Denied = func(_ *http.Request, route api.Route, _ api.Caller, _ wire.Code) error {
			require.Equal(t, "auth", route.Category)
			return nil
		}
		c.Authenticate = func(*http.Request) (api.Caller, error) { return api.Caller{UserID: "u", RoleNow: "guest"}, nil }
	})
	require.Equal(t, 403, send(h, "GET", "/read/1", "").Code)
	require.Equal(t, 200, send(h, "GET", "/any", "").Code, "a role of another's making")
}
