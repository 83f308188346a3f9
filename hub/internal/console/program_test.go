package console_test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// The page of agenthost login --browser asks the user, and sends the code of a session to the
// program on this computer.
func TestAPageSignsAProgramIn(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.setUp()
	received := make(chan url.Values, 2)
	program := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, `<!DOCTYPE html><title>program</title><link rel="icon" href="data:,"><p>The program is signed in.`)
		if r.URL.Path == "/" {
			received <- r.URL.Query()
		}
	}))
	t.Cleanup(program.Close)
	address, err := url.Parse(program.URL)
	require.NoError(t, err)
	const verifier = "a verifier that only the program knows: 0123456789"
	hash := sha256.Sum256([]byte(verifier))
	challenge := base64.RawURLEncoding.EncodeToString(hash[:])

	b := newTab(t)
	b.open(s.url + "/console/cli/" + address.Port() + "/" + challenge)
	b.signIn("root", password)
	b.see("Sign agenthost in?")
	b.see(challenge[:8])
	b.see("Admin")
	b.fits()
	b.click(".page .buttons .primary")
	b.see("The program is signed in.")
	values := <-received
	require.Equal(t, challenge, values.Get("state"))
	login := s.call("POST", "/auth/refresh", "", map[string]string{"refresh_token": values.Get("code"), "code_verifier": verifier}, http.StatusOK)
	require.Equal(t, "root", login["user"].(map[string]any)["username"])

	b.open(s.url + "/console/cli/" + address.Port() + "/" + challenge)
	b.see("Sign agenthost in?")
	b.click(".page .buttons button:not(.primary)")
	b.see("The program is signed in.")
	values = <-received
	require.Equal(t, "access_denied", values.Get("error"))
	require.Empty(t, values.Get("code"))
	for _, path := range []string{"80/" + challenge, "123456/" + challenge, address.Port() + "/short", "evil.example/" + challenge} {
		b.open(s.url + "/console/cli/" + path)
		b.see("This address is not complete.")
	}
	b.clean(s.url, program.URL)
}
