package hub_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/secret"
)

func TestHealth(t *testing.T) {
	s, _ := started(t)
	body := s.call("GET", "/health", "", "").want(http.StatusOK)
	require.Equal(t, "ok", body["status"])
	require.Equal(t, "1.2.3", body["version"])
	require.Contains(t, body, "uptimeMs")
	require.Equal(t, "ready", s.call("GET", "/health/ready", "", "").want(http.StatusOK)["status"])
	require.NoError(t, s.Drain(t.Context()))
	require.Equal(t, "draining", s.call("GET", "/health/ready", "", "").want(http.StatusServiceUnavailable)["status"])
	s.call("GET", "/health", "", "").want(http.StatusOK)
}

// Without its database the hub is unavailable, and sessions remain valid.
func TestALostDatabase(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, url string) {
		s := open(t, url)
		admin := s.setUp()
		require.NoError(t, s.Close())
		s.call("GET", "/health", "", "").want(http.StatusOK)
		require.Equal(t, "unavailable", s.call("GET", "/health/ready", "", "").want(http.StatusServiceUnavailable)["status"])
		res := s.call("GET", "/api/v1/admin/users", admin, "")
		res.wantError(http.StatusServiceUnavailable, "unavailable")
		require.Equal(t, "1", res.header.Get("Retry-After"))
		s.call("POST", "/auth/login", "", `{"username":"admin","password":"`+password+`"}`).wantError(http.StatusServiceUnavailable, "unavailable")
	})
}

func TestOneErrorShape(t *testing.T) {
	s, admin := started(t)
	s.call("GET", "/nothing/here", "", "").wantError(http.StatusNotFound, "not_found")
	s.call("GET", "/api/v1/ops/tenant-clients", admin, "").wantError(http.StatusNotFound, "not_found")
	s.call("GET", "/auth/login", "", "").wantError(http.StatusNotFound, "not_found") // that of the other mode
	res := s.call("PUT", "/auth/mode", "", "")
	res.wantError(http.StatusMethodNotAllowed, "method_not_allowed")
	require.Equal(t, "GET, HEAD", res.header.Get("Allow"))
	res = s.call("GET", "/auth/userinfo", "", "")
	res.wantError(http.StatusUnauthorized, "unauthenticated")
	require.Equal(t, "Bearer", res.header.Get("WWW-Authenticate"))
	s.call("POST", "/auth/login", "", `{"username":`).wantError(http.StatusBadRequest, "invalid_request")
	s.call("POST", "/auth/login", "", `{"username":1}`).wantError(http.StatusBadRequest, "invalid_request")
	s.call("POST", "/auth/login", "", `{"username":"`+string(make([]byte, 1<<20))+`"}`).wantError(http.StatusRequestEntityTooLarge, "payload_too_large")
	s.call("POST", "/api/v1/admin/users", admin, `{"username":"a\u0007b","password":"`+password+`","role":"member"}`).wantError(http.StatusBadRequest, "validation_failed")
	for range 5 {
		s.call("POST", "/auth/login", "", `{"username":"admin","password":"wrong one"}`).wantError(http.StatusUnauthorized, "invalid_credentials")
	}
	res = s.call("POST", "/auth/login", "", `{"username":"admin","password":"`+password+`"}`)
	res.wantError(http.StatusTooManyRequests, "rate_limited")
	require.NotEmpty(t, res.header.Get("Retry-After"))
}

func TestNewRejectsAnInvalidConfiguration(t *testing.T) {
	for name, row := range map[string]struct {
		change hub.Config
		want   string
	}{
		"no key":      {hub.Config{DatabaseURL: sqlite(t), PublicURL: "http://x"}, "read encryption keys"},
		"a bad URL":   {hub.Config{DatabaseURL: "hub.db", EncryptionKeys: []string{secret.Generate()}, PublicURL: "http://x"}, "sqlite://"},
		"no address":  {hub.Config{DatabaseURL: sqlite(t), EncryptionKeys: []string{secret.Generate()}}, "PublicURL is required"},
		"no database": {hub.Config{DatabaseURL: "postgres://127.0.0.1:1/x", EncryptionKeys: []string{secret.Generate()}, PublicURL: "http://x"}, "the database is unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := hub.New(t.Context(), row.change)
			require.ErrorContains(t, err, row.want)
		})
	}
}
