package session_test

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
)

const verifier = "a verifier that only the program knows: 0123456789"

func challengeOf(verifier string) string {
	hash := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(hash[:])
}

// A page signs a program in with a code, which is exchanged once, soon, and only with the verifier.
func TestAPageSignsAProgramIn(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		root := s.setup()
		mia := s.cluster.join(user{token: root.access()}, "member", "mia")
		authorize := func() string {
			body := s.post(mia.token, "/auth/sessions", object{"code_challenge": challengeOf(verifier)}).want(http.StatusCreated)
			require.EqualValues(t, 60, body["expires_in"])
			return body.text("authorization_code")
		}
		exchange := func(handed, verifier string) response {
			return s.post("", "/auth/refresh", object{"refresh_token": handed, "code_verifier": verifier})
		}
		head := s.cluster.head()
		handed := authorize()
		require.True(t, strings.HasPrefix(s.cluster.log(head)[0], `auth.authorize_program mia {"sessionId":`))
		for _, wrong := range []string{"", "another verifier", challengeOf(verifier)} {
			exchange(handed, wrong).wantError(http.StatusUnauthorized, wire.Unauthenticated)
		}
		both := handed + "." + challengeOf(verifier) // what the address of the redirect has
		s.refresh(both).wantError(http.StatusUnauthorized, wire.Unauthenticated)
		s.post("", "/auth/logout", object{"refresh_token": both}).wantError(http.StatusUnauthorized, wire.Unauthenticated)
		signedIn := exchange(handed, verifier).want(http.StatusOK)
		require.Equal(t, "mia", signedIn["user"].(map[string]any)["username"])
		s.get(signedIn.access(), "/auth/userinfo").want(http.StatusOK)
		s.cluster.wait(time.Minute)
		next := s.refresh(signedIn["refresh_token"]).want(http.StatusOK)
		s.get(mia.token, "/auth/userinfo").want(http.StatusOK)

		exchange(handed, verifier).wantError(http.StatusUnauthorized, code.RefreshReused) // a minute later: it was copied
		s.refresh(next["refresh_token"]).wantError(http.StatusUnauthorized, wire.TokenRevoked)
		s.get(mia.token, "/auth/userinfo").want(http.StatusOK)

		late := authorize()
		s.cluster.wait(time.Minute)
		exchange(late, verifier).wantError(http.StatusUnauthorized, wire.TokenExpired)

		for _, challenge := range []string{"", "short", challengeOf(verifier) + "=", challengeOf(verifier) + "A", strings.Repeat("!", 43)} {
			s.post(mia.token, "/auth/sessions", object{"code_challenge": challenge}).wantError(http.StatusBadRequest, wire.ValidationFailed)
		}
		s.post("", "/auth/sessions", object{"code_challenge": challengeOf(verifier)}).wantError(http.StatusUnauthorized, wire.Unauthenticated)
		_, cli := s.issue(user{token: s.signIn().access()})
		s.post(cli, "/auth/sessions", object{"code_challenge": challengeOf(verifier)}).wantError(http.StatusForbidden, wire.Forbidden)
	})
}

// The session of a program ends when that of the page would, at the latest.
func TestTheSessionOfAProgramHasTheLimitOfThePage(t *testing.T) {
	oneServer(t, func(t *testing.T, s *server) {
		page := s.setup()
		const day = 24 * time.Hour
		for range 8 {
			s.cluster.wait(10 * day)
			page = s.refresh(page["refresh_token"]).want(http.StatusOK)
		}
		code := s.post(page.access(), "/auth/sessions", object{"code_challenge": challengeOf(verifier)}).want(http.StatusCreated)
		program := s.post("", "/auth/refresh", object{"refresh_token": code["authorization_code"], "code_verifier": verifier}).want(http.StatusOK)
		require.EqualValues(t, 10*day/time.Second, program["refresh_expires_in"])
		s.cluster.wait(10 * day)
		s.refresh(program["refresh_token"]).wantError(http.StatusUnauthorized, wire.TokenExpired)
	})
}

// Codes that are not exchanged end no session of their user: the newest three are valid. A session
// of an exchanged code counts as any other.
func TestCodesEndNoSession(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		first := s.setup()
		s.exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 98)
			INSERT INTO sessions (id, tenant_id, user_id, created_at, last_used_at, idle_until, expires_at, remote_ip, network, user_agent)
			SELECT 'filler-' || i, tenant_id, user_id, created_at + i, last_used_at, idle_until, expires_at, '', '', '' FROM sessions, n`)
		s.cluster.wait(time.Second)
		page := s.signIn()
		var codes []string
		for range 5 {
			s.cluster.wait(time.Second)
			codes = append(codes, s.post(page.access(), "/auth/sessions", object{"code_challenge": challengeOf(verifier)}).want(http.StatusCreated).text("authorization_code"))
		}
		exchange := func(code string) response {
			return s.post("", "/auth/refresh", object{"refresh_token": code, "code_verifier": verifier})
		}
		s.get(first.access(), "/auth/userinfo").want(http.StatusOK)
		for _, old := range codes[:2] {
			exchange(old).wantError(http.StatusUnauthorized, wire.Unauthenticated)
		}
		exchange(codes[4]).want(http.StatusOK)
		s.get(first.access(), "/auth/userinfo").wantError(http.StatusUnauthorized, wire.TokenRevoked)
		s.get(page.access(), "/auth/userinfo").want(http.StatusOK)
		exchange(codes[3]).want(http.StatusOK)
	})
}

// A code is worth nothing after the end of the session that authorized it. The session of an
// exchanged code continues.
func TestACodeEndsWithItsPage(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		s.setup()
		page := s.signIn()
		authorize := func() object {
			code := s.post(page.access(), "/auth/sessions", object{"code_challenge": challengeOf(verifier)}).want(http.StatusCreated)
			return object{"refresh_token": code["authorization_code"], "code_verifier": verifier}
		}
		program := s.post("", "/auth/refresh", authorize()).want(http.StatusOK)
		code := authorize()
		s.post(page.access(), "/auth/logout", nil).want(http.StatusNoContent)
		s.post("", "/auth/refresh", code).wantError(http.StatusUnauthorized, wire.TokenRevoked)
		s.refresh(program["refresh_token"]).want(http.StatusOK)
	})
}
