package session_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/code"
	users "github.com/seed93082962/agenthost/hub/internal/user"
	"github.com/seed93082962/agenthost/hub/wire"
)

// Sessions and tokens of users who sign in in the other mode are rejected, and become valid again
// with their mode.
func TestTokensOfTheOtherMode(t *testing.T) {
	one(t, func(t *testing.T, c *cluster) {
		ext := c.start(external)
		u := stranger(api.DefaultTenant, "1", "ada")
		u.Admin = true
		outside := ext.enter(u)
		cli := ext.post(outside.AccessToken, "/api/v1/cli/issue-token", object{"name": "ci"}).want(http.StatusCreated)["token"].(string)

		builtin := c.start(nil)
		rejected := func(s *server, token, refresh string) {
			t.Helper()
			s.get(token, "/auth/userinfo").wantError(http.StatusUnauthorized, wire.TokenRevoked)
			s.refresh(refresh).wantError(http.StatusUnauthorized, wire.TokenRevoked)
		}
		rejected(builtin, outside.AccessToken, outside.RefreshToken)
		builtin.get(cli, "/auth/userinfo").wantError(http.StatusUnauthorized, wire.TokenRevoked)
		_, err := builtin.accounts.ResetPassword(t.Context(), "ada")
		require.ErrorContains(t, err, "identity provider", "an external user gets no password")

		// The users of the other mode do not count as the first user, or as another admin.
		body := builtin.setup()
		admin := c.signedIn(body)
		builtin.send(http.MethodDelete, "/api/v1/admin/users/"+admin.id, "", func(r *http.Request) {
			r.Header.Set("Authorization", "Bearer "+admin.token)
		}).wantError(http.StatusConflict, code.LastAdmin)
		rejected(ext, admin.token, body["refresh_token"].(string))
		ext.get(outside.AccessToken, "/auth/userinfo").want(http.StatusOK)
	})
}

func TestAdminToken(t *testing.T) {
	eachExternal(t, func(t *testing.T, s *server) {
		u := stranger("acme", "1", "ada")
		u.Admin = true
		ada := s.enter(u).User
		s.enter(stranger("acme", "2", "bob"))
		offline := s.cluster.start(func(cfg *config) { cfg.External, cfg.Offline = true, true })
		of := func(text string) users.AdminName {
			name := users.ParseAdminName(text)
			name.Issuer = issuer
			return name
		}
		for _, text := range []string{"acme/ada", "acme/ADA", "acme/sub:1"} {
			token, err := offline.cliTokens.IssueOffline(t.Context(), of(text))
			require.NoError(t, err, text)
			require.Equal(t, ada.ID, s.get(token, "/auth/userinfo").want(http.StatusOK)["id"])
			log := s.log("acme")
			require.Regexp(t, `^token.issue hub admin-token success {"prefix":"cli_[0-9a-f]{8}","expiresAt":"[^"]+","offline":true}$`, log[len(log)-1])
			s.cluster.wait(59 * time.Minute)
			s.get(token, "/auth/userinfo").want(http.StatusOK)
			s.cluster.wait(2 * time.Minute)
			s.get(token, "/auth/userinfo").wantError(http.StatusUnauthorized, wire.TokenExpired)
		}
		for text, fault := range map[string]string{
			"acme/bob": "not an active admin", "acme/none": "no such user", "ada": "no such user", "beta/ada": "no such user", "acme/sub:2": "not an active admin", "acme/sub:": "no such user",
		} {
			_, err := offline.cliTokens.IssueOffline(t.Context(), of(text))
			require.ErrorContains(t, err, fault, text)
		}
		former := of("acme/ada")
		former.Issuer = "https://other.example.com" // the issuer was changed
		_, err := offline.cliTokens.IssueOffline(t.Context(), former)
		require.ErrorIs(t, err, users.ErrNoUser)
		s.exec(`UPDATE members SET status = 'disabled' WHERE id = $1`, ada.ID)
		_, err = offline.cliTokens.IssueOffline(t.Context(), of("acme/ada"))
		require.ErrorIs(t, err, users.ErrNotAdmin)
	})
}

// After a change of the issuer, the new users are members. The operator restores an admin.
func TestRestoreAdmin(t *testing.T) {
	eachExternal(t, func(t *testing.T, s *server) {
		u := stranger("acme", "1", "ada")
		u.Admin = true
		s.enter(u)
		u.Issuer = "https://new.example.com"
		next := s.enter(u).User
		require.EqualValues(t, "member", next.Role, "the name was used")
		name := users.AdminName{TenantID: "acme", Issuer: u.Issuer, Subject: "1"}
		require.NoError(t, s.accounts.RestoreAdmin(t.Context(), name))
		require.EqualValues(t, "admin", s.enter(u).User.Role)
		log := strings.Join(s.log("acme"), "\n")
		require.Equal(t, 1, strings.Count(log, `user.update_role `+next.Username+` success {"role":{"from":"member","to":"admin"}}`))
		require.NoError(t, s.accounts.RestoreAdmin(t.Context(), name)) // no change
		s.exec(`UPDATE members SET status = 'disabled' WHERE id = $1`, next.ID)
		require.NoError(t, s.accounts.RestoreAdmin(t.Context(), name))
		s.enter(u)
		require.ErrorIs(t, s.accounts.RestoreAdmin(t.Context(), users.AdminName{TenantID: "acme", Issuer: u.Issuer, Username: "ada"}), users.ErrNoUser,
			"the name belongs to a user of the former issuer")
	})
}
