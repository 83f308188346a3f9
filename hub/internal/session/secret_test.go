package session_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/db"
)

// tap stores all responses, with their headers.
type tap struct {
	next      http.RoundTripper
	mu        sync.Mutex
	responses []string
}

func (w *tap) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := w.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(res.Body)
	res.Body.Close()
	res.Body = io.NopCloser(bytes.NewReader(body))
	var text bytes.Buffer
	_ = res.Header.Write(&text)
	text.Write(body)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.responses = append(w.responses, text.String())
	return res, err
}

// dump returns the contents of the database.
func (s *server) dump() string {
	t := s.cluster.t
	var all strings.Builder
	if s.db.Engine() == db.SQLite {
		files, err := filepath.Glob(strings.TrimPrefix(s.cluster.url, "sqlite://") + "*")
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			all.Write(data)
		}
		return all.String()
	}
	var tables []string
	s.rows(`SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'`, func(text string) { tables = append(tables, text) })
	require.Greater(t, len(tables), 9)
	for _, table := range tables {
		s.rows(`SELECT CAST(t AS TEXT) FROM "`+table+`" t`, func(text string) { all.WriteString(text + "\n") })
	}
	return all.String()
}

func (s *server) rows(query string, each func(string)) {
	rows, err := s.db.Read().QueryContext(s.cluster.t.Context(), query)
	require.NoError(s.cluster.t, err)
	defer rows.Close()
	for rows.Next() {
		var text string
		require.NoError(s.cluster.t, rows.Scan(&text))
		each(text)
	}
	require.NoError(s.cluster.t, rows.Err())
}

func TestSecretsAreNeitherStoredNorReturned(t *testing.T) {
	const first, second, wrong = "the first Password 1 \u00e4", "the second Password 2", "a wrong Password 3"
	one(t, func(t *testing.T, c *cluster) {
		s := c.start(nil)
		w := &tap{next: s.http.Transport}
		s.http.Transport = w
		given := map[string]int{} // how many responses may have the secret
		plant := func(name int, secrets ...any) {
			for _, s := range secrets {
				given[s.(string)] = name
			}
		}
		setupToken := s.accounts.SetupToken()
		plant(0, first, second, wrong, setupToken)
		tokens := func(body object) object {
			plant(1, body["access_token"], body["refresh_token"], strings.Split(body.access(), ".")[2])
			return body
		}
		s.post("", "/auth/setup", object{"password": first, "setup_token": wrong, "username": "root"}).want(http.StatusUnauthorized)
		root := tokens(s.post("", "/auth/setup", object{"password": first, "setup_token": setupToken, "username": "root"}).want(http.StatusCreated))
		s.post("", "/auth/setup", object{"password": first, "setup_token": setupToken}).want(http.StatusConflict)
		s.login("root", wrong).want(http.StatusUnauthorized)
		body := tokens(s.login("root", first).want(http.StatusOK))
		body = tokens(s.refresh(body["refresh_token"]).want(http.StatusOK))
		s.post(body.access(), changePath, object{"old_password": wrong, "new_password": second}).want(http.StatusUnauthorized)
		s.post(body.access(), changePath, object{"old_password": first, "new_password": second}).want(http.StatusNoContent)
		s.get(root.access(), "/auth/userinfo").want(http.StatusUnauthorized)
		root = body
		invite := s.post(root.access(), invitesPath, object{"role": "maintainer"}).want(http.StatusCreated)
		plant(1, invite["token"])
		s.get("", "/auth/invite/"+invite.text("token")).want(http.StatusOK)
		s.get("", "/auth/invite/"+invite.text("token")+"/").want(http.StatusNotFound)
		mia := tokens(s.post("", "/auth/register", object{"token": invite["token"], "username": "mia", "password": second}).want(http.StatusCreated))
		_, cli := s.issue(user{token: mia.access()})
		plant(1, cli)
		s.get(cli, "/auth/sessions").want(http.StatusOK)
		s.get(cli, tokensPath).want(http.StatusOK)
		s.get(root.access(), usersPath).want(http.StatusOK)
		s.get(root.access(), invitesPath).want(http.StatusOK)
		path := usersPath + "/" + mia.object("user").text("id")
		s.get(root.access(), path+"/sessions").want(http.StatusOK)
		s.get(root.access(), path+"/tokens").want(http.StatusOK)
		reset := s.post(root.access(), path+"/reset-password", nil).want(http.StatusOK)
		plant(1, reset["password"])
		offline, err := s.accounts.ResetPassword(t.Context(), "mia")
		require.NoError(t, err)
		plant(0, offline)
		s.refresh(body["refresh_token"]).want(http.StatusOK)
		c.wait(time.Minute)
		s.refresh(body["refresh_token"]).want(http.StatusUnauthorized)
		s.post(mia.access(), "/auth/logout", nil).want(http.StatusUnauthorized)
		s.get("", "/.well-known/jwks.json").want(http.StatusOK)
		seed := s.signingKey().Seed()
		plant(0, string(seed), base64.RawURLEncoding.EncodeToString(seed))
		require.Greater(t, len(given), 20)

		dump, logs := s.dump(), s.logs.String()
		require.Contains(t, dump, "argon2id", "the dump is one")
		require.Contains(t, logs, "/auth/login", "the log is one")
		for secret, most := range given {
			for _, form := range []string{secret, hex.EncodeToString([]byte(secret)), base64.StdEncoding.EncodeToString([]byte(secret))} {
				require.NotContains(t, dump, form)
				require.NotContains(t, logs, form)
				n := 0
				for _, response := range w.responses {
					if strings.Contains(response, form) {
						n++
					}
				}
				require.LessOrEqual(t, n, most, "responses with %q", form)
			}
		}
	})
}
