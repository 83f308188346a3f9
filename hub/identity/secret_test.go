package identity_test

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

	"github.com/seed93082962/agenthost/hub/db"
)

// tap stores all responses, with their headers.
type tap struct {
	next    http.RoundTripper
	mu      sync.Mutex
	answers []string
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
	w.answers = append(w.answers, text.String())
	return res, err
}

// dump returns the contents of the database.
func (l *launched) dump() string {
	t := l.o.t
	var all strings.Builder
	if l.db.Engine() == db.SQLite {
		files, err := filepath.Glob(strings.TrimPrefix(l.o.url, "sqlite://") + "*")
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
	l.rows(`SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'`, func(text string) { tables = append(tables, text) })
	require.Greater(t, len(tables), 9)
	for _, table := range tables {
		l.rows(`SELECT CAST(t AS TEXT) FROM "`+table+`" t`, func(text string) { all.WriteString(text + "\n") })
	}
	return all.String()
}

func (l *launched) rows(query string, each func(string)) {
	rows, err := l.db.Read().QueryContext(l.o.t.Context(), query)
	require.NoError(l.o.t, err)
	defer rows.Close()
	for rows.Next() {
		var text string
		require.NoError(l.o.t, rows.Scan(&text))
		each(text)
	}
	require.NoError(l.o.t, rows.Err())
}

func TestNoSecretIsKeptOrTold(t *testing.T) {
	const first, second, wrong = "the first Password 1 \u00e4", "the second Password 2", "a wrong Password 3"
	each(t, func(t *testing.T, o *office) {
		l := o.launch(nil)
		w := &tap{next: l.http.Transport}
		l.http.Transport = w
		given := map[string]int{} // how many responses may have the secret
		plant := func(name int, secrets ...any) {
			for _, s := range secrets {
				given[s.(string)] = name
			}
		}
		setupToken := l.service.SetupToken()
		plant(0, first, second, wrong, setupToken)
		tokens := func(body object) object {
			plant(1, body["access_token"], body["refresh_token"], strings.Split(body.access(), ".")[2])
			return body
		}
		l.post("", "/auth/setup", object{"password": first, "setup_token": wrong, "username": "root"}).want(http.StatusUnauthorized)
		root := tokens(l.post("", "/auth/setup", object{"password": first, "setup_token": setupToken, "username": "root"}).want(http.StatusCreated))
		l.post("", "/auth/setup", object{"password": first, "setup_token": setupToken}).want(http.StatusConflict)
		l.login("root", wrong).want(http.StatusUnauthorized)
		body := tokens(l.login("root", first).want(http.StatusOK))
		body = tokens(l.refresh(body["refresh_token"]).want(http.StatusOK))
		l.post(body.access(), changePath, object{"old_password": wrong, "new_password": second}).want(http.StatusUnauthorized)
		l.post(body.access(), changePath, object{"old_password": first, "new_password": second}).want(http.StatusNoContent)
		l.get(root.access(), "/auth/userinfo").want(http.StatusUnauthorized)
		root = body
		invite := l.post(root.access(), invitesPath, object{"role": "maintainer"}).want(http.StatusCreated)
		plant(1, invite["token"])
		l.get("", "/auth/invite/"+invite.text("token")).want(http.StatusOK)
		l.get("", "/auth/invite/"+invite.text("token")+"/").want(http.StatusNotFound)
		mia := tokens(l.post("", "/auth/register", object{"token": invite["token"], "username": "mia", "password": second}).want(http.StatusCreated))
		_, cli := l.issue(person{token: mia.access()})
		plant(1, cli)
		l.get(cli, "/auth/sessions").want(http.StatusOK)
		l.get(cli, tokensPath).want(http.StatusOK)
		l.get(root.access(), usersPath).want(http.StatusOK)
		l.get(root.access(), invitesPath).want(http.StatusOK)
		path := usersPath + "/" + mia.object("user").text("id")
		l.get(root.access(), path+"/sessions").want(http.StatusOK)
		l.get(root.access(), path+"/tokens").want(http.StatusOK)
		reset := l.post(root.access(), path+"/reset-password", nil).want(http.StatusOK)
		plant(1, reset["password"])
		offline, err := l.service.ResetPassword(t.Context(), "mia")
		require.NoError(t, err)
		plant(0, offline)
		l.refresh(body["refresh_token"]).want(http.StatusOK)
		o.wait(time.Minute)
		l.refresh(body["refresh_token"]).want(http.StatusUnauthorized)
		l.post(mia.access(), "/auth/logout", nil).want(http.StatusUnauthorized)
		l.get("", "/.well-known/jwks.json").want(http.StatusOK)
		seed := l.signingKey().Seed()
		plant(0, string(seed), base64.RawURLEncoding.EncodeToString(seed))
		require.Greater(t, len(given), 20)

		dump, logs := l.dump(), l.logs.String()
		require.Contains(t, dump, "argon2id", "the dump is one")
		require.Contains(t, logs, "/auth/login", "the log is one")
		for secret, most := range given {
			for _, form := range []string{secret, hex.EncodeToString([]byte(secret)), base64.StdEncoding.EncodeToString([]byte(secret))} {
				require.NotContains(t, dump, form)
				require.NotContains(t, logs, form)
				n := 0
				for _, answer := range w.answers {
					if strings.Contains(answer, form) {
						n++
					}
				}
				require.LessOrEqual(t, n, most, "answers with %q", form)
			}
		}
	})
}
