package session_test

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
	"github.com/seed93082962/agenthost/hub/internal/session"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/internal/token"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/db/pgtest"
	"github.com/seed93082962/agenthost/internal/secret"
)

// within is the time after which a change takes effect in other replicas.
const within = 2 * time.Second

func TestOtherReplicasFollow(t *testing.T) {
	each(t, func(t *testing.T, c *cluster) {
		s, other := c.start(nil), c.start(nil)
		root := user{token: s.setup().access()}
		for _, row := range []struct {
			name   string
			do     func(mia user, cli string)
			status int // of a session, then of a CLI token
			cli    int
		}{
			{"logout", func(mia user, _ string) { s.post(mia.token, "/auth/logout", nil).want(http.StatusNoContent) },
				http.StatusUnauthorized, http.StatusOK},
			{"revoked session", func(mia user, _ string) {
				id := s.get(mia.token, "/auth/sessions").want(http.StatusOK).items()[0].text("id")
				s.delete(mia.token, "/auth/sessions/"+id).want(http.StatusNoContent)
			}, http.StatusUnauthorized, http.StatusOK},
			{"revoked CLI token", func(_ user, cli string) { s.post(cli, "/auth/logout", nil).want(http.StatusNoContent) },
				http.StatusOK, http.StatusUnauthorized},
			{"disabled", func(mia user, _ string) {
				s.patch(root.token, usersPath+"/"+mia.id, object{"status": "disabled"}).want(http.StatusOK)
			}, http.StatusForbidden, http.StatusForbidden},
			{"deleted", func(mia user, _ string) { s.delete(root.token, usersPath+"/"+mia.id).want(http.StatusNoContent) },
				http.StatusUnauthorized, http.StatusUnauthorized},
			{"password reset", func(mia user, _ string) {
				s.post(root.token, usersPath+"/"+mia.id+"/reset-password", nil).want(http.StatusOK)
			}, http.StatusUnauthorized, http.StatusUnauthorized},
		} {
			t.Run(row.name, func(t *testing.T) {
				mia := c.join(root, "maintainer", "mia"+strings.ReplaceAll(row.name, " ", ""))
				_, cli := s.issue(mia)
				for _, r := range []*server{s, other} {
					for _, token := range []string{mia.token, cli} {
						r.get(token, "/auth/userinfo").want(http.StatusOK)
					}
				}
				row.do(mia, cli)
				s.get(mia.token, "/auth/userinfo").want(row.status)
				s.get(cli, "/auth/userinfo").want(row.cli)
				c.wait(within)
				other.get(mia.token, "/auth/userinfo").want(row.status)
				other.get(cli, "/auth/userinfo").want(row.cli)
			})
		}
		t.Run("role", func(t *testing.T) {
			mia := c.join(root, "admin", "mia")
			_, cli := s.issue(mia)
			for _, token := range []string{mia.token, cli} {
				s.get(token, usersPath).want(http.StatusOK)
				other.get(token, usersPath).want(http.StatusOK)
			}
			s.patch(root.token, usersPath+"/"+mia.id, object{"role": "member"}).want(http.StatusOK)
			for _, token := range []string{mia.token, cli} {
				s.get(token, usersPath).wantError(http.StatusForbidden, wire.Forbidden)
			}
			c.wait(within)
			for _, token := range []string{mia.token, cli} {
				other.get(token, usersPath).wantError(http.StatusForbidden, wire.Forbidden)
			}
		})
	})
}

func TestRevokeWhileInUse(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		root := s.setup()
		mia := s.cluster.join(user{token: root.access()}, "member", "mia")
		var over atomic.Bool
		var before, late atomic.Int64
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for refused := 0; refused < 5; {
					ended := over.Load() // before the request is sent
					switch res := s.get(mia.token, "/auth/userinfo"); {
					case res.status != http.StatusOK:
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
		s.delete(root.access(), usersPath+"/"+mia.id+"/sessions").want(http.StatusNoContent)
		over.Store(true)
		wg.Wait()
		require.Zero(t, late.Load(), "no request that began after the response was accepted")
	})
}

func TestReplicasThatStartAtOnceAgree(t *testing.T) {
	each(t, func(t *testing.T, c *cluster) {
		replicas := make([]*server, 4)
		replicas[0] = c.start(nil)
		replicas[0].exec(`DELETE FROM signing_keys`)
		replicas[0].exec(`DELETE FROM instance`)
		var wg sync.WaitGroup
		for i := range replicas {
			wg.Go(func() { replicas[i] = (&cluster{t: t, url: c.url, keys: c.keys, epoch: c.epoch}).start(nil) })
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
	each(t, func(t *testing.T, c *cluster) {
		s, other := c.start(nil), c.start(nil)
		s.setup()
		kid := func(token string) string { header, _ := open(t, token); return header.text("kid") }
		published := func(r *server) (kids []string) {
			for _, key := range r.get("", "/.well-known/jwks.json").want(http.StatusOK)["keys"].([]any) {
				kids = append(kids, key.(map[string]any)["kid"].(string))
			}
			return kids
		}
		c.wait(90*day - time.Second)
		old := s.signIn().access()
		other.signIn()
		c.wait(time.Second)
		responses := atOnce(4, func(i int) response { return []*server{s, other}[i%2].login("root", password) })
		require.Equal(t, map[string]int{"OK": 4}, statuses(responses))
		next := kid(responses[0].body.access())
		require.NotEqual(t, kid(old), next)
		for _, res := range responses {
			require.Equal(t, next, kid(res.body.access()), "replicas agree on the new key")
		}
		for _, r := range []*server{s, other} {
			require.Equal(t, []string{kid(old), next}, published(r))
			r.get(old, "/auth/userinfo").want(http.StatusOK)
			r.get(responses[0].body.access(), "/auth/userinfo").want(http.StatusOK)
		}
		c.wait(15*time.Minute - time.Second - 124*time.Millisecond)
		other.get(old, "/auth/userinfo").want(http.StatusOK)
		require.Contains(t, published(other), kid(old), "while its tokens live")
		c.wait(5 * time.Minute)
		require.Equal(t, []string{next}, published(s))
		require.Equal(t, 2, s.count(`SELECT COUNT(*) FROM signing_keys`))
		s.service.Sweep(t.Context())
		require.Equal(t, 1, s.count(`SELECT COUNT(*) FROM signing_keys`))
		require.Equal(t, next, kid(other.signIn().access()))
	})
}

func TestNewRejectsAnUnsuitableKeyring(t *testing.T) {
	t.Parallel()
	c := newCluster(t, dbtest.SQLite(t, migrations...))
	s := c.start(nil)
	s.setup()
	for _, row := range []struct {
		name   string
		change string
		want   error
	}{
		{"another keyring", "", secret.ErrUnknownKey},
		{"a sealed key of another row", `UPDATE signing_keys SET id = '018f0000-0000-7000-8000-000000000000'`, secret.ErrCorrupt},
	} {
		t.Run(row.name, func(t *testing.T) {
			keys := c.keys
			if row.change == "" {
				keys = secret.Generate()
			} else {
				s.exec(row.change)
			}
			_, err := token.New(t.Context(), c.storeOf(s.db, s.audit, keys, nil))
			require.ErrorIs(t, err, row.want)
		})
	}
	_, err := session.New(session.Config{})
	require.Error(t, err)
}

func TestAnUnavailableDatabaseIsNo401(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	s := newCluster(t, server.URL(t)).start(nil)
	body := s.setup()
	_, cli := s.issue(user{token: body.access()})
	s.get(body.access(), "/auth/userinfo").want(http.StatusOK)
	server.Stop(t)
	s.get(body.access(), "/auth/userinfo").want(http.StatusOK) // within the time for which the cache holds
	s.cluster.wait(within)
	unknown := forge(t, object{"alg": "EdDSA", "typ": "at+jwt", "kid": "018f0000-0000-7000-8000-000000000000"}, object{}, func(string) []byte { return nil })
	for name, res := range map[string]response{
		"session":              s.get(body.access(), "/auth/userinfo"),
		"CLI token":            s.get(cli, "/auth/userinfo"),
		"token of another key": s.get(unknown, "/auth/userinfo"),
		"login":                s.login("root", password),
		"refresh":              s.refresh(body["refresh_token"]),
		"logout":               s.post(body.access(), "/auth/logout", nil),
		"mode":                 s.get("", "/auth/mode"),
	} {
		require.Equal(t, http.StatusServiceUnavailable, res.status, "%s: %s", name, res.text)
	}
	s.cluster.wait(time.Minute) // the cached keys are too old now
	s.get("", "/.well-known/jwks.json").want(http.StatusServiceUnavailable)
	s.get("", "/auth/login").wantError(http.StatusNotFound, wire.NotFound)
}

func TestAFailingAuditLogFailsTheChange(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		body := s.setup()
		broken := s.cluster.start(func(c *config) {
			broken := *c.Store
			broken.Audit = brokenAudit{c.Store.Audit}
			c.Store = &broken
		})
		for name, res := range map[string]response{
			"login":           broken.login("root", password),
			"failed login":    broken.login("root", "wrong password"),
			"logout":          broken.post(body.access(), "/auth/logout", nil),
			"change password": broken.post(body.access(), changePath, object{"old_password": password, "new_password": "another password"}),
		} {
			require.Equal(t, http.StatusInternalServerError, res.status, "%s: %s", name, res.text)
		}
		_, err := broken.accounts.ResetPassword(t.Context(), "root")
		require.Error(t, err)
		s.get(body.access(), "/auth/userinfo").want(http.StatusOK)
		s.signIn()
		require.Equal(t, 2, s.count(`SELECT COUNT(*) FROM sessions WHERE revoked_at IS NULL`))
	})
}

// brokenAudit accepts records and then fails in the transaction, like a full disk.
type brokenAudit struct{ store.Audit }

func (b brokenAudit) AppendTx(ctx context.Context, tx *sql.Tx, records ...auditlog.Record) error {
	if err := b.Audit.AppendTx(ctx, tx, records...); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO no_such_table (id) VALUES (1)`)
	return err
}
