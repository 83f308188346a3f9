package session_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
)

// bearers are the two credentials of a user: a session and a CLI token.
func (c *cluster) bearers(u user) map[string]string {
	_, token := c.issue(u)
	return map[string]string{"session": u.token, "cli": token}
}

func TestARoleChangeAppliesImmediately(t *testing.T) {
	oneWithRoot(t, func(t *testing.T, c *cluster, root user) {
		ada := c.join(root, "maintainer", "ada")
		bearers, path := c.bearers(ada), usersPath+"/"+ada.id
		for kind, bearer := range bearers {
			c.get(bearer, tokensPath).want(http.StatusOK) // it is remembered
			c.patch(root.token, path, object{"role": "member"}).want(http.StatusOK)
			c.get(bearer, tokensPath).wantError(http.StatusForbidden, wire.Forbidden)
			c.post(bearer, issuePath, object{"name": "n"}).wantError(http.StatusForbidden, wire.Forbidden)
			require.Equal(t, "member", c.get(bearer, "/auth/userinfo").want(http.StatusOK)["role"], kind)

			c.get(bearer, usersPath).wantError(http.StatusForbidden, wire.Forbidden)
			c.patch(root.token, path, object{"role": "admin"}).want(http.StatusOK)
			c.get(bearer, usersPath).want(http.StatusOK)
			c.patch(root.token, path, object{"role": "maintainer"}).want(http.StatusOK)
			c.get(bearer, usersPath).wantError(http.StatusForbidden, wire.Forbidden)
			c.get(bearer, tokensPath).want(http.StatusOK)
		}
	})
}

func TestADisabledUser(t *testing.T) {
	oneWithRoot(t, func(t *testing.T, c *cluster, root user) {
		ada := c.join(root, "admin", "ada")
		bearers, path := c.bearers(ada), usersPath+"/"+ada.id
		c.patch(root.token, path, object{"status": "disabled"}).want(http.StatusOK)
		for _, bearer := range bearers {
			c.get(bearer, "/auth/userinfo").wantError(http.StatusForbidden, code.AccountDisabled)
			c.post(bearer, usersPath, object{}).wantError(http.StatusForbidden, code.AccountDisabled)
		}
		c.login("ada", password).wantError(http.StatusForbidden, code.AccountDisabled)
		require.EqualValues(t, 0, c.get(root.token, path+"/sessions").want(http.StatusOK)["total"])

		// What comes back is the account and its CLI tokens; sessions have ended.
		c.patch(root.token, path, object{"status": "active"}).want(http.StatusOK)
		c.get(bearers["session"], "/auth/userinfo").wantError(http.StatusUnauthorized, wire.TokenRevoked)
		c.get(bearers["cli"], "/auth/userinfo").want(http.StatusOK)
		c.login("ada", password).want(http.StatusOK)
	})
}

func TestAdminsResetPasswords(t *testing.T) {
	oneWithRoot(t, func(t *testing.T, c *cluster, root user) {
		ada := c.join(root, "maintainer", "ada")
		bearers, before := c.bearers(ada), c.head()
		reset := c.post(root.token, usersPath+"/"+ada.id+"/reset-password", nil)
		require.Len(t, reset.want(http.StatusOK), 1)
		fresh := reset.body["password"].(string)
		require.GreaterOrEqual(t, len(fresh), 20)
		require.Equal(t, "no-store", reset.header.Get("Cache-Control"))
		require.Equal(t, []string{`user.reset_password ada {"sessionsEnded":1,"tokensRevoked":1,"invitesRevoked":0,"offline":false}`}, c.log(before))
		for _, bearer := range bearers {
			c.get(bearer, "/auth/userinfo").wantError(http.StatusUnauthorized, wire.TokenRevoked)
		}
		c.login("ada", password).wantError(http.StatusUnauthorized, code.InvalidCredentials)
		c.login("ada", fresh).want(http.StatusOK)
		for range 5 {
			c.login("ada", "wrong password").wantError(http.StatusUnauthorized, code.InvalidCredentials)
		}
		c.login("ada", fresh).wantError(http.StatusTooManyRequests, wire.RateLimited)
		again := c.post(root.token, usersPath+"/"+ada.id+"/reset-password", object{}).want(http.StatusOK)
		c.login("ada", again["password"].(string)).want(http.StatusOK) // a reset unlocks
		require.NotEqual(t, fresh, again["password"])

		// One's own too: then one has to sign in again.
		own := c.post(root.token, usersPath+"/"+root.id+"/reset-password", nil).want(http.StatusOK)
		c.get(root.token, usersPath).wantError(http.StatusUnauthorized, wire.TokenRevoked)
		c.login("root", own["password"].(string)).want(http.StatusOK)
	})
}

func TestACLITokenCannotResetThePasswordOfItsOwner(t *testing.T) {
	t.Parallel()
	s := onSQLite(t, nil)
	root := s.cluster.signedIn(s.setup())
	ada := s.cluster.join(root, "admin", "ada")
	_, cli := s.issue(root)
	var denied []string
	h, err := api.New(api.Config{
		Authenticate: s.service.Authenticate,
		Denied: func(_ *http.Request, route api.Route, caller api.Caller, _ wire.Code) error {
			denied = append(denied, route.Category+" "+caller.UserName)
			return nil
		},
	}, s.routes()...)
	require.NoError(t, err)
	reset := func(id string) int {
		r := httptest.NewRequest(http.MethodPost, usersPath+"/"+id+"/reset-password", nil)
		r.Header.Set("Authorization", "Bearer "+cli)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	require.Equal(t, http.StatusForbidden, reset(root.id))
	require.Equal(t, http.StatusForbidden, reset(strings.ToUpper(root.id)))
	require.Equal(t, []string{"user root", "user root"}, denied)
	s.signIn()
	require.Equal(t, http.StatusOK, reset(ada.id))
	require.Len(t, denied, 2)
}

// An expired session was not ended by a caller.
func TestLimitsCountOnlyWhatIsValid(t *testing.T) {
	eachWithRoot(t, func(t *testing.T, c *cluster, root user) {
		ada := c.join(root, "maintainer", "ada")
		c.post(ada.token, issuePath, object{"name": "short", "expiresInDays": 1}).want(http.StatusCreated)
		c.issue(ada)
		_, admin := c.issue(root)
		path, word := usersPath+"/"+ada.id, password
		// log is what do has recorded once the sessions that ada has have expired, and there is a
		// new one.
		log := func(do func(token string)) []string {
			c.wait(14 * day)
			token := c.login("ada", word).want(http.StatusOK).access()
			before := c.head()
			do(token)
			return c.log(before)
		}
		require.Equal(t, []string{`auth.change_password ada {"sessionsEnded":0}`}, log(func(token string) {
			c.post(token, changePath, object{"old_password": word, "new_password": "another password"}).want(http.StatusNoContent)
			word = "another password"
		}))
		require.Equal(t, []string{`user.update_status ada {"status":{"from":"active","to":"disabled"},"sessionsEnded":1}`}, log(func(string) {
			c.patch(admin, path, object{"status": "disabled"}).want(http.StatusOK)
		}))
		c.patch(admin, path, object{"status": "active"}).want(http.StatusOK)
		c.login("ada", word).want(http.StatusOK)
		require.Equal(t, []string{`user.reset_password ada {"sessionsEnded":1,"tokensRevoked":1,"invitesRevoked":0,"offline":false}`}, log(func(string) {
			c.post(admin, path+"/reset-password", nil).want(http.StatusOK)
		}))
	})
}

func TestAdminsEndSessions(t *testing.T) {
	oneWithRoot(t, func(t *testing.T, c *cluster, root user) {
		ada := c.join(root, "maintainer", "ada")
		second := c.login("ada", password).want(http.StatusOK)
		_, token := c.issue(ada)
		path := usersPath + "/" + ada.id + "/sessions"
		list := c.get(root.token, path).want(http.StatusOK)
		require.EqualValues(t, 2, list["total"])
		require.Equal(t, []any{false, false}, column(list, "current"))
		for _, name := range []string{"id", "createdAt", "lastUsedAt", "remoteIp", "userAgent"} {
			require.NotEmpty(t, list.items()[0][name], name)
		}
		require.Equal(t, []any{true}, column(c.get(root.token, usersPath+"/"+root.id+"/sessions").want(http.StatusOK), "current"))
		require.Len(t, c.get(root.token, path+"?page_size=1").want(http.StatusOK)["items"], 1)

		before := c.head()
		c.delete(root.token, path).want(http.StatusNoContent)
		require.Len(t, c.log(before), 2)
		for _, line := range c.log(before) {
			require.Regexp(t, `^auth\.revoke_session ada \{"sessionId":"[0-9a-f-]{36}"\}$`, line)
		}
		c.get(ada.token, "/auth/userinfo").wantError(http.StatusUnauthorized, wire.TokenRevoked)
		c.get(second.access(), "/auth/userinfo").wantError(http.StatusUnauthorized, wire.TokenRevoked)
		require.Equal(t, http.StatusUnauthorized, c.refresh(second["refresh_token"]).status)
		c.get(token, "/auth/userinfo").want(http.StatusOK)
		require.EqualValues(t, 0, c.get(root.token, path).want(http.StatusOK)["total"])
		c.delete(root.token, path).want(http.StatusNoContent)
		require.Len(t, c.log(before), 2, "there was nothing to end")
	})
}

// What one replica revokes is rejected by another within 2 seconds, and for changes immediately.
func TestReplicasFollow(t *testing.T) {
	eachWithRoot(t, func(t *testing.T, c *cluster, root user) {
		other := c.open()
		for name, row := range map[string]struct {
			take func(u user, tokenID string)
			code wire.Code // of a CLI token, later
		}{
			"demoted":  {func(u user, _ string) { c.patch(root.token, usersPath+"/"+u.id, object{"role": "member"}) }, wire.Forbidden},
			"disabled": {func(u user, _ string) { c.patch(root.token, usersPath+"/"+u.id, object{"status": "disabled"}) }, code.AccountDisabled},
			"deleted":  {func(u user, _ string) { c.delete(root.token, usersPath+"/"+u.id) }, wire.Unauthenticated},
			"revoked":  {func(u user, id string) { c.delete(root.token, usersPath+"/"+u.id+"/tokens/"+id) }, wire.TokenRevoked},
			"reset":    {func(u user, _ string) { c.post(root.token, usersPath+"/"+u.id+"/reset-password", nil) }, wire.TokenRevoked},
		} {
			u := c.join(root, "admin", name)
			id, token := c.issue(u)
			other.get(token, usersPath).want(http.StatusOK) // the other one knows it now
			row.take(u, id)
			before := c.head()
			for _, res := range []response{
				other.post(token, issuePath, object{"name": "kept"}),
				other.post(token, invitesPath, object{"role": "admin"}),
				other.patch(token, usersPath+"/"+root.id, object{"role": "member"}),
				other.delete(token, usersPath+"/"+root.id+"/sessions"),
				other.post(token, usersPath+"/"+root.id+"/reset-password", nil),
				other.delete(token, usersPath+"/"+root.id),
			} {
				require.GreaterOrEqual(t, res.status, 401, name)
				require.LessOrEqual(t, res.status, 409, name)
			}
			require.Equal(t, before, c.head(), name)
			c.wait(2 * time.Second)
			res := other.get(token, usersPath)
			res.wantError(code.Status(row.code), row.code)
			require.EqualValues(t, "admin", c.get(root.token, usersPath+"/"+root.id).want(http.StatusOK)["role"])
		}
	})
}

// A client that uses a token while it is revoked sees it work, and then no longer.
func TestChangesOfUsersAndTokensInUse(t *testing.T) {
	const users, tries = 4, 40
	eachWithRoot(t, func(t *testing.T, c *cluster, root user) {
		for name, take := range map[string]func(u user, tokenID string) response{
			"demoted": func(u user, _ string) response {
				return c.patch(root.token, usersPath+"/"+u.id, object{"role": "member"})
			},
			"revoked": func(u user, id string) response { return c.delete(root.token, usersPath+"/"+u.id+"/tokens/"+id) },
			"deleted": func(u user, _ string) response { return c.delete(root.token, usersPath+"/"+u.id) },
		} {
			u := c.join(root, "maintainer", name)
			id, token := c.issue(u)
			used, gone := make(chan struct{}, users*tries), make(chan struct{})
			go func() {
				defer close(gone)
				for range users * 2 {
					<-used
				}
				take(u, id)
			}()
			atOnce(users, func(i int) (last response) {
				refused := false
				for try := 0; try < tries || !refused; try++ {
					over := false
					select {
					case <-gone:
						over = true
					default:
					}
					if i == 0 {
						last = c.post(token, issuePath, object{"name": "n"})
					} else {
						last = c.get(token, tokensPath)
					}
					select {
					case used <- struct{}{}:
					default:
					}
					ok := last.status < 300
					if over && ok || refused && ok || last.status >= 500 {
						t.Errorf("%s: %d after it was taken away: %v, refused before: %v", name, last.status, over, refused)
						return last
					}
					refused = refused || !ok
				}
				return last
			})
			<-gone
			require.Equal(t, 1, c.count(`SELECT COUNT(*) FROM members WHERE username = 'root'`))
		}
	})
}

// The holder of a stolen session gets no token out of it that outlives the new password, on
// whichever replica, or by whichever process, it was set.
func TestRaceOfAResetWithATokenIssued(t *testing.T) {
	eachWithRoot(t, func(t *testing.T, c *cluster, root user) {
		other := c.start(nil)
		ada := c.join(root, "maintainer", "ada")
		for name, reset := range map[string]func() string{
			"over HTTP": func() string {
				return c.post(root.token, usersPath+"/"+ada.id+"/reset-password", nil).want(http.StatusOK).text("password")
			},
			"offline": func() string {
				fresh, err := other.accounts.ResetPassword(t.Context(), "ada")
				require.NoError(t, err)
				return fresh
			},
		} {
			for range 2 {
				// The hash comes first, and takes longer than a token.
				set := make(chan string, 1)
				go func() { set <- reset() }()
				fresh := ""
				for fresh == "" {
					select {
					case fresh = <-set:
					default:
						atOnce(4, func(int) response { return c.post(ada.token, issuePath, object{"name": "kept"}) })
					}
				}
				require.Zero(t, c.count(`SELECT COUNT(*) FROM cli_tokens WHERE user_id = $1 AND revoked_at IS NULL`, ada.id), name)
				ada = c.signedIn(c.login("ada", fresh).want(http.StatusOK))
			}
		}
	})
}
