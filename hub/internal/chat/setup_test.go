package chat_test

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/chat"
	"github.com/seed93082962/agenthost/hub/internal/chat/openai"
	pushes "github.com/seed93082962/agenthost/hub/internal/chat/push"
	"github.com/seed93082962/agenthost/hub/internal/chat/relay"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/internal/deployment"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/internal/usage"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/rbac"
	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/demo"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/sse"
)

type object = apitest.Object

const (
	pushKey  = "a push key of at least 32 characters"
	sessions = "/api/v1/agents/helper/chat/sessions"
	admin    = "/api/v1/admin/chat/sessions"
	push     = "/api/v1/chat/push"
)

// server is a chat service of two tenants, acme and zeta, that both have the agents helper, which
// is deployed at endpoint, and idle, which is not deployed.
type server struct {
	*apitest.Server
	t        *testing.T
	db       *db.DB
	store    *store.Store
	service  *chat.Service
	pushes   *pushes.Service
	usage    *usage.Service
	endpoint atomic.Pointer[deployment.Endpoint]
	replicas atomic.Pointer[[]string]
	disabled atomic.Bool // the agent helper

	approvers atomic.Pointer[string]
}

// AgentEnabled makes the server the catalog.
func (s *server) AgentEnabled(_ context.Context, _ api.Caller, name string) (bool, error) {
	if name != "helper" && name != "idle" {
		return false, wire.NotFound
	}
	return name != "helper" || !s.disabled.Load(), nil
}

// Approvers returns who approves the calls of the agents.
func (s *server) Approvers(context.Context, *sql.Tx, string, string) (string, error) {
	if a := s.approvers.Load(); a != nil {
		return *a, nil
	}
	return "owner", nil
}

// changeApprovers is a change of an agent.
func (s *server) changeApprovers(t *testing.T, agentName, approvers string) error {
	t.Helper()
	return s.store.Change(t.Context(), store.Change{Caller: api.Caller{TenantID: "acme"}}, func(tx *store.Tx) error {
		return s.service.ChangeApprovers(t.Context(), tx, agentName, approvers)
	})
}

// Endpoint makes the server the deployments.
func (s *server) Endpoint(ctx context.Context, tenantID, name string) (deployment.Endpoint, error) {
	if e := s.endpoint.Load(); e != nil && name == "helper" {
		return *e, nil
	}
	if _, err := s.AgentEnabled(ctx, api.Caller{TenantID: tenantID}, name); err != nil {
		return deployment.Endpoint{}, err
	}
	return deployment.Endpoint{}, code.AgentNotDeployed
}

// Replicas makes the server the deployments.
func (s *server) Replicas(context.Context, string) ([]string, error) {
	if urls := s.replicas.Load(); urls != nil {
		return *urls, nil
	}
	return nil, nil
}

// config is the configuration of a server.
type config struct {
	chat.Config

	push   pushes.Config
	prices map[string]usage.Price
	logger *slog.Logger
	meters metric.MeterProvider
	now    func() time.Time
	wrap   func(http.Handler) http.Handler
	lease  time.Duration // defaults to a minute
	rate   int           // of requests of a user

	uncounted bool // without package usage
	alone     bool // hubs that have joined before are removed
}

// open serves a chat service on the database. change modifies its configuration.
func open(t *testing.T, url string, change ...func(*config)) *server {
	t.Helper()
	d := dbtest.Open(t, url)
	s := &server{t: t, db: d}
	var background bytes.Buffer
	cfg := config{
		Config: chat.Config{Catalog: s, Deployments: s, Relay: relay.Config{SaveEvery: 20 * time.Millisecond, Approvers: s.Approvers}},
		push:   pushes.Config{Catalog: s, Key: pushKey},
		logger: slog.New(slog.NewJSONHandler(&background, nil)),
	}
	for _, f := range change {
		f(&cfg)
	}
	var err error
	audit := apitest.NewAudit(t, d)
	cfg.Store = apitest.NewStore(t, d, store.Config{Audit: audit, Logger: cfg.logger, MeterProvider: cfg.meters, Now: cfg.now, LeaseTime: cmp.Or(cfg.lease, time.Minute)})
	if cfg.alone {
		require.NoError(t, cfg.Store.Join(t.Context()))
		t.Cleanup(cfg.Store.Leave)
	} else {
		apitest.Join(t, cfg.Store)
	}
	s.store = cfg.Store
	s.usage, err = usage.New(usage.Config{Store: cfg.Store, Prices: cfg.prices})
	require.NoError(t, err)
	if !cfg.uncounted {
		cfg.Relay.Usage = s.usage
	}
	s.service, err = chat.New(cfg.Config)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, s.service.Close())
		for line := range strings.Lines(background.String()) {
			require.Contains(t, line, `"msg":"renew hub"`, "only a busy machine delays that")
		}
	})
	cfg.push.Chats = s.service
	s.pushes, err = pushes.New(cfg.push)
	require.NoError(t, err)
	face, err := openai.New(openai.Config{Chats: s.service, Agents: s.agents, Live: s.live})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, face.Close()) })
	wrap := func(h http.Handler) http.Handler {
		if cfg.wrap != nil {
			h = cfg.wrap(h)
		}
		return valid(t, h)
	}
	s.Server = apitest.Serve(t, apitest.Config{Audit: audit, Wrap: wrap, UserRate: cfg.rate}, slices.Concat(s.service.Routes(), s.pushes.Routes(), s.usage.Routes(), face.Routes()))
	return s
}

// with runs a test with a runtime whose model is up; nil is the demo model.
func with(t *testing.T, up func(t *testing.T) *modeltest.Upstream, test func(t *testing.T, s *server)) {
	t.Helper()
	t.Parallel()
	run(t, sqlite(t), up, test)
}

// each is with on both engines, for statements and locks that could differ.
func each(t *testing.T, up func(t *testing.T) *modeltest.Upstream, test func(t *testing.T, s *server)) {
	t.Helper()
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) { run(t, url, up, test) }, series...)
}

func run(t *testing.T, url string, up func(t *testing.T) *modeltest.Upstream, test func(t *testing.T, s *server)) {
	t.Helper()
	s := open(t, url)
	if up == nil {
		s.deploy(nil)
	} else {
		s.deploy(up(t))
	}
	test(t, s)
}

// deploy starts a runtime with the agent helper, a real one behind HTTP, and a new state.
func (s *server) deploy(up *modeltest.Upstream, change ...func(*agent.Agent)) {
	s.t.Helper()
	helper := agent.Agent{ID: "helper", Model: "m", Provider: agent.Provider{Protocol: agent.ProtocolDemo}}
	if up != nil {
		helper.Provider = agent.Provider{Protocol: agent.ProtocolAnthropic, BaseURL: agent.Secret(up.URL), APIKey: "upstream-key"}
	}
	for _, f := range change {
		f(&helper)
	}
	cfg := runtime.Config{Agents: []agent.Agent{helper}, CWD: s.t.TempDir(), APIKeys: []string{"runtime-key"}}
	if helper.Provider.Protocol == agent.ProtocolDemo {
		cfg.NewModel = func(agent.Provider) (model.Model, error) { return demo.New(0), nil } // without delays
	}
	rt, err := runtime.New(s.t.Context(), cfg)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { require.NoError(s.t, rt.Close()) })
	s.serve(rt)
}

// serve deploys the agent helper at a handler.
func (s *server) serve(h http.Handler) {
	s.t.Helper()
	srv := httptest.NewServer(h)
	s.t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	s.endpoint.Store(&deployment.Endpoint{URL: srv.URL, APIKey: "runtime-key", AgentID: "helper"})
}

func (s *server) ada() *apitest.Client { return s.As("acme", "ada", rbac.Member) }

// session creates a session of the caller and returns its path.
func session(c *apitest.Client) string {
	return sessions + "/" + c.Post(sessions, nil).Want(http.StatusCreated)["id"].(string)
}

// event is one event as it was received.
type event struct {
	name string
	id   string
	raw  string
	data object
}

// stream is an answer that is being received.
type stream struct {
	t      *testing.T
	res    *http.Response
	cancel context.CancelFunc
	events *sse.Decoder
}

// send sends a message and returns the open answer.
func send(t *testing.T, c *apitest.Client, session string, body object) *stream {
	t.Helper()
	return receives(t, c.Request(http.MethodPost, session+"/messages", body))
}

// receives sends a request and returns the event stream of its response.
func receives(t *testing.T, req *http.Request) *stream {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	res, err := http.DefaultClient.Do(req.WithContext(ctx))
	require.NoError(t, err)
	t.Cleanup(func() { cancel(); res.Body.Close() })
	if res.StatusCode != http.StatusOK || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		text, _ := io.ReadAll(res.Body)
		require.FailNow(t, "no event stream", "%d %s", res.StatusCode, text)
	}
	return &stream{t, res, cancel, sse.NewDecoder(res.Body)}
}

func (s *stream) next() (event, bool) {
	s.t.Helper()
	ev, err := s.events.Next()
	if err == io.EOF {
		return event{}, false
	}
	require.NoError(s.t, err)
	got := event{name: ev.Type, id: ev.ID, raw: string(ev.Data)}
	_ = json.Unmarshal(ev.Data, &got.data) // a hostile runtime sends anything
	return got, true
}

// until reads up to the first event of that name.
func (s *stream) until(name string) event {
	s.t.Helper()
	for {
		ev, ok := s.next()
		require.True(s.t, ok, "no %s event", name)
		if ev.name == name {
			return ev
		}
	}
}

// rest reads the remaining events.
func (s *stream) rest() (all []event) {
	s.t.Helper()
	for ev, ok := s.next(); ok; ev, ok = s.next() {
		all = append(all, ev)
	}
	return all
}

// say sends a message and returns all events of the answer.
func say(t *testing.T, c *apitest.Client, session, message string) []event {
	t.Helper()
	return send(t, c, session, object{"message": message}).rest()
}

func names(events []event) (all []string) {
	for _, ev := range events {
		all = append(all, ev.name)
	}
	return all
}

// messages returns the messages of a session.
func messages(c *apitest.Client, session string) (all []object) {
	for next := ""; ; {
		page := c.Get(session + "/messages?page_size=100&cursor=" + next).Want(http.StatusOK)
		for _, m := range page["items"].([]any) {
			all = append(all, m.(object))
		}
		var more bool
		if next, more = page["next"].(string); !more {
			return all
		}
	}
}

// eventually waits until the last message of a session is cancelled, and returns it.
func eventually(t *testing.T, c *apitest.Client, session string) object {
	t.Helper()
	var last object
	require.Eventually(t, func() bool {
		all := messages(c, session)
		last = all[len(all)-1]
		return last["status"] == "cancelled"
	}, time.Minute, 20*time.Millisecond, "%v", last)
	return last
}

var series = []db.Series{apitest.Audit(), store.Migrations, chat.Migrations, usage.Migrations}

func sqlite(t testing.TB) string   { return dbtest.SQLite(t, series...) }
func postgres(t testing.TB) string { return dbtest.PostgreSQL(t, series...) }
