package session_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/wire"
)

func TestSessionsOfAUserAreLimited(t *testing.T) {
	const most = 100
	each(t, func(t *testing.T, c *cluster) {
		s, other := c.start(nil), c.start(nil)
		first := s.setup()
		c.wait(time.Minute)
		second := s.signIn()
		for range most - 4 { // rows of ended and live sessions, which cost no hash
			s.exec(`INSERT INTO sessions (id, tenant_id, user_id, created_at, last_used_at, idle_until, expires_at, remote_ip, network, user_agent)
				SELECT $1, tenant_id, user_id, $2, $2, idle_until, expires_at, '', '', '' FROM sessions WHERE user_id = $3 LIMIT 1`,
				fmt.Sprintf("filler-%d", c.passed.Add(1000)), c.now().UnixMicro(), first.object("user")["id"])
		}
		c.wait(time.Minute)
		s.get(first.access(), "/auth/userinfo").want(http.StatusOK)
		responses := atOnce(4, func(i int) response { return []*server{s, other}[i%2].login("root", password) })
		require.Equal(t, map[string]int{"OK": 4}, statuses(responses))
		require.Equal(t, most, s.count(`SELECT COUNT(*) FROM sessions WHERE revoked_at IS NULL`))
		require.Equal(t, 2, s.count(`SELECT COUNT(*) FROM sessions WHERE revoked_why = 'limit'`))
		c.wait(2 * time.Second) // until the other replica reads the change
		for _, body := range []object{first, second} {
			s.get(body.access(), "/auth/userinfo").wantError(http.StatusUnauthorized, wire.TokenRevoked)
		}
		for _, res := range responses {
			s.get(res.body.access(), "/auth/userinfo").want(http.StatusOK)
		}

		// Ended sessions do not accumulate either.
		s.exec(`UPDATE sessions SET revoked_at = 1, revoked_why = 'logout' WHERE id LIKE 'filler-%'`)
		for range 10 {
			s.post(s.signIn().access(), "/auth/logout", nil).want(http.StatusNoContent)
		}
		require.Equal(t, most, s.count(`SELECT COUNT(*) FROM sessions WHERE revoked_at IS NOT NULL`)-1, "and the one that ended last")
	})
}

// The process that evicts a session rejects its token immediately.
func TestAnEvictedSessionEndsImmediately(t *testing.T) {
	t.Parallel()
	s := onSQLite(t, nil)
	first := s.setup()
	s.cluster.wait(time.Second)
	s.exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 99)
		INSERT INTO sessions (id, tenant_id, user_id, created_at, last_used_at, idle_until, expires_at, remote_ip, network, user_agent)
		SELECT 'filler-' || i, tenant_id, user_id, created_at + i, last_used_at, idle_until, expires_at, '', '', '' FROM sessions, n`)
	s.get(first.access(), "/auth/userinfo").want(http.StatusOK)
	s.signIn()
	s.get(first.access(), "/auth/userinfo").wantError(http.StatusUnauthorized, wire.TokenRevoked)
}

func TestCLITokensOfAUserAreLimited(t *testing.T) {
	const most = 100
	eachWithRoot(t, func(t *testing.T, c *cluster, root user) {
		maintainer := c.join(root, "maintainer", "mia")
		issue := func(u user) response { return c.post(u.token, issuePath, object{"name": "ci", "expiresInDays": 1}) }
		for range most - 2 {
			issue(root).want(http.StatusCreated)
		}
		responses := atOnce(4, func(int) response { return issue(root) })
		require.Equal(t, map[string]int{"Created": 2, "conflict": 2}, statuses(responses))
		head := c.head()
		issue(root).wantError(http.StatusConflict, wire.Conflict)
		require.Equal(t, head, c.head())
		issue(maintainer).want(http.StatusCreated)
		id := c.get(root.token, tokensPath).want(http.StatusOK).items()[0].text("id")
		c.delete(root.token, tokensPath+"/"+id).want(http.StatusNoContent)
		issue(root).want(http.StatusCreated)
		issue(root).wantError(http.StatusConflict, wire.Conflict)
		c.wait(day)
		c.exec(`UPDATE sessions SET idle_until = 9000000000000000, expires_at = 9000000000000000`)
		issue(user{token: c.login("root", password).want(http.StatusOK).access()}).want(http.StatusCreated) // the others have expired

		c.exec(`UPDATE cli_tokens SET revoked_at = 1`)
		issue(user{token: c.login("root", password).want(http.StatusOK).access()}).want(http.StatusCreated)
		require.Equal(t, most, c.count(`SELECT COUNT(*) FROM cli_tokens WHERE revoked_at IS NOT NULL AND user_id = $1`, root.id), "revoked ones do not accumulate")
	})
}

func TestOpenInvitesAreLimited(t *testing.T) {
	const most = 1000
	eachWithRoot(t, func(t *testing.T, c *cluster, root user) {
		invite := func() response { return c.post(root.token, invitesPath, object{"role": "member"}) }
		last := invite().want(http.StatusCreated)
		c.exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 997)
			INSERT INTO invites (id, tenant_id, token_hash, role, created_by, created_by_name, created_at, expires_at)
			SELECT 'filler-' || i, tenant_id, CAST('filler-' || i AS ` + map[string]string{"sqlite": "BLOB", "postgres": "BYTEA"}[string(c.db.Engine())] + `), role, 'x', 'x', created_at, expires_at FROM invites, n`)
		responses := atOnce(4, func(int) response { return invite() })
		require.Equal(t, map[string]int{"Created": 2, "conflict": 2}, statuses(responses))
		head := c.head()
		invite().wantError(http.StatusConflict, wire.Conflict)
		require.Equal(t, head, c.head())
		require.Equal(t, most, c.count(`SELECT COUNT(*) FROM invites`))
		c.register(last["token"], "mia").want(http.StatusCreated)
		invite().want(http.StatusCreated)
		c.wait(7 * day)
		invite2 := c.post(c.login("root", password).want(http.StatusOK).access(), invitesPath, object{"role": "member"})
		invite2.want(http.StatusCreated)
	})
}

func TestRefreshesOfASessionAreLimited(t *testing.T) {
	const most = 10
	one(t, func(t *testing.T, c *cluster) {
		s, other := c.start(nil), c.start(nil)
		body := s.setup()
		bystander := s.signIn()
		head := c.head()
		for i := range most {
			c.wait(time.Second)
			body = []*server{s, other}[i%2].refresh(body["refresh_token"]).want(http.StatusOK)
		}
		for _, r := range []*server{s, other} {
			res := r.refresh(body["refresh_token"])
			res.wantError(http.StatusTooManyRequests, wire.RateLimited)
			require.Equal(t, "51", res.header.Get("Retry-After"))
		}
		s.get(body.access(), "/auth/userinfo").want(http.StatusOK)
		require.Equal(t, head, c.head(), "not recorded")
		s.refresh(bystander["refresh_token"]).want(http.StatusOK)
		c.wait(51 * time.Second)
		body = s.refresh(body["refresh_token"]).want(http.StatusOK) // the token was not used up
		s.refresh(body["refresh_token"]).wantError(http.StatusTooManyRequests, wire.RateLimited)

		s.exec(`UPDATE refresh_tokens SET rotated_at = rotated_at + 31536000000000`) // under a clock that was ahead
		s.refresh(body["refresh_token"]).want(http.StatusOK)
	})
}
