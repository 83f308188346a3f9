package session_test

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/internal/session"
	"github.com/seed93082962/agenthost/hub/internal/store"
	users "github.com/seed93082962/agenthost/hub/internal/user"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/rbac"
)

const issuer = "https://idp.example.com"

func external(cfg *config) { cfg.External = true }

// eachExternal runs a test on both engines with a replica in external mode.
func eachExternal(t *testing.T, test func(t *testing.T, s *server)) {
	t.Helper()
	each(t, func(t *testing.T, c *cluster) { test(t, c.start(external)) })
}

func stranger(org, subject, username string) users.External {
	return users.External{TenantID: org, Issuer: issuer, Subject: subject, Username: username}
}

func (s *server) enter(u users.External) session.SignIn {
	s.cluster.t.Helper()
	signIn, err := s.service.SignInExternal(s.cluster.t.Context(), api.Caller{RemoteIP: "192.0.2.1"}, u)
	require.NoError(s.cluster.t, err)
	return signIn
}

func (s *server) userinfo(token string) response {
	return s.send(http.MethodGet, "/auth/userinfo", "", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) })
}

// log returns the actions of a tenant with their details, oldest first.
func (s *server) log(tenant string) (all []string) {
	for e, err := range s.audit.Entries(s.cluster.t.Context(), tenant, auditlog.Filter{}, nil) {
		require.NoError(s.cluster.t, err)
		all = append(all, e.Action+" "+e.TargetName+" "+string(e.Status)+" "+string(e.Detail))
	}
	return all
}

func TestExternalLogin(t *testing.T) {
	eachExternal(t, func(t *testing.T, s *server) {
		u := stranger("acme", "1", "ada")
		u.DisplayName, u.Email = "Ada L.", "ada@example.com"
		first := s.enter(u)
		require.Equal(t, wire.LoginUser{ID: first.User.ID, Username: "ada", DisplayName: "Ada L.", Role: rbac.Member, TenantID: "acme", OrgID: "acme"}, first.User)
		body := s.userinfo(first.AccessToken).want(http.StatusOK)
		require.Equal(t, object{
			"id": first.User.ID, "username": "ada", "display_name": "Ada L.", "email": "ada@example.com", "role": "member",
			"tenant_id": "acme", "org_id": "acme", "auth_mode": "external", "token_type": "session",
		}, body)
		next := s.refresh(first.RefreshToken).want(http.StatusOK)
		require.NotEqual(t, first.AccessToken, next.access())

		u.Username, u.Email = "renamed", "new@example.com"
		second := s.enter(u)
		require.Equal(t, first.User.ID, second.User.ID)
		body = s.userinfo(second.AccessToken).want(http.StatusOK)
		require.Equal(t, "ada", body["username"])
		require.Equal(t, "new@example.com", body["email"])
		log := strings.Join(s.log("acme"), "\n")
		require.Contains(t, log, `"issuer":"`+issuer+`","created":true,"role":"member"`)
		require.Contains(t, log, `"created":false`)
		require.Empty(t, s.log("default"))
	})
}

// A member is (tenant, issuer, subject). A name never leads to the member of another one.
func TestIdentityOfAnExternalMember(t *testing.T) {
	eachExternal(t, func(t *testing.T, s *server) {
		ada := s.enter(stranger("acme", "1", "ada")).User
		seen := map[string]bool{ada.ID: true}
		other := stranger("acme", "1", "ada")
		other.Issuer = "https://other.example.com"
		for _, u := range []users.External{stranger("beta", "1", "ada"), stranger("acme", "2", "ADA"), other} {
			user := s.enter(u).User
			require.False(t, seen[user.ID], "%v", u)
			seen[user.ID] = true
			if u.TenantID == "acme" {
				require.Regexp(t, `^(ada|ADA)-[0-9a-f]{12}$`, user.Username)
			} else {
				require.Equal(t, "ada", user.Username)
			}
		}
	})
}

func TestExternalUsernames(t *testing.T) {
	s := newCluster(t, "sqlite://"+t.TempDir()+"/hub.db").start(external)
	org := "org"
	for name, want := range map[string]string{
		"ada@example.com": "ada@example.com", "Ada": "Ada", "Ada Lovelace": "Ada-Lovelace-", "../etc": "etc-", "": "user-", "李": "user-", "李4": "4-",
		"a\u202eb": "a-b-", strings.Repeat("x", 80): strings.Repeat("x", 51) + "-", "\u212a": "user-", "ada ": "ada--",
	} {
		org += "x"
		got := s.enter(stranger(org, "subject of "+name, name)).User.Username
		if want == name {
			require.Equal(t, want, got)
			continue
		}
		// A name that was changed has a suffix, which no other user can take in advance.
		require.Regexp(t, "^"+regexp.QuoteMeta(want)+"[0-9a-f]{12}$", got)
	}
}

func TestConcurrentFirstLoginsCreateOneMember(t *testing.T) {
	eachExternal(t, func(t *testing.T, s *server) {
		u := stranger("acme", "1", "ada")
		u.Admin = true
		results := atOnce(8, func(int) response {
			signIn, err := s.service.SignInExternal(t.Context(), api.Caller{}, u)
			if err != nil {
				return response{status: http.StatusInternalServerError, text: err.Error()}
			}
			return response{status: http.StatusOK, text: signIn.User.ID + string(signIn.User.Role)}
		})
		for _, res := range results {
			require.Equal(t, http.StatusOK, res.status, res.text)
			require.Equal(t, results[0].text, res.text)
		}
		require.Equal(t, 1, s.count(`SELECT COUNT(*) FROM members`))
		require.Equal(t, 8, s.count(`SELECT COUNT(*) FROM sessions`))
	})
}

func TestConcurrentFirstLoginsWithOneName(t *testing.T) {
	eachExternal(t, func(t *testing.T, s *server) {
		results := atOnce(8, func(i int) response {
			u := stranger("acme", strings.Repeat("1", i+1), "ada")
			u.Admin = true
			signIn, err := s.service.SignInExternal(t.Context(), api.Caller{}, u)
			if err != nil {
				return response{status: http.StatusInternalServerError, text: err.Error()}
			}
			return response{status: http.StatusOK, text: string(signIn.User.Role)}
		})
		admins := 0
		for _, res := range results {
			require.Equal(t, http.StatusOK, res.status, res.text)
			if res.text == string(rbac.Admin) {
				admins++
			}
		}
		require.Equal(t, 1, admins)
		require.Equal(t, 8, s.count(`SELECT COUNT(DISTINCT username_fold) FROM members`))
	})
}

// A name makes one user an admin, once: neither another subject with the name nor the deleted user
// at the next login.
func TestBootstrapAdmin(t *testing.T) {
	eachExternal(t, func(t *testing.T, s *server) {
		u := stranger("acme", "1", "ada")
		u.Admin = true
		ada := s.enter(u).User
		require.Equal(t, rbac.Admin, ada.Role)
		second := stranger("acme", "2", "Ada")
		second.Admin = true
		require.Equal(t, rbac.Member, s.enter(second).User.Role)
		late := stranger("beta", "1", "ada")
		require.Equal(t, rbac.Member, s.enter(late).User.Role)
		late.Admin = true
		require.Equal(t, rbac.Member, s.enter(late).User.Role, "only at the first login")
		s.exec(`DELETE FROM members WHERE id = $1`, ada.ID)
		require.Equal(t, rbac.Member, s.enter(u).User.Role)
	})
}

func TestDisabledExternalMember(t *testing.T) {
	eachExternal(t, func(t *testing.T, s *server) {
		u := stranger("acme", "1", "ada")
		ada := s.enter(u).User
		s.exec(`UPDATE members SET status = 'disabled' WHERE id = $1`, ada.ID)
		_, err := s.service.SignInExternal(t.Context(), api.Caller{RemoteIP: "192.0.2.1"}, u)
		require.ErrorIs(t, err, code.AccountDisabled)
		log := s.log("acme")
		require.Equal(t, `auth.login_failed ada failure {"reason":"account_disabled"}`, log[len(log)-1])
		require.Equal(t, 1, s.count(`SELECT COUNT(*) FROM sessions`))
	})
}

func TestEndExternalSessions(t *testing.T) {
	eachExternal(t, func(t *testing.T, s *server) {
		enter := func(org, subject, session string) string {
			u := stranger(org, subject, "name"+subject)
			u.SessionID = session
			return s.enter(u).AccessToken
		}
		end := func(out session.ExternalLogout) {
			out.Issuer = issuer
			require.NoError(t, s.service.EndExternalSessions(t.Context(), api.Caller{}, out))
		}
		one, two, bob, beta := enter("acme", "1", "s1"), enter("acme", "1", "s2"), enter("acme", "2", "s3"), enter("beta", "1", "s1")
		valid := func(tokens ...string) {
			t.Helper()
			for _, token := range []string{one, two, bob, beta} {
				status := http.StatusUnauthorized
				for _, live := range tokens {
					if live == token {
						status = http.StatusOK
					}
				}
				require.Equal(t, status, s.userinfo(token).status)
			}
		}
		valid(one, two, bob, beta)
		end(session.ExternalLogout{TenantID: "acme", Subject: "2", SessionID: "s1"}) // of another subject
		end(session.ExternalLogout{TenantID: "acme", SessionID: "unknown"})
		valid(one, two, bob, beta)
		code := s.post(one, "/auth/sessions", object{"code_challenge": challengeOf(verifier)}).want(http.StatusCreated)["authorization_code"]
		end(session.ExternalLogout{TenantID: "acme", SessionID: "s1"})
		valid(two, bob, beta)
		s.post("", "/auth/refresh", object{"refresh_token": code, "code_verifier": verifier}).wantError(http.StatusUnauthorized, wire.TokenRevoked)
		end(session.ExternalLogout{TenantID: "acme", Subject: "1"})
		valid(bob, beta)
		log := s.log("acme")
		require.Equal(t, `auth.backchannel_logout name1 success {"issuer":"`+issuer+`","sessionsEnded":1}`, log[len(log)-1])
		require.Error(t, s.service.EndExternalSessions(t.Context(), api.Caller{}, session.ExternalLogout{TenantID: "acme", Issuer: issuer}))
	})
}

// What failed before a user was known is in the log of the system, up to a limit for each network.
func TestRejectedExternalLogins(t *testing.T) {
	eachExternal(t, func(t *testing.T, s *server) {
		fault := errors.New("the fault")
		from := api.Caller{RemoteIP: "192.0.2.1"}
		attempt, err := s.service.StartExternal(t.Context(), from, "acme", "")
		require.NoError(t, err)
		for range 100 {
			require.Equal(t, fault, s.service.RejectExternal(t.Context(), attempt, "state", fault))
		}
		require.ErrorIs(t, s.service.RejectExternal(t.Context(), attempt, "state", fault), wire.RateLimited)
		_, err = s.service.StartExternal(t.Context(), from, "acme", "")
		require.ErrorIs(t, err, wire.RateLimited)
		log := s.log(api.SystemTenant)
		require.Len(t, log, 101, "the one that came too late too")
		require.Equal(t, `auth.login_failed acme failure {"reason":"state"}`, log[0])
		s.enter(stranger("acme", "1", "ada"))
	})
}

func TestExternalModeHasNoPasswords(t *testing.T) {
	s := newCluster(t, "sqlite://"+t.TempDir()+"/hub.db").start(external)
	u := stranger("acme", "1", "ada")
	u.Admin = true
	admin := s.enter(u)
	require.Empty(t, s.accounts.SetupToken())
	for _, call := range []string{"POST /auth/setup", "POST /auth/login", "POST /auth/register", "POST /auth/change-password", "GET /auth/invite/x"} {
		method, path, _ := strings.Cut(call, " ")
		res := s.send(method, path, "{}", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+admin.AccessToken) })
		require.Equal(t, http.StatusNotFound, res.status, call)
	}
	for _, call := range []string{"users", "invites", "users/" + admin.User.ID + "/reset-password"} {
		res := s.post(admin.AccessToken, "/api/v1/admin/"+call, object{"username": "bob", "password": password, "role": "member"})
		res.want(http.StatusConflict)
	}
	bob := s.enter(stranger(api.DefaultTenant, "2", "bob"))
	_, err := s.accounts.ResetPassword(t.Context(), "bob")
	require.ErrorContains(t, err, "identity provider", "the command too: bob could not change the password")
	s.get(bob.AccessToken, "/auth/sessions").want(http.StatusOK)
}

// A role that the identity provider takes away takes what the user has read with it.
func TestTheRoleOfALoginWithdraws(t *testing.T) {
	each(t, func(t *testing.T, c *cluster) {
		var withdrawn []string
		s := c.start(func(cfg *config) {
			external(cfg)
			cfg.Withdraw = func(_ context.Context, _ *store.Tx, caller api.Caller, tenantID, userID string, role rbac.Role) error {
				withdrawn = append(withdrawn, strings.Join([]string{tenantID, userID, string(role), caller.TenantID, caller.UserName}, " "))
				return nil
			}
		})
		u := stranger("acme", "1", "ada")
		u.Role = rbac.Admin
		s.enter(u)
		id := s.enter(u).User.ID
		require.Empty(t, withdrawn)
		u.Role = rbac.Member
		s.enter(u)
		require.Equal(t, []string{"acme " + id + " member acme ada"}, withdrawn)
	})
}

// Admins of a former issuer cannot sign in: the last admin of the present one remains.
func TestAdminsOfAFormerIssuerDoNotCount(t *testing.T) {
	eachExternal(t, func(t *testing.T, s *server) {
		former := stranger("acme", "1", "ada")
		former.Role, former.Issuer = rbac.Admin, "https://former.example.com"
		ada := s.enter(former).User
		present := stranger("acme", "2", "bob")
		present.Role = rbac.Admin
		bob := s.enter(present)
		for _, change := range []object{{"role": "member"}, {"status": "disabled"}} {
			s.patch(bob.AccessToken, usersPath+"/"+bob.User.ID, change).wantError(http.StatusConflict, code.LastAdmin)
		}
		s.delete(bob.AccessToken, usersPath+"/"+bob.User.ID).wantError(http.StatusConflict, code.LastAdmin)
		s.patch(bob.AccessToken, usersPath+"/"+ada.ID, object{"role": "member"}).want(http.StatusOK)
		s.delete(bob.AccessToken, usersPath+"/"+ada.ID).want(http.StatusNoContent)
		third := stranger("acme", "3", "cy")
		third.Role = rbac.Admin
		s.enter(third)
		s.delete(bob.AccessToken, usersPath+"/"+bob.User.ID).want(http.StatusNoContent)
	})
}
