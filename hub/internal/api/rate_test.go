package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/rbac"
)

func TestRates(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	handle := func(w http.ResponseWriter, r *http.Request) error {
		if r.Header.Get("Fail") != "" {
			return wire.Conflict
		}
		return api.NoContent(w)
	}
	handler, err := api.New(api.Config{
		UserRate: 3, AddressRate: 5, Now: func() time.Time { return now }, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
		Authenticate: func(r *http.Request) (api.Caller, error) {
			name := api.Bearer(r)
			return api.Caller{TenantID: "acme", UserID: name, UserName: name, RoleNow: rbac.Member}, nil
		},
	},
		api.Route{Method: "POST", Path: "/messages", Access: api.SignedIn, KeyHeader: "X-Key", Rated: true, Handle: handle},
		api.Route{Method: "GET", Path: "/messages", Access: api.SignedIn, Handle: handle},
		api.Route{Method: "PUT", Path: "/messages", Access: api.Open, Handle: func(w http.ResponseWriter, r *http.Request) error {
			if err := api.TakeRate(w, r); err != nil {
				return err
			}
			return handle(w, r)
		}},
	)
	require.NoError(t, err)
	send := func(method, user, address string, headers ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, "/messages", http.NoBody)
		r.RemoteAddr = "10.0.0.1:80"
		r.Header.Set("X-Forwarded-For", address)
		r.Header.Set("Authorization", "Bearer "+user)
		for _, name := range headers {
			r.Header.Set(name, "1")
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w
	}
	require.Empty(t, send("GET", "ada", "192.0.2.1").Header().Get("RateLimit"), "the route is not rated")
	const policy = `"user";q=3;w=60, "address";q=5;w=60`
	for i := range 3 {
		now = now.Add(time.Second / 2)
		w := send("POST", "ada", "192.0.2.1", []string{"Fail"}[:i%2]...)
		require.Equal(t, []int{204, 409}[i%2], w.Code)
		require.Equal(t, policy, w.Header().Get("RateLimit-Policy"))
		require.Equal(t, fmt.Sprintf(`"user";r=%d;t=%d, "address";r=%d;t=%d`, 2-i, []int{60, 60, 59}[i], 4-i, []int{60, 60, 59}[i]), w.Header().Get("RateLimit"))
	}
	w := send("POST", "ada", "192.0.2.1")
	require.Equal(t, "rate_limited", faultOf(t, w).Code)
	require.Equal(t, http.StatusTooManyRequests, w.Code)
	require.Equal(t, []string{"59", `"user";q=3;w=60`, `"user";r=0;t=59`}, []string{
		w.Header().Get("Retry-After"), w.Header().Get("RateLimit-Policy"), w.Header().Get("RateLimit"),
	})
	send("GET", "ada", "192.0.2.1")
	require.Equal(t, http.StatusTooManyRequests, send("POST", "ada", "192.0.2.2").Code, "at another address")
	require.Equal(t, 204, send("POST", "bob", "192.0.2.1").Code, "the rejected request did not count for the address")
	w = send("POST", "", "192.0.2.1", "X-Key")
	require.Equal(t, []any{204, `"address";r=0;t=59`}, []any{w.Code, w.Header().Get("RateLimit")}, "a program with a key has no user")
	require.Equal(t, http.StatusTooManyRequests, send("POST", "", "192.0.2.1", "X-Key").Code)
	w = send("POST", "bob", "192.0.2.1")
	require.Equal(t, []any{429, `"user";r=1;t=60, "address";r=0;t=59`}, []any{w.Code, w.Header().Get("RateLimit")})
	require.Contains(t, w.Body.String(), "this address")

	for i := range 5 {
		require.Equal(t, 204, send("POST", fmt.Sprint("user", i), fmt.Sprintf("2001:db8::%d", i)).Code)
	}
	require.Equal(t, 429, send("POST", "user6", "2001:db8::ffff:1").Code, "of the same /64")
	require.Equal(t, 204, send("POST", "user7", "2001:db8:0:1::1").Code)
	now = now.Add(59 * time.Second)
	require.Equal(t, 204, send("POST", "ada", "192.0.2.1").Code, "the next window")

	for i := range 5 {
		w := send("PUT", "", "192.0.2.9")
		require.Equal(t, []any{204, fmt.Sprintf(`"address";r=%d;t=60`, 4-i)}, []any{w.Code, w.Header().Get("RateLimit")})
	}
	require.Equal(t, 429, send("PUT", "", "192.0.2.9").Code, "a handler that authenticates its callers")
}

// A flood of addresses does not fill the memory.
func TestRatesHaveBoundedMemory(t *testing.T) {
	t.Parallel()
	now := time.Now()
	limiter := api.NewLimiter(1, func() time.Time { return now })
	require.False(t, limiter.Count("a").Exceeded)
	require.True(t, limiter.Count("a").Exceeded)
	for i := range 1 << 14 {
		require.Equal(t, 0, limiter.Count(fmt.Sprint(i)).Remaining)
	}
	require.False(t, limiter.Count("a").Exceeded, "all keys were removed")
}
