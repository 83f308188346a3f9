package identity_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/api"
)

// bearers are the two credentials of a user: a session and a CLI token.
func (o *office) bearers(p person) map[string]string {
	_, token := o.issue(p)
	return map[string]string{"session": p.token, "cli": token}
}

func TestARoleActsAtOnce(t *testing.T) {
	eachOffice(t, func(t *testing.T, o *office, root person) {
		ada := o.join(root, "maintainer", "ada")
		bearers, path := o.bearers(ada), usersPath+"/"+ada.id
		for kind, bearer := range bearers {
			o.get(bearer, tokensPath).want(http.StatusOK) // it is remembered
			o.patch(root.token, path, object{"role": "member"}).want(http.StatusOK)
			o.get(bearer, tokensPath).refused(http.StatusForbidden, api.Forbidden)
			o.post(bearer, issuePath, object{"name": "n"}).refused(http.StatusForbidden, api.Forbidden)
			require.Equal(t, "member", o.get(bearer, "/auth/userinfo").want(http.StatusOK)["role"], kind)

			o.get(bearer, usersPath).refused(http.StatusForbidden, api.Forbidden)
			o.patch(root.token, path, object{"role": "admin"}).want(http.StatusOK)
			o.get(bearer, usersPath).want(http.StatusOK)
			o.patch(root.token, path, object{"role": "maintainer"}).want(http.StatusOK)
			o.get(bearer, usersPath).refused(http.StatusForbidden, api.Forbidden)
			o.get(bearer, tokensPath).want(http.StatusOK)
		}
	})
}

func TestADisabledUser(t *testing.T) {
	eachOffice(t, func(t *testing.T, o *office, root person) {
		ada := o.join(root, "admin", "ada")
		bearers, path := o.bearers(ada), usersPath+"/"+ada.id
		o.patch(root.token, path, object{"status": "disabled"}).want(http.StatusOK)
		for _, bearer := range bearers {
			o.get(bearer, "/auth/userinfo").refused(http.StatusForbidden, api.AccountDisabled)
			o.post(bearer, usersPath, object{}).refused(http.StatusForbidden, api.AccountDisabled)
		}
		o.login("ada", password).refused(http.StatusForbidden, api.AccountDisabled)
		require.EqualValues(t, 0, o.get(root.token, path+"/sessions").want(http.StatusOK)["total"])

		// What comes back is the account and its CLI tokens; sessions have ended.
		o.patch(root.token, path, object{"status": "active"}).want(http.StatusOK)
		o.get(bearers["session"], "/auth/userinfo").refused(http.StatusUnauthorized, api.TokenRevoked)
		o.get(bearers["cli"], "/auth/userinfo").want(http.StatusOK)
		o.login("ada", password).want(http.StatusOK)
	})
}

func TestAdminsResetPasswords(t *testing.T) {
	eachOffice(t, func(t *testing.T, o *office, root person) {
		ada := o.join(root, "maintainer", "ada")
		bearers, before := o.bearers(ada), o.head()
		reset := o.post(root.token, usersPath+"/"+ada.id+"/reset-password", nil)
		require.Len(t, reset.want(http.StatusOK), 1)
		fresh := reset.body["password"].(string)
		require.GreaterOrEqual(t, len(fresh), 20)
		require.Equal(t, "no-store", reset.header.Get("Cache-Control"))
		require.Equal(t, []string{`user.reset_password ada {"sessionsEnded":1,"tokensRevoked":1,"invitesRevoked":0,"offline":false}`}, o.log(before))
		for _, bearer := range bearers {
			o.get(bearer, "/auth/userinfo").refused(http.StatusUnauthorized, api.TokenRevoked)
		}
		o.login("ada", password).refused(http.StatusUnauthorized, api.InvalidCredentials)
		o.login("ada", fresh).want(http.StatusOK)
		for range 5 {
			o.login("ada", "wrong password").refused(http.StatusUnauthorized, api.InvalidCredentials)
		}
		o.login("ada", fresh).refused(http.StatusTooManyRequests, api.RateLimited)
		again := o.post(root.token, usersPath+"/"+ada.id+"/reset-password", object{}).want(http.StatusOK)
		o.login("ada", again["password"].(string)).want(http.StatusOK) // a reset unlocks
		require.NotEqual(t, fresh, again["password"])

		// One's own too: then one has to sign in again.
		own := o.post(root.token, usersPath+"/"+root.id+"/reset-password", nil).want(http.StatusOK)
		o.get(root.token, usersPath).refused(http.StatusUnauthorized, api.TokenRevoked)
		o.login("root", own["password"].(string)).want(http.StatusOK)
	})
}

func TestACLITokenGetsNoPasswordOfItsOwner(t *testing.T) {
	t.Parallel()
	l := onSQLite(t, nil)
	root := l.o.signedIn(l.setup())
	ada := l.o.join(root, "admin", "ada")
	_, cli := l.issue(root)
	var denied []string
	h, err := api.New(api.Config{
		Authenticate: l.service.Authenticate,
		Denied: func(_ *http.Request, route api.Route, caller api.Caller, _ api.Code) error {
			denied = append(denied, route.Category+" "+caller.UserName)
			return nil
		},
	}, l.service.Routes()...)
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
	l.signIn()
	require.Equal(t, http.StatusOK, reset(ada.id))
	require.Len(t, denied, 2)
}

// An expired session was not ended by a caller.
func TestOnlyWhatLivesIsCounted(t *testing.T) {
	eachOffice(t, func(t *testing.T, o *office, root person) {
		ada := o.join(root, "maintainer", "ada")
		o.post(ada.token, issuePath, object{"name": "short", "expiresInDays": 1}).want(http.StatusCreated)
		o.issue(ada)
		_, admin := o.issue(root)
		path, word := usersPath+"/"+ada.id, password
		// log is what do has recorded once the sessions that ada has have expired, and there is a
		// new one.
		log := func(do func(token string)) []string {
			o.wait(14 * day)
			token := o.login("ada", word).want(http.StatusOK).access()
			before := o.head()
			do(token)
			return o.log(before)
		}
		require.Equal(t, []string{`auth.change_password ada {"sessionsEnded":0}`}, log(func(token string) {
			o.post(token, changePath, object{"old_password": word, "new_password": "another password"}).want(http.StatusNoContent)
			word = "another password"
		}))
		require.Equal(t, []string{`user.update_status ada {"status":{"from":"active","to":"disabled"},"sessionsEnded":1}`}, log(func(string) {
			o.patch(admin, path, object{"status": "disabled"}).want(http.StatusOK)
		}))
		o.patch(admin, path, object{"status": "active"}).want(http.StatusOK)
		o.login("ada", word).want(http.StatusOK)
		require.Equal(t, []string{`user.reset_password ada {"sessionsEnded":1,"tokensRevoked":1,"invitesRevoked":0,"offline":false}`}, log(func(string) {
			o.post(admin, path+"/reset-password", nil).want(http.StatusOK)
		}))
	})
}

func TestAdminsEndSessions(t *testing.T) {
	eachOffice(t, func(t *testing.T, o *office, root person) {
		ada := o.join(root, "maintainer", "ada")
		second := o.login("ada", password).want(http.StatusOK)
		_, token := o.issue(ada)
		path := usersPath + "/" + ada.id + "/sessions"
		list := o.get(root.token, path).want(http.StatusOK)
		require.EqualValues(t, 2, list["total"])
		require.Equal(t, []any{false, false}, column(list, "current"))
		for _, name := range []string{"id", "createdAt", "lastUsedAt", "remoteIp", "userAgent"} {
			require.NotEmpty(t, list.items()[0][name], name)
		}
		require.Equal(t, []any{true}, column(o.get(root.token, usersPath+"/"+root.id+"/sessions").want(http.StatusOK), "current"))
		require.Len(t, o.get(root.token, path+"?page_size=1").want(http.StatusOK)["items"], 1)

		before := o.head()
		o.delete(root.token, path).want(http.StatusNoContent)
		require.Len(t, o.log(before), 2)
		for _, line := range o.log(before) {
			require.Regexp(t, `^auth\.revoke_session ada \{"sessionId":"[0-9a-f-]{36}"\}$`, line)
		}
		o.get(ada.token, "/auth/userinfo").refused(http.StatusUnauthorized, api.TokenRevoked)
		o.get(second.access(), "/auth/userinfo").refused(http.StatusUnauthorized, api.TokenRevoked)
		require.Equal(t, http.StatusUnauthorized, o.refresh(second["refresh_token"]).status)
		o.get(token, "/auth/userinfo").want(http.StatusOK)
		require.EqualValues(t, 0, o.get(root.token, path).want(http.StatusOK)["total"])
		o.delete(root.token, path).want(http.StatusNoContent)
		require.Len(t, o.log(before), 2, "there was nothing to end")
	})
}

// What one replica takes away is refused in another within 2 seconds, and for changes at once.
func TestReplicasFollow(t *testing.T) {
	eachOffice(t, func(t *testing.T, o *office, root person) {
		other := o.open()
		for name, row := range map[string]struct {
			take func(p person, tokenID string)
			code api.Code // of a CLI token, later
		}{
			"demoted":  {func(p person, _ string) { o.patch(root.token, usersPath+"/"+p.id, object{"role": "member"}) }, api.Forbidden},
			"disabled": {func(p person, _ string) { o.patch(root.token, usersPath+"/"+p.id, object{"status": "disabled"}) }, api.AccountDisabled},
			"deleted":  {func(p person, _ string) { o.delete(root.token, usersPath+"/"+p.id) }, api.Unauthenticated},
			"revoked":  {func(p person, id string) { o.delete(root.token, usersPath+"/"+p.id+"/tokens/"+id) }, api.TokenRevoked},
			"reset":    {func(p person, _ string) { o.post(root.token, usersPath+"/"+p.id+"/reset-password", nil) }, api.TokenRevoked},
		} {
			p := o.join(root, "admin", name)
			id, token := o.issue(p)
			other.get(token, usersPath).want(http.StatusOK) // the other one knows it now
			row.take(p, id)
			before := o.head()
			for _, a := range []answer{
				other.post(token, issuePath, object{"name": "kept"}),
				other.post(token, invitesPath, object{"role": "admin"}),
				other.patch(token, usersPath+"/"+root.id, object{"role": "member"}),
				other.delete(token, usersPath+"/"+root.id+"/sessions"),
				other.post(token, usersPath+"/"+root.id+"/reset-password", nil),
				other.delete(token, usersPath+"/"+root.id),
			} {
				require.GreaterOrEqual(t, a.status, 401, name)
				require.LessOrEqual(t, a.status, 409, name)
			}
			require.Equal(t, before, o.head(), name)
			o.wait(2 * time.Second)
			a := other.get(token, usersPath)
			a.refused(row.code.Status(), row.code)
			require.EqualValues(t, "admin", o.get(root.token, usersPath+"/"+root.id).want(http.StatusOK)["role"])
		}
	})
}

// A client that uses a token while it is revoked sees it work, and then no longer.
func TestTakenAwayWhileInUse(t *testing.T) {
	const users, tries = 4, 40
	eachOffice(t, func(t *testing.T, o *office, root person) {
		for name, take := range map[string]func(p person, tokenID string) answer{
			"demoted": func(p person, _ string) answer {
				return o.patch(root.token, usersPath+"/"+p.id, object{"role": "member"})
			},
			"revoked": func(p person, id string) answer { return o.delete(root.token, usersPath+"/"+p.id+"/tokens/"+id) },
			"deleted": func(p person, _ string) answer { return o.delete(root.token, usersPath+"/"+p.id) },
		} {
			p := o.join(root, "maintainer", name)
			id, token := o.issue(p)
			used, gone := make(chan struct{}, users*tries), make(chan struct{})
			go func() {
				defer close(gone)
				for range users * 2 {
					<-used
				}
				take(p, id)
			}()
			atOnce(users, func(i int) (last answer) {
				refused := false
				for try := 0; try < tries || !refused; try++ {
					over := false
					select {
					case <-gone:
						over = true
					default:
					}
					if i == 0 {
						last = o.post(token, issuePath, object{"name": "n"})
					} else {
						last = o.get(token, tokensPath)
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
			require.Equal(t, 1, o.count(`SELECT COUNT(*) FROM members WHERE username = 'root'`))
		}
	})
}

// The holder of a stolen session gets no token out of it that outlives the new password, on
// whichever replica, or by whichever process, it was set.
func TestRaceOfAResetWithATokenIssued(t *testing.T) {
	eachOffice(t, func(t *testing.T, o *office, root person) {
		other := o.launch(nil)
		ada := o.join(root, "maintainer", "ada")
		for name, reset := range map[string]func() string{
			"over HTTP": func() string {
				return o.post(root.token, usersPath+"/"+ada.id+"/reset-password", nil).want(http.StatusOK).text("password")
			},
			"offline": func() string {
				fresh, err := other.service.ResetPassword(t.Context(), "ada")
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
						atOnce(4, func(int) answer { return o.post(ada.token, issuePath, object{"name": "kept"}) })
					}
				}
				require.Zero(t, o.count(`SELECT COUNT(*) FROM cli_tokens WHERE user_id = $1 AND revoked_at IS NULL`, ada.id), name)
				ada = o.signedIn(o.login("ada", fresh).want(http.StatusOK))
			}
		}
	})
}
