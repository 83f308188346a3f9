package external_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/internal/external"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
)

// admit makes the user of an access token an admin.
func (s *site) admit(user object) {
	s.t.Helper()
	_, err := s.db.Write().ExecContext(s.t.Context(), `UPDATE members SET role = 'admin' WHERE id = $1`, user["id"])
	require.NoError(s.t, err)
	s.replica = s.launch() // without the role in its cache
}

func (b *browser) issueToken(hub string) *browser {
	b.t.Helper()
	cli := newBrowser(b.t)
	cli.token = b.send("POST", hub+"/api/v1/cli/issue-token", object{"name": "ci"}).want(http.StatusCreated)["token"].(string)
	return cli
}

// Nothing of a deleted organization continues: sessions, refresh tokens, CLI tokens, logins in
// progress, and codes of the console.
func TestDeletedOrganization(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		p := newStandIn(s)
		s.register("other", p)
		s.register("acme", p)
		b, stays := newBrowser(t), newBrowser(t)
		body := b.enter(s.url, "acme")
		stays.enter(s.url, "other")
		s.admit(body["user"].(object))
		cli := b.issueToken(s.url)
		second := s.launch()
		for _, c := range []*browser{b, cli} {
			c.get(s.url + "/auth/userinfo").want(http.StatusOK)
			c.get(second.url + "/auth/userinfo").want(http.StatusOK)
		}
		started := b.get(b.start(s.url, "org=acme").String()).location().String()
		handed := strings.TrimPrefix(b.get(b.get(b.start(s.url, "org=acme&return_to=/console/").String()).location().String()).location().Fragment, "code=")

		s.ops("DELETE", "/acme", nil).want(http.StatusNoContent)
		denied := func(hub string) {
			t.Helper()
			b.get(hub+"/auth/userinfo").refused(http.StatusUnauthorized, wire.TokenRevoked)
			cli.get(hub+"/auth/userinfo").refused(http.StatusUnauthorized, wire.TokenRevoked)
		}
		denied(s.url)
		s.wait(2 * time.Second)
		denied(second.url)
		refresh := func() {
			t.Helper()
			b.send("POST", s.url+"/auth/refresh", object{"refresh_token": body["refresh_token"]}).refused(http.StatusUnauthorized, wire.TokenRevoked)
			b.get(started).refused(http.StatusBadRequest, wire.InvalidRequest)
			b.send("POST", s.url+"/auth/exchange", object{"code": handed}).refused(http.StatusUnauthorized, code.InvalidCredentials)
		}
		refresh()
		stays.get(s.url + "/auth/userinfo").want(http.StatusOK)
		log := s.log("acme")
		require.Equal(t, `auth.delete_tenant_client acme success {"clientId":"hub-acme","issuer":"`+p.URL+`","sessionsEnded":1,"tokensRevoked":1,"deploymentsEnded":0}`, log[len(log)-1])

		s.register("acme", p) // the same client
		denied(s.url)
		refresh()
		again := newBrowser(t)
		require.Equal(t, body["user"].(object)["id"], again.enter(s.url, "acme")["user"].(object)["id"])
	})
}

// A login that completes while its organization is deleted has no session afterwards.
func TestDeletionDuringALogin(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		p := newStandIn(s)
		s.register("other", p)
		s.register("acme", p)
		newBrowser(t).enter(s.url, "acme")
		once := sync.Once{}
		p.with(func() {
			p.onToken = func(object) { once.Do(func() { s.ops("DELETE", "/acme", nil).want(http.StatusNoContent) }) }
		})
		newBrowser(t).login(s.url, "acme").refused(http.StatusUnauthorized, code.InvalidCredentials)

		s.register("acme", p)
		var wg sync.WaitGroup
		browsers := make([]*browser, 6)
		for i := range browsers {
			browsers[i] = newBrowser(t)
			back := browsers[i].get(browsers[i].start(s.url, "org=acme").String()).location().String()
			wg.Go(func() {
				if a := browsers[i].get(back); a.status == http.StatusOK {
					browsers[i].token = a.want(http.StatusOK)["access_token"].(string)
				}
			})
		}
		wg.Go(func() { s.ops("DELETE", "/acme", nil).want(http.StatusNoContent) })
		wg.Wait()
		for _, b := range browsers {
			require.Equal(t, http.StatusUnauthorized, b.get(s.url+"/auth/userinfo").status)
		}
		var live int
		require.NoError(t, s.db.Read().QueryRowContext(t.Context(), `SELECT COUNT(*) FROM sessions WHERE tenant_id = 'acme' AND revoked_at IS NULL`).Scan(&live))
		require.Zero(t, live)
	})
}

// The deletion has all of its effects or none.
func TestDeletionIsOneChange(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		p := newStandIn(s)
		s.register("acme", p)
		b := newBrowser(t)
		b.enter(s.url, "acme")
		failing, err := external.New(external.Config{
			Store: s.store, Sessions: s.sessions, PublicURL: s.url, Logins: true,
			EndDeployments: func(context.Context, *store.Tx, string, bool) (int, error) { return 0, errors.New("failed") },
		})
		require.NoError(t, err)
		defer failing.Close()
		require.ErrorContains(t, failing.DeleteClient(t.Context(), api.Caller{}, "acme"), "failed")
		s.replica = s.launch()
		b.get(s.url + "/auth/userinfo").want(http.StatusOK)
		b.start(s.url, "org=acme")
	})
}

func TestAdoption(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		former, next := newStandIn(s), newStandIn(s)
		s.register("other", former)
		s.register("acme", former)
		s.ops("POST", "", object{"org": "acme", "clientId": "moved", "clientSecret": "x", "issuer": next.URL}).want(http.StatusOK) // no data
		s.register("acme", former)
		b := newBrowser(t)
		ada := b.enter(s.url, "acme")["user"].(object)
		s.admit(ada)
		cli := b.issueToken(s.url)
		client := object{"org": "acme", "clientId": "hub-acme", "clientSecret": "x", "issuer": next.URL}
		adopted := object{"org": "acme", "clientId": "hub-acme", "clientSecret": "x", "issuer": next.URL, "adopt": true}

		body := s.ops("POST", "", client).refused(http.StatusConflict, wire.Conflict) // another issuer without a deletion
		require.Contains(t, body["message"], `"adopt": true`)
		b.get(s.url + "/auth/userinfo").want(http.StatusOK)
		s.ops("POST", "", object{"org": "acme", "clientId": "renamed"}).want(http.StatusOK) // the same issuer
		s.ops("POST", "", object{"org": "acme", "clientId": "hub-acme"}).want(http.StatusOK)

		s.ops("DELETE", "/acme", nil).want(http.StatusNoContent)
		s.ops("POST", "", client).refused(http.StatusConflict, wire.Conflict)
		// Customers of one provider may have one issuer.
		s.ops("POST", "", object{"org": "acme", "clientId": "another", "clientSecret": "x", "issuer": former.URL}).refused(http.StatusConflict, wire.Conflict)
		s.ops("POST", "", object{"org": "acme", "clientId": "hub-acme", "clientSecret": "secret-acme", "issuer": former.URL}).want(http.StatusCreated)
		b.get(s.url + "/auth/userinfo").want(http.StatusUnauthorized)
		b.enter(s.url, "acme")
		s.ops("POST", "", client).refused(http.StatusConflict, wire.Conflict)

		s.ops("POST", "", adopted).want(http.StatusOK)
		log := s.log("acme")
		require.Contains(t, log[len(log)-1], `"adopted":true`)
		b.get(s.url + "/auth/userinfo").want(http.StatusUnauthorized)
		cli.get(s.url + "/auth/userinfo").want(http.StatusUnauthorized)
		eve := newBrowser(t)
		user := eve.enter(s.url, "acme")["user"].(object)
		require.NotEqual(t, ada["id"], user["id"], "the same subject of another issuer")
		require.Equal(t, "member", user["role"])
		s.ops("POST", "", adopted).want(http.StatusOK) // again: no change
		eve.get(s.url + "/auth/userinfo").want(http.StatusOK)
		require.Len(t, s.log("acme"), len(log)+1)
	})
}

// Data that were there before the first registration belong to another owner too.
func TestAdoptionOfUnregisteredData(t *testing.T) {
	s := onSQLite(t, nil)
	has := true
	service, err := external.New(external.Config{
		Store: s.store, Sessions: s.sessions, PublicURL: s.url, Logins: true,
		HasData: func(_ context.Context, _ *store.Tx, tenant string) (bool, error) { return has && tenant == "acme", nil },
	})
	require.NoError(t, err)
	defer service.Close()
	secret, issuer := "x", "https://idp.example.com"
	in := wire.TenantClientRequest{Org: "acme", ClientID: "c", ClientSecret: &secret, Issuer: &issuer}
	_, _, err = service.UpsertClient(t.Context(), api.Caller{}, in)
	require.ErrorIs(t, err, wire.Conflict)
	in.Adopt = true
	_, created, err := service.UpsertClient(t.Context(), api.Caller{}, in)
	require.NoError(t, err)
	require.True(t, created)
	in.Org, in.Adopt = "beta", false
	_, _, err = service.UpsertClient(t.Context(), api.Caller{}, in)
	require.NoError(t, err)
}

// The users of the global client do not get the data of an organization "default" whose client was
// deleted, unless its issuer is theirs.
func TestGlobalClientAfterADeletion(t *testing.T) {
	var own, global *standIn
	s := onSQLite(t, func(s *site) {
		own, global = newStandIn(s), newStandIn(s)
		global.user = object{"sub": "9", "preferred_username": "eve"}
		s.global = external.GlobalClient{Issuer: global.URL, ClientID: "global", ClientSecret: "x"}
	})
	newBrowser(t).enter(s.url, "")
	before := newBrowser(t)
	started := before.get(before.start(s.url, "").String()).location().String()
	s.register("default", own, object{"adopt": true})
	newBrowser(t).enter(s.url, "default")
	s.ops("DELETE", "/default", nil).want(http.StatusNoContent)
	before.get(started).refused(http.StatusBadRequest, wire.InvalidRequest)
	for _, query := range []string{"", "?org=default"} {
		newBrowser(t).get(s.url+"/auth/login"+query).refused(http.StatusNotFound, wire.NotFound)
	}
	s.register("default", global, object{"clientId": "global", "clientSecret": "x", "adopt": true})
	s.ops("DELETE", "/default", nil).want(http.StatusNoContent)
	newBrowser(t).enter(s.url, "")
}
