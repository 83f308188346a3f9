package hub_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub"
)

// A member in a loop cannot fill the audit log with denials.
func TestDenialsAreLimited(t *testing.T) {
	const most = 60
	url := sqlite(t)
	var passed atomic.Int64
	start := time.Now()
	s := open(t, url, func(c *hub.Config) {
		c.Now = func() time.Time { return start.Add(time.Duration(passed.Load())) }
	})
	admin := s.setUp()
	mia, ada := s.join(admin, "member", "mia"), s.join(admin, "member", "ada")
	denied := func(token string) response {
		return s.call("POST", "/api/v1/admin/users", token, `{}`)
	}
	for range most - 1 {
		denied(mia).wantError(http.StatusForbidden, "forbidden")
	}
	passed.Add(int64(20 * time.Second))
	s.call("POST", "/api/v1/admin/invites", mia, `{}`).wantError(http.StatusForbidden, "forbidden")
	recorded := func() any {
		return s.call("GET", "/api/v1/admin/audit-logs", admin, "").want(http.StatusOK)["total"]
	}
	before := recorded()
	for range 5 {
		res := denied(mia)
		res.wantError(http.StatusTooManyRequests, "rate_limited")
		require.Equal(t, "40", res.header.Get("Retry-After"))
	}
	require.Equal(t, before, recorded())
	require.Len(t, s.details(admin, "user.denied"), min(most-1, 20), "the first page")
	require.EqualValues(t, most-1, s.call("GET", "/api/v1/admin/audit-logs?action=user.denied", admin, "").want(http.StatusOK)["total"])
	denied(ada).wantError(http.StatusForbidden, "forbidden")
	s.call("GET", "/auth/userinfo", mia, "").want(http.StatusOK)
	passed.Add(int64(40 * time.Second))
	denied(mia).wantError(http.StatusForbidden, "forbidden")
	require.NotContains(t, s.log.String(), "level=ERROR")
}

// The rates of messages, pushes and sign-ins of programs are those of the configuration, and have a
// default.
func TestMessagesAreRated(t *testing.T) {
	s := open(t, sqlite(t), func(c *hub.Config) { c.UserRequests = 2 })
	admin := s.setUp()
	for _, left := range []string{"1", "0"} {
		res := s.call("POST", pushChats, admin, `{"sessions":[]}`)
		res.want(http.StatusOK)
		require.Equal(t, `"user";q=2;w=60, "address";q=3000;w=60`, res.header.Get("RateLimit-Policy"))
		require.Regexp(t, `^"user";r=`+left+`;t=\d+, "address";r=\d+;t=\d+$`, res.header.Get("RateLimit"))
	}
	s.call("POST", pushChats, admin, `{"sessions":[]}`).wantError(http.StatusTooManyRequests, "rate_limited")
	s.call("POST", chats+"/0/messages", admin, `{"message":"hello"}`).wantError(http.StatusTooManyRequests, "rate_limited")
	const sessions, challenge = "/auth/sessions", `{"code_challenge":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}`
	refused := s.call("POST", sessions, admin, challenge)
	refused.wantError(http.StatusTooManyRequests, "rate_limited")
	require.Regexp(t, `^[1-9]\d*$`, refused.header.Get("Retry-After"))
	s.call("GET", sessions, admin, "").want(http.StatusOK)
	s.call("GET", chats, s.join(admin, "member", "mia"), "").wantError(http.StatusNotFound, "not_found")

	s = open(t, sqlite(t), func(c *hub.Config) { c.UserRequests, c.AddressRequests = -1, -1 })
	require.Empty(t, s.call("POST", pushChats, s.setUp(), `{"sessions":[]}`).header.Get("RateLimit"))
}
