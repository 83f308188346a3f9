package hub_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// details returns the details of the entries of an action, newest first.
func (s *server) details(admin, action string) (details []string) {
	s.t.Helper()
	for _, item := range s.call("GET", "/api/v1/admin/audit-logs?action="+action, admin, "").want(http.StatusOK)["items"].([]any) {
		detail, err := json.Marshal(item.(map[string]any)["detail"])
		require.NoError(s.t, err)
		details = append(details, string(detail))
	}
	return details
}

func TestRequestsOfADisabledUserAreRecorded(t *testing.T) {
	s, admin := started(t)
	s.join(admin, "maintainer", "mia")
	login := func() map[string]any {
		return s.call("POST", "/auth/login", "", `{"username":"mia","password":"`+password+`"}`).want(http.StatusOK)
	}
	session, ended := login(), login()
	bearer := session["access_token"].(string)
	issued := s.call("POST", "/api/v1/cli/issue-token", bearer, `{"name":"ci"}`).want(http.StatusCreated)
	revoked := s.call("POST", "/api/v1/cli/issue-token", bearer, `{"name":"old"}`).want(http.StatusCreated)
	s.call("DELETE", "/api/v1/cli/tokens/"+revoked["id"].(string), bearer, "").want(http.StatusNoContent)
	s.call("POST", "/auth/logout", ended["access_token"].(string), "").want(http.StatusNoContent)
	mia := s.call("GET", "/auth/userinfo", bearer, "").want(http.StatusOK)["id"].(string)
	s.call("PATCH", "/api/v1/admin/users/"+mia, admin, `{"status":"disabled"}`).want(http.StatusOK)
	entry := func(method, route string) string {
		return `{"method":"` + method + `","needs":"active_account","role":"maintainer","route":"` + route + `"}`
	}
	for _, row := range []struct{ name, method, path, token, body, route string }{
		{"session", "GET", "/auth/userinfo", bearer, "", "/auth/userinfo"},
		{"session without the permission", "GET", "/api/v1/admin/users/" + mia, bearer, "", "/api/v1/admin/users/:id"},
		{"CLI token", "GET", "/api/v1/cli/tokens", issued["token"].(string), "", "/api/v1/cli/tokens"},
		{"logout", "POST", "/auth/logout", bearer, "", "/auth/logout"},
		{"logout with both tokens", "POST", "/auth/logout", bearer, `{"refresh_token":"` + session["refresh_token"].(string) + `"}`, "/auth/logout"},
		{"logout with the refresh token only", "POST", "/auth/logout", "", `{"refresh_token":"` + session["refresh_token"].(string) + `"}`, "/auth/logout"},
		{"logout with the refresh token and an invalid bearer token", "POST", "/auth/logout", "invalid", `{"refresh_token":"` + session["refresh_token"].(string) + `"}`, "/auth/logout"},
		{"logout with the refresh token and the bearer token of an ended session", "POST", "/auth/logout", ended["access_token"].(string), `{"refresh_token":"` + session["refresh_token"].(string) + `"}`, "/auth/logout"},
		{"refresh token", "POST", "/auth/refresh", "", `{"refresh_token":"` + session["refresh_token"].(string) + `"}`, "/auth/refresh"},
	} {
		t.Run(row.name, func(t *testing.T) {
			before := len(s.details(admin, "auth.denied"))
			s.call(row.method, row.path, row.token, row.body).wantError(http.StatusForbidden, "account_disabled")
			recorded := s.details(admin, "auth.denied")
			require.Len(t, recorded, before+1)
			require.JSONEq(t, entry(row.method, row.route), recorded[0])
		})
	}
	newest := s.call("GET", "/api/v1/admin/audit-logs?action=auth.denied", admin, "").want(http.StatusOK)["items"].([]any)[0].(map[string]any)
	require.Equal(t, []any{"mia", "failure", "POST /auth/refresh"}, []any{newest["userName"], newest["status"], newest["targetName"]})

	before := len(s.details(admin, "auth.denied"))
	s.call("GET", "/auth/userinfo", ended["access_token"].(string), "").wantError(http.StatusForbidden, "account_disabled")
	s.call("GET", "/auth/userinfo", revoked["token"].(string), "").wantError(http.StatusForbidden, "account_disabled")
	s.call("POST", "/auth/refresh", "", `{"refresh_token":"`+ended["refresh_token"].(string)+`"}`).wantError(http.StatusForbidden, "account_disabled")
	s.call("POST", "/auth/logout", "", `{"refresh_token":"`+ended["refresh_token"].(string)+`"}`).wantError(http.StatusForbidden, "account_disabled")
	require.Len(t, s.details(admin, "auth.denied"), before, "the credentials are not valid")
}

func TestAnIncorrectSetupTokenIsRecorded(t *testing.T) {
	url := sqlite(t)
	s := open(t, url)
	const path = "/auth/setup"
	s.call("POST", path, "", `{"password":"`+password+`","setup_token":"incorrect"}`).wantError(http.StatusUnauthorized, "invalid_credentials")
	s.call("POST", path, "", `{"username":"eve","password":"`+password+`","setup_token":"`+setupToken+`."}`).
		wantError(http.StatusUnauthorized, "invalid_credentials")
	admin := s.setUp()
	require.Equal(t, []string{`{"reason":"invalid_setup_token"}`, `{"reason":"invalid_setup_token"}`}, s.details(admin, "auth.login_failed"))
	items := s.call("GET", "/api/v1/admin/audit-logs?action=auth.login_failed", admin, "").want(http.StatusOK)["items"].([]any)
	for i, user := range []string{"eve", "admin"} {
		entry := items[i].(map[string]any)
		require.Equal(t, []any{user, "failure", "127.0.0.1", "default"},
			[]any{entry["userName"], entry["status"], entry["remoteIp"], entry["tenantId"]})
	}
}
