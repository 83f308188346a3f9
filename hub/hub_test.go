package hub_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub"
	"github.com/seed93082962/agenthost/hub/db/dbtest"
	"github.com/seed93082962/agenthost/hub/secret"
)

func TestHealth(t *testing.T) {
	each(t, func(t *testing.T, s *site, _ string) {
		body := s.call("GET", "/health", "", "").want(http.StatusOK)
		require.Equal(t, "ok", body["status"])
		require.Equal(t, "1.2.3", body["version"])
		require.Contains(t, body, "uptimeMs")
		require.Equal(t, "ready", s.call("GET", "/health/ready", "", "").want(http.StatusOK)["status"])
		require.NoError(t, s.Drain(t.Context()))
		require.Equal(t, "draining", s.call("GET", "/health/ready", "", "").want(http.StatusServiceUnavailable)["status"])
		s.call("GET", "/health", "", "").want(http.StatusOK)
	})
}

// Without its database the hub is unavailable, and sessions remain valid.
func TestALostDatabase(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, url string) {
		s := open(t, url)
		admin := s.setUp()
		require.NoError(t, s.Close())
		s.call("GET", "/health", "", "").want(http.StatusOK)
		require.Equal(t, "unavailable", s.call("GET", "/health/ready", "", "").want(http.StatusServiceUnavailable)["status"])
		a := s.call("GET", "/api/v1/admin/users", admin, "")
		a.refused(http.StatusServiceUnavailable, "unavailable")
		require.Equal(t, "1", a.header.Get("Retry-After"))
		s.call("POST", "/auth/login", "", `{"username":"admin","password":"`+password+`"}`).refused(http.StatusServiceUnavailable, "unavailable")
	})
}

func TestOneErrorShape(t *testing.T) {
	each(t, func(t *testing.T, s *site, admin string) {
		s.call("GET", "/nothing/here", "", "").refused(http.StatusNotFound, "not_found")
		s.call("GET", "/api/v1/ops/tenant-clients", admin, "").refused(http.StatusNotFound, "not_found")
		s.call("GET", "/auth/login", "", "").refused(http.StatusNotFound, "not_found") // that of the other mode
		a := s.call("PUT", "/auth/mode", "", "")
		a.refused(http.StatusMethodNotAllowed, "method_not_allowed")
		require.Equal(t, "GET, HEAD", a.header.Get("Allow"))
		a = s.call("GET", "/auth/userinfo", "", "")
		a.refused(http.StatusUnauthorized, "unauthenticated")
		require.Equal(t, "Bearer", a.header.Get("WWW-Authenticate"))
		s.call("POST", "/auth/login", "", `{"username":`).refused(http.StatusBadRequest, "invalid_request")
		s.call("POST", "/auth/login", "", `{"username":1}`).refused(http.StatusBadRequest, "invalid_request")
		s.call("POST", "/auth/login", "", `{"username":"`+string(make([]byte, 1<<20))+`"}`).refused(http.StatusRequestEntityTooLarge, "payload_too_large")
		s.call("POST", "/api/v1/admin/users", admin, `{"username":"a\u0007b","password":"`+password+`","role":"member"}`).refused(http.StatusBadRequest, "validation_failed")
		for range 5 {
			s.call("POST", "/auth/login", "", `{"username":"admin","password":"wrong one"}`).refused(http.StatusUnauthorized, "invalid_credentials")
		}
		a = s.call("POST", "/auth/login", "", `{"username":"admin","password":"`+password+`"}`)
		a.refused(http.StatusTooManyRequests, "rate_limited")
		require.NotEmpty(t, a.header.Get("Retry-After"))
	})
}

func TestNewRefuses(t *testing.T) {
	for name, row := range map[string]struct {
		change hub.Config
		want   string
	}{
		"no key":      {hub.Config{DatabaseURL: dbtest.SQLite(t), PublicURL: "http://x"}, "read encryption keys"},
		"a bad URL":   {hub.Config{DatabaseURL: "hub.db", EncryptionKeys: []string{secret.Generate()}, PublicURL: "http://x"}, "sqlite://"},
		"no address":  {hub.Config{DatabaseURL: dbtest.SQLite(t), EncryptionKeys: []string{secret.Generate()}}, "PublicURL is required"},
		"no database": {hub.Config{DatabaseURL: "postgres://127.0.0.1:1/x", EncryptionKeys: []string{secret.Generate()}, PublicURL: "http://x"}, "the database is unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := hub.New(t.Context(), row.change)
			require.ErrorContains(t, err, row.want)
		})
	}
}
