package identity_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/api"
)

func TestSessionsOfAUserAreLimited(t *testing.T) {
	const most = 100
	each(t, func(t *testing.T, o *office) {
		l, other := o.launch(nil), o.launch(nil)
		first := l.setup()
		o.wait(time.Minute)
		second := l.signIn()
		for range most - 4 { // rows of ended and live sessions, which cost no hash
			l.exec(`INSERT INTO sessions (id, tenant_id, user_id, created_at, last_used_at, idle_until, expires_at, remote_ip, network, user_agent)
				SELECT $1, tenant_id, user_id, $2, $2, idle_until, expires_at, '', '', '' FROM sessions WHERE user_id = $3 LIMIT 1`,
				fmt.Sprintf("filler-%d", o.passed.Add(1000)), o.now().UnixMicro(), first.object("user")["id"])
		}
		o.wait(time.Minute)
		l.get(first.access(), "/auth/userinfo").want(http.StatusOK)
		answers := atOnce(4, func(i int) answer { return []*launched{l, other}[i%2].login("root", password) })
		require.Equal(t, map[string]int{"OK": 4}, statuses(answers))
		require.Equal(t, most, l.count(`SELECT COUNT(*) FROM sessions WHERE revoked_at IS NULL`))
		require.Equal(t, 2, l.count(`SELECT COUNT(*) FROM sessions WHERE revoked_why = 'limit'`))
		o.wait(2 * time.Second) // until the other replica reads the change
		for _, body := range []object{first, second} {
			l.get(body.access(), "/auth/userinfo").refused(http.StatusUnauthorized, api.TokenRevoked)
		}
		for _, a := range answers {
			l.get(a.body.access(), "/auth/userinfo").want(http.StatusOK)
		}

		// Ended sessions do not accumulate either.
		l.exec(`UPDATE sessions SET revoked_at = 1, revoked_why = 'logout' WHERE id LIKE 'filler-%'`)
		for range 10 {
			l.post(l.signIn().access(), "/auth/logout", nil).want(http.StatusNoContent)
		}
		require.Equal(t, most, l.count(`SELECT COUNT(*) FROM sessions WHERE revoked_at IS NOT NULL`)-1, "and the one that ended last")
	})
}

// The process that evicts a session rejects its token immediately.
func TestAnEvictedSessionEndsImmediately(t *testing.T) {
	t.Parallel()
	l := onSQLite(t, nil)
	first := l.setup()
	l.o.wait(time.Second)
	l.exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 99)
		INSERT INTO sessions (id, tenant_id, user_id, created_at, last_used_at, idle_until, expires_at, remote_ip, network, user_agent)
		SELECT 'filler-' || i, tenant_id, user_id, created_at + i, last_used_at, idle_until, expires_at, '', '', '' FROM sessions, n`)
	l.get(first.access(), "/auth/userinfo").want(http.StatusOK)
	l.signIn()
	l.get(first.access(), "/auth/userinfo").refused(http.StatusUnauthorized, api.TokenRevoked)
}

func TestCLITokensOfAUserAreLimited(t *testing.T) {
	const most = 100
	eachOffice(t, func(t *testing.T, o *office, root person) {
		maintainer := o.join(root, "maintainer", "mia")
		issue := func(p person) answer { return o.post(p.token, issuePath, object{"name": "ci", "expiresInDays": 1}) }
		for range most - 2 {
			issue(root).want(http.StatusCreated)
		}
		answers := atOnce(4, func(int) answer { return issue(root) })
		require.Equal(t, map[string]int{"Created": 2, "conflict": 2}, statuses(answers))
		head := o.head()
		issue(root).refused(http.StatusConflict, api.Conflict)
		require.Equal(t, head, o.head())
		issue(maintainer).want(http.StatusCreated)
		id := o.get(root.token, tokensPath).want(http.StatusOK).items()[0].text("id")
		o.delete(root.token, tokensPath+"/"+id).want(http.StatusNoContent)
		issue(root).want(http.StatusCreated)
		issue(root).refused(http.StatusConflict, api.Conflict)
		o.wait(day)
		o.exec(`UPDATE sessions SET idle_until = 9000000000000000, expires_at = 9000000000000000`)
		issue(person{token: o.login("root", password).want(http.StatusOK).access()}).want(http.StatusCreated) // the others have expired

		o.exec(`UPDATE cli_tokens SET revoked_at = 1`)
		issue(person{token: o.login("root", password).want(http.StatusOK).access()}).want(http.StatusCreated)
		require.Equal(t, most, o.count(`SELECT COUNT(*) FROM cli_tokens WHERE revoked_at IS NOT NULL AND user_id = $1`, root.id), "revoked ones do not accumulate")
	})
}

func TestOpenInvitesAreLimited(t *testing.T) {
	const most = 1000
	eachOffice(t, func(t *testing.T, o *office, root person) {
		invite := func() answer { return o.post(root.token, invitesPath, object{"role": "member"}) }
		last := invite().want(http.StatusCreated)
		o.exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 997)
			INSERT INTO invites (id, tenant_id, token_hash, role, created_by, created_by_name, created_at, expires_at)
			SELECT 'filler-' || i, tenant_id, CAST('filler-' || i AS ` + map[string]string{"sqlite": "BLOB", "postgres": "BYTEA"}[string(o.db.Engine())] + `), role, 'x', 'x', created_at, expires_at FROM invites, n`)
		answers := atOnce(4, func(int) answer { return invite() })
		require.Equal(t, map[string]int{"Created": 2, "conflict": 2}, statuses(answers))
		head := o.head()
		invite().refused(http.StatusConflict, api.Conflict)
		require.Equal(t, head, o.head())
		require.Equal(t, most, o.count(`SELECT COUNT(*) FROM invites`))
		o.register(last["token"], "mia").want(http.StatusCreated)
		invite().want(http.StatusCreated)
		o.wait(7 * day)
		invite2 := o.post(o.login("root", password).want(http.StatusOK).access(), invitesPath, object{"role": "member"})
		invite2.want(http.StatusCreated)
	})
}

func TestRefreshesOfASessionAreLimited(t *testing.T) {
	const most = 10
	each(t, func(t *testing.T, o *office) {
		l, other := o.launch(nil), o.launch(nil)
		body := l.setup()
		bystander := l.signIn()
		head := o.head()
		for i := range most {
			o.wait(time.Second)
			body = []*launched{l, other}[i%2].refresh(body["refresh_token"]).want(http.StatusOK)
		}
		for _, r := range []*launched{l, other} {
			a := r.refresh(body["refresh_token"])
			a.refused(http.StatusTooManyRequests, api.RateLimited)
			require.Equal(t, "51", a.header.Get("Retry-After"))
		}
		l.get(body.access(), "/auth/userinfo").want(http.StatusOK)
		require.Equal(t, head, o.head(), "not recorded")
		l.refresh(bystander["refresh_token"]).want(http.StatusOK)
		o.wait(51 * time.Second)
		body = l.refresh(body["refresh_token"]).want(http.StatusOK) // the token was not used up
		l.refresh(body["refresh_token"]).refused(http.StatusTooManyRequests, api.RateLimited)

		l.exec(`UPDATE refresh_tokens SET rotated_at = rotated_at + 31536000000000`) // under a clock that was ahead
		l.refresh(body["refresh_token"]).want(http.StatusOK)
	})
}
