package usage_test

import (
	"database/sql"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/internal/usage"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/runtime/wire"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

type object = apitest.Object

var series = []db.Series{apitest.Audit(), store.Migrations, usage.Migrations}

// server is a usage service whose clock the test sets.
type server struct {
	*apitest.Server
	t       testing.TB
	store   *store.Store
	service *usage.Service
	now     atomic.Int64 // microseconds
}

// open serves a usage service on the database, at noon of 10 March 2026.
func open(t testing.TB, url string, prices map[string]usage.Price) *server {
	t.Helper()
	d := dbtest.Open(t, url)
	s := &server{t: t}
	s.set("2026-03-10T12:00:00Z")
	audit := apitest.NewAudit(t, d)
	s.store = apitest.NewStore(t, d, store.Config{Audit: audit, Now: func() time.Time { return time.UnixMicro(s.now.Load()) }})
	apitest.Join(t, s.store)
	var err error
	s.service, err = usage.New(usage.Config{Store: s.store, Prices: prices})
	require.NoError(t, err)
	s.Server = apitest.Serve(t, apitest.Config{Audit: audit}, s.service.Routes())
	return s
}

// set sets the clock.
func (s *server) set(at string) {
	s.t.Helper()
	now, err := time.Parse(time.RFC3339, at)
	require.NoError(s.t, err)
	s.now.Store(now.UnixMicro())
}

// record counts runs in one transaction.
func (s *server) record(runs ...usage.CountedRun) {
	s.t.Helper()
	require.NoError(s.t, s.store.DB.Tx(s.t.Context(), func(tx *sql.Tx) (err error) { _, _, err = s.service.Record(s.t.Context(), tx, runs...); return err }))
}

// of returns a run of acme.
func of(id, agent, user, model string, tokens wire.Usage) usage.CountedRun {
	return usage.CountedRun{ID: id, TenantID: "acme", AgentName: agent, UserID: user, UserName: user + "!", Model: model, Tokens: tokens}
}
