package hub_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub"
	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/deploytest"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/secret"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

const budgets = "/api/v1/admin/budgets"

// The budget of an agent or a user is deleted with it, and does not limit a later agent of the
// name.
func TestBudgetsEndWithTheirOwners(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		const limits = `{"period":"day","unit":"tokens","hard":1}`
		s := open(t, url)
		admin := s.setUp()
		mia := s.call("POST", users, admin, userBody("mia", "member")).want(http.StatusCreated)["id"].(string)
		for _, name := range []string{"first", "second"} {
			s.call("POST", agents, admin, `{"name":"`+name+`","providerId":"demo","model":"demo"}`).want(http.StatusCreated)
		}
		s.call("PUT", budgets+"/agent/first", admin, limits).want(http.StatusOK)
		s.call("PUT", budgets+"/user/"+mia, admin, limits).want(http.StatusOK)

		for _, path := range []string{agents + "/first", agents + "/second", users + "/" + mia} {
			s.call("DELETE", path, admin, "").want(http.StatusNoContent)
		}
		s.call("POST", agents, admin, `{"name":"first","providerId":"demo","model":"demo"}`).want(http.StatusCreated)
		s.call("GET", budgets+"/agent/first", admin, "").wantError(http.StatusNotFound, "not_found")
		require.EqualValues(t, 0, s.call("GET", budgets, admin, "").want(http.StatusOK)["total"])
		log := s.call("GET", "/api/v1/admin/audit-logs?action=agent.delete_budget", admin, "").want(http.StatusOK)
		require.EqualValues(t, 2, log["total"], "of those that had one")
	}, hub.Migrations()...)
}

// spender has two hubs with a deployed agent. Each run of the agent uses 15 tokens.
type spender struct {
	hubs       [2]*server
	admin, key string
}

// openSpender deploys an agent whose model sends the steps.
func openSpender(t *testing.T, url string, steps ...modeltest.Step) *spender {
	t.Helper()
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Stream(steps...)))
	driver := &deploytest.Memory{Serve: func(req deploy.Request) (http.Handler, error) {
		req.Config.Provider = agent.Provider{Protocol: agent.ProtocolAnthropic, BaseURL: agent.Secret(up.URL), APIKey: "k"}
		return runtimeWithFile(t, req)
	}}
	t.Cleanup(driver.Close)
	keys := []string{secret.Generate()}
	same := func(cfg *hub.Config) { cfg.Deployer, cfg.EncryptionKeys = driver, keys }
	s := &spender{hubs: [2]*server{open(t, url, same), open(t, url, same)}}
	d := dbtest.Open(t, url)
	require.Eventually(t, func() bool { // on SQLite, the second one has removed the first one
		n, err := db.Value[int](t.Context(), d.Read(), "count hubs", `SELECT COUNT(*) FROM hubs`)
		require.NoError(t, err)
		return n == 2
	}, time.Minute, 20*time.Millisecond)
	s.admin = s.hubs[0].setUp()
	s.hubs[0].call("POST", agents, s.admin, `{"name":"helper","providerId":"demo","model":"demo"}`).want(http.StatusCreated)
	s.key = s.hubs[0].deploy(s.admin, "helper")
	return s
}

// limit gives the agent a hard limit of n runs.
func (s *spender) limit(n int) {
	limits := fmt.Sprintf(`{"period":"month","unit":"tokens","hard":%d,"reserve":15}`, 15*n)
	s.hubs[0].call("PUT", budgets+"/agent/helper", s.admin, limits).want(http.StatusOK)
}

// runs returns the number of runs that were counted.
func (s *spender) runs() float64 {
	return s.hubs[0].call("GET", "/api/v1/admin/usage", s.admin, "").want(http.StatusOK)["totals"].(map[string]any)["runs"].(float64)
}

// start begins a run in one of the hubs: each second one is at /runtime, and the others are chats.
func (s *spender) start(ctx context.Context, i int) (*http.Response, error) {
	h, path := s.hubs[i/2%2], "/runtime/helper/v1/agents/helper/runs"
	if i%2 == 0 {
		const chats = "/api/v1/agents/helper/chat/sessions"
		made, err := h.try(ctx, "POST", chats, s.admin, "")
		if err != nil {
			return nil, err
		}
		path = chats + "/" + made.want(http.StatusCreated)["id"].(string) + "/messages"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url+path, strings.NewReader(`{"message":"hello"}`))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if i%2 == 0 {
		req.Header.Set("Authorization", "Bearer "+s.admin)
	} else {
		req.Header.Set("X-Api-Key", s.key)
	}
	return h.client.Do(req)
}

// Chats and runs at /runtime begin, in all hubs, exactly while the budget has a reserve for each.
func TestChatsAndDirectRunsShareReserves(t *testing.T) {
	t.Parallel()
	const admitted, tries = 5, 24
	dbtest.Each(t, func(t *testing.T, url string) {
		s := openSpender(t, url, modeltest.Text("Half"), modeltest.Hang())
		s.limit(admitted)
		ctx, end := context.WithCancel(t.Context())
		defer end()
		var mu sync.Mutex
		var open []*http.Response
		var all sync.WaitGroup
		for i := range tries {
			all.Go(func() {
				res, err := s.start(ctx, i)
				if err != nil {
					t.Error(err)
					return
				}
				if res.StatusCode == http.StatusOK {
					mu.Lock()
					open = append(open, res)
					mu.Unlock()
					return
				}
				defer res.Body.Close()
				text, _ := io.ReadAll(res.Body)
				if res.StatusCode != http.StatusTooManyRequests || !strings.Contains(string(text), "reserved by answers in progress") ||
					res.Header.Get("Retry-After") != "5" {
					t.Error(res.Status, string(text), res.Header)
				}
			})
		}
		all.Wait()
		require.Len(t, open, admitted)
		for i := range 4 { // one of each kind in each hub
			res, err := s.start(ctx, i)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			require.Equal(t, http.StatusTooManyRequests, res.StatusCode)
		}
		end()
		for _, res := range open {
			require.NoError(t, res.Body.Close())
		}
		require.Eventually(t, func() bool { return s.runs() == admitted }, time.Minute, 20*time.Millisecond)
	}, hub.Migrations()...)
}

// Callers that begin chats and runs at /runtime until they are rejected use exactly the budget.
func TestChatsAndDirectRunsUseExactlyTheBudget(t *testing.T) {
	t.Parallel()
	const most = 20
	dbtest.Each(t, func(t *testing.T, url string) {
		s := openSpender(t, url, modeltest.Text("Well."))
		s.limit(most)
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				for {
					res, err := s.start(t.Context(), i)
					if err != nil {
						t.Error(err)
						return
					}
					text, err := io.ReadAll(res.Body)
					_ = res.Body.Close()
					if res.StatusCode == http.StatusTooManyRequests && strings.Contains(string(text), "used all of") {
						return
					}
					if err != nil || res.StatusCode != http.StatusTooManyRequests && !strings.Contains(string(text), "event: done") {
						t.Error(err, res.Status, string(text))
						return
					}
				}
			})
		}
		all.Wait()
		require.EqualValues(t, most, s.runs())
	}, hub.Migrations()...)
}

// A run at /runtime that is in progress at the end of a hub is cancelled and counted, and its
// client receives its last event.
func TestDirectRunsAtTheEndOfAHub(t *testing.T) {
	t.Parallel()
	ended, end := context.WithCancel(t.Context())
	end()
	for name, stop := range map[string]func(*server) error{
		"drain": func(h *server) error { return h.Drain(ended) },
		"close": func(h *server) error { return h.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, url string) {
				s := openSpender(t, url, modeltest.Text("Half"), modeltest.Hang())
				// Two reserves do not fit. The estimate of a cancelled run is that of its prompt and its tools.
				const limits = `{"period":"month","unit":"tokens","hard":40000,"reserve":30000}`
				s.hubs[0].call("PUT", budgets+"/agent/helper", s.admin, limits).want(http.StatusOK)
				res, err := s.start(t.Context(), 3)
				require.NoError(t, err)
				defer res.Body.Close()
				events := bufio.NewReader(res.Body)
				for line := ""; !strings.Contains(line, "Half"); {
					line, err = events.ReadString('\n')
					require.NoError(t, err)
				}
				require.NoError(t, stop(s.hubs[1]))
				require.EqualValues(t, 1, s.runs())
				rest, err := io.ReadAll(events)
				require.NoError(t, err)
				require.Contains(t, string(rest), `"cancelled"`)

				refused, err := s.start(t.Context(), 3)
				require.NoError(t, err)
				require.NoError(t, refused.Body.Close())
				require.Equal(t, http.StatusServiceUnavailable, refused.StatusCode)
				again, err := s.start(t.Context(), 1)
				require.NoError(t, err)
				require.NoError(t, again.Body.Close())
				require.Equal(t, http.StatusOK, again.StatusCode, "the reserve of the first run was released")
			}, hub.Migrations()...)
		})
	}
}
