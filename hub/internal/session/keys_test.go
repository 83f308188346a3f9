package session_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/internal/token"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/secret"
)

// A replica whose keyring was left behind when the others' was changed continues with the keys that
// it knows.
func TestAReplicaWithAnOldKeyringContinues(t *testing.T) {
	one(t, func(t *testing.T, c *cluster) {
		behind := c.start(nil)
		behind.setup()
		former, next := c.keys, secret.Generate()
		c.keys = next + "," + former
		n, err := c.start(nil).store.Reseal(t.Context(), token.Sealed()...)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		c.keys = next
		alone := c.start(nil)
		serves := func() {
			t.Helper()
			body := behind.signIn()
			body = behind.refresh(body["refresh_token"]).want(http.StatusOK)
			behind.get("", "/.well-known/jwks.json").want(http.StatusOK)
			alone.get(body.access(), usersPath).want(http.StatusOK)
			body = alone.signIn()
			behind.get(body.access(), usersPath).want(http.StatusOK)
		}
		warnings := func() int { return strings.Count(behind.logs.String(), "a signing key cannot be opened") }
		c.wait(time.Minute)
		serves()
		serves()
		unknown := forge(t, object{"alg": "EdDSA", "typ": "at+jwt", "kid": "018f0000-0000-7000-8000-000000000000"}, object{}, func(string) []byte { return nil })
		behind.get(unknown, "/auth/userinfo").wantError(http.StatusUnauthorized, wire.Unauthenticated)
		require.Equal(t, 1, warnings(), "once a minute, however often the keys are read")
		c.wait(time.Minute)
		serves()
		require.Equal(t, 2, warnings())

		c.wait(90 * day)
		behind.signIn()
		require.Equal(t, 1, behind.count(`SELECT COUNT(*) FROM signing_keys`), "it makes no key that the others cannot open")
		alone.signIn()
		require.Equal(t, 2, behind.count(`SELECT COUNT(*) FROM signing_keys`))
		c.wait(time.Minute)
		serves()
		c.wait(time.Minute + time.Second)
		behind.login("root", password).wantError(http.StatusInternalServerError, code.InternalError)
		token := alone.signIn().access()
		for _, path := range []string{usersPath, "/auth/userinfo", "/auth/mode", "/.well-known/jwks.json"} {
			behind.get(token, path).want(http.StatusOK)
		}
	})
}

// A row that is damaged while a hub runs is logged, and has no other effect until its next start.
func TestAKeyThatIsDamagedMeanwhile(t *testing.T) {
	t.Parallel()
	s := onSQLite(t, nil)
	s.setup()
	for _, damage := range []string{"public_key = zeroblob(32)", "public_key = zeroblob(5)", "private_sealed = zeroblob(60)"} {
		t.Run(damage, func(t *testing.T) {
			s.exec(`UPDATE signing_keys SET ` + damage)
			s.cluster.wait(time.Minute)
			s.get(s.signIn().access(), "/auth/userinfo").want(http.StatusOK)
			s.get("", "/.well-known/jwks.json").want(http.StatusOK)
			_, err := token.New(t.Context(), s.store)
			require.Error(t, err)
		})
	}
}

// Unknown key ids cost one database read a second, for any number of tokens.
func TestUnknownKeysAreReadOnceASecond(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		token := s.setup().access()
		unknown := func(status int) {
			t.Helper()
			header := object{"alg": "EdDSA", "typ": "at+jwt", "kid": "018f0000-0000-7000-8000-000000000000"}
			s.get(forge(t, header, object{}, func(string) []byte { return nil }), "/auth/userinfo").want(status)
			s.get(token, "/auth/userinfo").want(http.StatusOK)
		}
		unknown(http.StatusUnauthorized)
		s.exec(`ALTER TABLE signing_keys RENAME TO taken_away`)
		unknown(http.StatusUnauthorized)
		s.cluster.wait(time.Second)
		unknown(http.StatusInternalServerError)
		s.exec(`ALTER TABLE taken_away RENAME TO signing_keys`)
		unknown(http.StatusInternalServerError)
		s.cluster.wait(time.Second)
		unknown(http.StatusUnauthorized)
	})
}
