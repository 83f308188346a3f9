package aigc_test

import (
	"log/slog"
	"maps"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/aigc"
	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/logtest"
	"github.com/seed93082962/agenthost/rbac"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

const (
	config   = "/api/v1/admin/aigc/config"
	rotate   = config + "/rotate-key"
	verify   = "/api/v1/admin/aigc/verify"
	uscc     = "91350100M000100Y43"
	producer = "0011" + uscc + "10001"
)

type object = apitest.Object

// server is a service with its routes, and the tenants acme and beta.
type server struct {
	*apitest.Server
	t       *testing.T
	service *aigc.Service
	db      *db.DB
	store   *store.Store
	log     *logtest.Buffer // of the service
	now     atomic.Int64    // added to the time

	acme, beta *apitest.Client // maintainers
}

func each(t *testing.T, test func(t *testing.T, s *server)) {
	t.Helper()
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) { test(t, open(t, url)) }, series...)
}

var series = []db.Series{aigc.Migrations, apitest.Audit()}

func open(t *testing.T, url string) *server {
	t.Helper()
	d := dbtest.Open(t, url, series...)
	s := &server{t: t, db: d, log: &logtest.Buffer{}}
	s.store = s.with()
	s.service = aigc.New(s.store)
	s.Server = apitest.Serve(t, apitest.Config{Audit: s.store.Audit}, s.service.Routes())
	s.acme, s.beta = s.As("acme", "ada", rbac.Maintainer), s.As("beta", "bob", rbac.Maintainer)
	return s
}

// with returns a store with other keys.
func (s *server) with(keys ...string) *store.Store {
	cfg := store.Config{Logger: slog.New(slog.NewJSONHandler(s.log, nil)), Now: func() time.Time {
		return time.Date(2026, 3, 1, 13, 0, 0, 123456789, time.FixedZone("CET", 3600)).Add(time.Duration(s.now.Load()))
	}}
	if keys != nil {
		cfg.Keyring = apitest.Keyring(s.t, keys...)
	}
	return apitest.NewStore(s.t, s.db, cfg)
}

// valid is the body of a configuration of which the test changes some fields.
func valid(change object) object {
	body := object{
		"enabled": true, "companyName": "Example", "uscc": uscc, "contentProducer": producer, "produceIdPrefix": "ex-",
		"explicit": object{"mode": "append", "text": "AI 生成"}, "signing": object{"enabled": true},
	}
	maps.Copy(body, change)
	return body
}
