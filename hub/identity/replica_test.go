package identity_test

import (
	"context"
	"database/sql"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db/dbtest"
	"github.com/seed93082962/agenthost/hub/identity"
	"github.com/seed93082962/agenthost/hub/secret"
	"github.com/seed93082962/agenthost/internal/pgtest"
)

// within is the time after which a change takes effect in other replicas.
const within = 2 * time.Second

func TestOtherReplicasFollow(t *testing.T) {
	each(t, func(t *testing.T, o *office) {
		l, other := o.launch(nil), o.launch(nil)
		root := person{token: l.setup().access()}
		for _, row := range []struct {
			name   string
			do     func(mia person, cli string)
			status int // of a session, then of a CLI token
			cli    int
		}{
			{"logout", func(mia person, _ string) { l.post(mia.token, "/auth/logout", nil).want(http.StatusNoContent) },
				http.StatusUnauthorized, http.StatusOK},
			{"revoked session", func(mia person, _ string) {
				id := l.get(mia.token, "/auth/sessions").want(http.StatusOK).items()[0].text("id")
				l.delete(mia.token, "/auth/sessions/"+id).want(http.StatusNoContent)
			}, http.StatusUnauthorized, http.StatusOK},
			{"revoked CLI token", func(_ person, cli string) { l.post(cli, "/auth/logout", nil).want(http.StatusNoContent) },
				http.StatusOK, http.StatusUnauthorized},
			{"disabled", func(mia person, _ string) {
				l.patch(root.token, usersPath+"/"+mia.id, object{"status": "disabled"}).want(http.StatusOK)
			}, http.StatusForbidden, http.StatusForbidden},
			{"deleted", func(mia person, _ string) { l.delete(root.token, usersPath+"/"+mia.id).want(http.StatusNoContent) },
				http.StatusUnauthorized, http.StatusUnauthorized},
			{"password reset", func(mia person, _ string) {
				l.post(root.token, usersPath+"/"+mia.id+"/reset-password", nil).want(http.StatusOK)
			}, http.StatusUnauthorized, http.StatusUnauthorized},
		} {
			t.Run(row.name, func(t *testing.T) {
				mia := o.join(root, "maintainer", "mia"+strings.ReplaceAll(row.name, " ", ""))
				_, cli := l.issue(mia)
				for _, r := range []*launched{l, other} {
					for _, token := range []string{mia.token, cli} {
						r.get(token, "/auth/userinfo").want(http.StatusOK)
					}
				}
				row.do(mia, cli)
				l.get(mia.token, "/auth/userinfo").want(row.status)
				l.get(cli, "/auth/userinfo").want(row.cli)
				o.wait(within)
				other.get(mia.token, "/auth/userinfo").want(row.status)
				other.get(cli, "/auth/userinfo").want(row.cli)
			})
		}
		t.Run("role", func(t *testing.T) {
			mia := o.join(root, "admin", "mia")
			_, cli := l.issue(mia)
			for _, token := range []string{mia.token, cli} {
				l.get(token, usersPath).want(http.StatusOK)
				other.get(token, usersPath).want(http.StatusOK)
			}
			l.patch(root.token, usersPath+"/"+mia.id, object{"role": "member"}).want(http.StatusOK)
			for _, token := range []string{mia.token, cli} {
				l.get(token, usersPath).refused(http.StatusForbidden, api.Forbidden)
			}
			o.wait(within)
			for _, token := range []string{mia.token, cli} {
				other.get(token, usersPath).refused(http.StatusForbidden, api.Forbidden)
			}
		})
	})
}

func TestRevokeWhileInUse(t *testing.T) {
	eachLaunch(t, func(t *testing.T, l *launched) {
		root := l.setup()
		mia := l.o.join(person{token: root.access()}, "member", "mia")
		var over atomic.Bool
		var before, late atomic.Int64
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for refused := 0; refused < 5; {
					ended := over.Load() // before the request is sent
					switch a := l.get(mia.token, "/auth/userinfo"); {
					case a.status != http.StatusOK:
						refused++
					case ended:
						late.Add(1)
						return
					default:
						before.Add(1)
					}
				}
			})
		}
		require.Eventually(t, func() bool { return before.Load() > 100 }, time.Minute, time.Millisecond)
		l.delete(root.access(), usersPath+"/"+mia.id+"/sessions").want(http.StatusNoContent)
		over.Store(true)
		wg.Wait()
		require.Zero(t, late.Load(), "no request that began after the answer got through")
	})
}

func TestReplicasThatStartAtOnceAgree(t *testing.T) {
	each(t, func(t *testing.T, o *office) {
		replicas := make([]*launched, 4)
		replicas[0] = o.launch(nil)
		replicas[0].exec(`DELETE FROM signing_keys`)
		replicas[0].exec(`DELETE FROM instance`)
		var wg sync.WaitGroup
		for i := range replicas {
			wg.Go(func() { replicas[i] = (&office{t: t, url: o.url, keys: o.keys, start: o.start}).launch(nil) })
		}
		wg.Wait()
		token := replicas[0].setup().access()
		keys := replicas[0].get("", "/.well-known/jwks.json").want(http.StatusOK)["keys"]
		require.Len(t, keys, 1)
		for _, r := range replicas {
			require.Equal(t, keys, r.get("", "/.well-known/jwks.json").want(http.StatusOK)["keys"])
			r.get(token, "/auth/userinfo").want(http.StatusOK)
			_, claims := open(t, r.signIn().access())
			_, first := open(t, token)
			require.Equal(t, first["iss"], claims["iss"])
		}
	})
}

func TestKeysRotate(t *testing.T) {
	each(t, func(t *testing.T, o *office) {
		l, other := o.launch(nil), o.launch(nil)
		l.setup()
		kid := func(token string) string { header, _ := open(t, token); return header.text("kid") }
		published := func(r *launched) (kids []string) {
			for _, key := range r.get("", "/.well-known/jwks.json").want(http.StatusOK)["keys"].([]any) {
				kids = append(kids, key.(map[string]any)["kid"].(string))
			}
			return kids
		}
		o.wait(90*day - time.Second)
		old := l.signIn().access()
		other.signIn()
		o.wait(time.Second)
		answers := atOnce(4, func(i int) answer { return []*launched{l, other}[i%2].login("root", password) })
		require.Equal(t, map[string]int{"OK": 4}, statuses(answers))
		next := kid(answers[0].body.access())
		require.NotEqual(t, kid(old), next)
		for _, a := range answers {
			require.Equal(t, next, kid(a.body.access()), "replicas agree on the new key")
		}
		for _, r := range []*launched{l, other} {
			require.Equal(t, []string{kid(old), next}, published(r))
			r.get(old, "/auth/userinfo").want(http.StatusOK)
			r.get(answers[0].body.access(), "/auth/userinfo").want(http.StatusOK)
		}
		o.wait(15*time.Minute - time.Second - 124*time.Millisecond)
		other.get(old, "/auth/userinfo").want(http.StatusOK)
		require.Contains(t, published(other), kid(old), "while its tokens live")
		o.wait(5 * time.Minute)
		require.Equal(t, []string{next}, published(l))
		require.Equal(t, 2, l.count(`SELECT COUNT(*) FROM signing_keys`))
		l.service.Sweep(t.Context())
		require.Equal(t, 1, l.count(`SELECT COUNT(*) FROM signing_keys`))
		require.Equal(t, next, kid(other.signIn().access()))
	})
}

func TestTheKeyringMustBeRight(t *testing.T) { //nolint:tparallel // rows share an office and its clock
	t.Parallel()
	o := newOffice(t, dbtest.SQLite(t))
	l := o.launch(nil)
	l.setup()
	for _, row := range []struct {
		name   string
		change string
		want   error
	}{
		{"another keyring", "", secret.ErrUnknownKey},
		{"a sealed key of another row", `UPDATE signing_keys SET id = '018f0000-0000-7000-8000-000000000000'`, secret.ErrCorrupt},
	} {
		t.Run(row.name, func(t *testing.T) {
			keys := o.keys
			if row.change == "" {
				keys = secret.Generate()
			} else {
				l.exec(row.change)
			}
			keyring, err := secret.Parse(strings.Split(keys, ",")...)
			require.NoError(t, err)
			_, err = identity.New(t.Context(), identity.Config{DB: l.db, Keyring: keyring, Audit: l.audit})
			require.ErrorIs(t, err, row.want)
		})
	}
	_, err := identity.New(t.Context(), identity.Config{})
	require.Error(t, err)
}

func TestAnUnavailableDatabaseIsNo401(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	l := newOffice(t, server.URL(t)).launch(nil)
	body := l.setup()
	_, cli := l.issue(person{token: body.access()})
	l.get(body.access(), "/auth/userinfo").want(http.StatusOK)
	server.Stop(t)
	l.get(body.access(), "/auth/userinfo").want(http.StatusOK) // within the time for which the cache holds
	l.o.wait(within)
	unknown := forge(t, object{"alg": "EdDSA", "typ": "at+jwt", "kid": "018f0000-0000-7000-8000-000000000000"}, object{}, func(string) []byte { return nil })
	for name, a := range map[string]answer{
		"session":              l.get(body.access(), "/auth/userinfo"),
		"CLI token":            l.get(cli, "/auth/userinfo"),
		"token of another key": l.get(unknown, "/auth/userinfo"),
		"login":                l.login("root", password),
		"refresh":              l.refresh(body["refresh_token"]),
		"logout":               l.post(body.access(), "/auth/logout", nil),
		"mode":                 l.get("", "/auth/mode"),
	} {
		require.Equal(t, http.StatusServiceUnavailable, a.status, "%s: %s", name, a.text)
	}
	l.o.wait(time.Minute) // the cached keys are too old now
	l.get("", "/.well-known/jwks.json").want(http.StatusServiceUnavailable)
	l.get("", "/auth/login").refused(http.StatusNotFound, api.NotFound)
}

func TestAFailingAuditLogFailsTheChange(t *testing.T) {
	eachLaunch(t, func(t *testing.T, l *launched) {
		body := l.setup()
		broken := l.o.launch(func(c *identity.Config) { c.Audit = brokenAudit{c.Audit} })
		for name, a := range map[string]answer{
			"login":           broken.login("root", password),
			"failed login":    broken.login("root", "wrong password"),
			"logout":          broken.post(body.access(), "/auth/logout", nil),
			"change password": broken.post(body.access(), changePath, object{"old_password": password, "new_password": "another password"}),
		} {
			require.Equal(t, http.StatusInternalServerError, a.status, "%s: %s", name, a.text)
		}
		_, err := broken.service.ResetPassword(t.Context(), "root")
		require.Error(t, err)
		l.get(body.access(), "/auth/userinfo").want(http.StatusOK)
		l.signIn()
		require.Equal(t, 2, l.count(`SELECT COUNT(*) FROM sessions WHERE revoked_at IS NULL`))
	})
}

// brokenAudit accepts records and then fails in the transaction, like a full disk.
type brokenAudit struct{ identity.Audit }

func (b brokenAudit) AppendTx(ctx context.Context, tx *sql.Tx, records ...auditlog.Record) error {
	if err := b.Audit.AppendTx(ctx, tx, records...); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO no_such_table (id) VALUES (1)`)
	return err
}
