package chat_test

import (
	"context"
	"database/sql"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/usage"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/rbac"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// limit sets a budget of a month in tokens.
func (s *server) limit(kind, name string, in wire.BudgetRequest) {
	s.t.Helper()
	in.Period, in.Unit = usage.PerMonth, usage.InTokens
	_, err := s.usage.SetBudget(s.t.Context(), s.As("acme", "max", rbac.Admin).Caller, kind, name, in)
	require.NoError(s.t, err)
}

// try sends a message that is perhaps rejected, and returns the open response.
func (s *server) try(c *apitest.Client, path string) (res *http.Response, end func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	res, err := http.DefaultClient.Do(c.Request(http.MethodPost, path+"/messages", object{"message": "hello"}).WithContext(ctx))
	require.NoError(s.t, err)
	end = func() { cancel(); res.Body.Close() }
	s.t.Cleanup(end)
	return res, end
}

// Concurrent runs in several hubs begin exactly while the budget has a reserve for each.
func TestRunsInProgressHaveAReserve(t *testing.T) {
	t.Parallel()
	const reserve, admitted, tries = 15_000, 4, 24
	for kind, name := range map[string]string{usage.OfAgent: "helper", usage.OfUser: "id-user"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, url string) {
				a, b := open(t, url), open(t, url)
				a.deploy(modeltest.Start(t, modeltest.Anthropic,
					modeltest.Repeat(modeltest.Stream(modeltest.Usage(model.Usage{InputTokens: 10, OutputTokens: 5}), modeltest.Text("Half"), modeltest.Hang()))))
				b.endpoint.Store(a.endpoint.Load())
				a.limit(kind, name, wire.BudgetRequest{Hard: new(float64(admitted*reserve + reserve - 1)), Reserve: new(float64(reserve))})
				var mu sync.Mutex
				var open []func()
				var wg sync.WaitGroup
				for i := range tries {
					s, user := []*server{a, b}[i%2], "user"
					if kind == usage.OfAgent {
						user = string(rune('a' + i))
					}
					c := s.As("acme", user, "member")
					path := session(c)
					wg.Go(func() {
						res, end := s.try(c, path)
						if res.StatusCode == http.StatusOK {
							mu.Lock()
							open = append(open, end)
							mu.Unlock()
							return
						}
						text, _ := io.ReadAll(res.Body)
						require.Equal(t, http.StatusTooManyRequests, res.StatusCode, "%s", text)
						require.Contains(t, string(text), "is reserved by answers in progress")
						require.Equal(t, "5", res.Header.Get("Retry-After"))
					})
				}
				wg.Wait()
				require.Len(t, open, admitted, "exactly as many as the budget has reserves for")
				s := a
				c := s.As("acme", "user", "member")
				path := session(c)
				for _, end := range open {
					end() // the reserve of a cancelled run is released
				}
				require.Eventually(t, func() bool { return len(s.counted("agent")) > 0 && s.counted("agent")[0]["runs"] == float64(admitted) }, patience, 20*time.Millisecond)
				res, end := s.try(c, path)
				require.Equal(t, http.StatusOK, res.StatusCode, "cancelled runs have used less than their reserves")
				end()
			}, series...)
		})
	}
}

// A message that waits for another one of its budget begins no run that exceeds a limit that was
// lowered in the meantime.
func TestALimitThatIsLoweredWhileAMessageWaits(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		ada := s.ada()
		for _, kind := range []string{usage.OfAgent, usage.OfUser} {
			s.limit(usage.OfAgent, "helper", wire.BudgetRequest{Hard: new(1e6), Reserve: new(15.0)})
			s.limit(usage.OfUser, "id-ada", wire.BudgetRequest{Hard: new(1e6), Reserve: new(15.0)})
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			message := ada.Request(http.MethodPost, session(ada)+"/messages", object{"message": "hello"}).WithContext(ctx)
			status := make(chan int, 1)
			require.NoError(t, s.db.Tx(t.Context(), func(tx *sql.Tx) error { // excludes others on SQLite
				require.NoError(t, s.usage.Lock(t.Context(), tx, usage.CountedRun{TenantID: "acme", AgentName: "helper"}, "another user"))
				go func() {
					res, err := http.DefaultClient.Do(message)
					if err != nil {
						t.Error(err)
						close(status)
						return
					}
					_ = res.Body.Close()
					status <- res.StatusCode
				}()
				if s.db.Engine() == db.PostgreSQL {
					s.awaitLock()
				}
				return db.Exec(t.Context(), tx, "lower limit", `UPDATE usage_budgets SET hard = 14 WHERE kind = $1`, kind)
			}))
			require.Equal(t, http.StatusTooManyRequests, <-status, kind)
		}
	})
}

// awaitLock returns when a statement waits for a lock of PostgreSQL.
func (s *server) awaitLock() {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		waits, err := db.Value[bool](s.t.Context(), s.db.Read(), "read",
			`SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')`)
		require.NoError(s.t, err)
		return waits
	}, patience, 20*time.Millisecond)
}

// Clients that send messages until they are rejected use exactly the budget, if each run uses its
// reserve.
func TestConcurrentRunsDoNotExceedABudget(t *testing.T) {
	t.Parallel()
	const used, most = 15, 20
	dbtest.Each(t, func(t *testing.T, url string) {
		a, b := open(t, url), open(t, url)
		a.deploy(modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Stream(modeltest.Text("Well.")))))
		b.endpoint.Store(a.endpoint.Load())
		a.limit(usage.OfAgent, "helper", wire.BudgetRequest{Hard: new(float64(most*used + used - 1)), Reserve: new(float64(used))})
		var all sync.WaitGroup
		for i := range 6 {
			c := []*server{a, b}[i%2].As("acme", string(rune('a'+i)), "member")
			path := session(c)
			all.Go(func() {
				for {
					res := c.Post(path+"/messages", object{"message": "hello"})
					if res.Status == http.StatusTooManyRequests && strings.Contains(res.Text, "used all of") {
						return
					}
					if res.Status != http.StatusTooManyRequests && !strings.Contains(res.Text, `"status":"completed"`) {
						t.Error(res.Text)
						return
					}
				}
			})
		}
		all.Wait()
		require.EqualValues(t, most, a.counted("agent")[0]["runs"])
	}, series...)
}

// A hard limit rejects, and a soft one warns in the last event and in the stored message.
func TestBudgetsAreUsedUp(t *testing.T) {
	up := func(t *testing.T) *modeltest.Upstream {
		return modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Stream(modeltest.Text("Well.")))) // 15 tokens
	}
	each(t, up, func(t *testing.T, s *server) {
		ada, bob := s.ada(), s.As("acme", "bob", "member")
		s.limit(usage.OfUser, "id-ada", wire.BudgetRequest{Soft: new(20.0), Hard: new(45.0), Reserve: new(15.0)})
		s.limit(usage.OfAgent, "helper", wire.BudgetRequest{Soft: new(60.0)})
		path := session(ada)
		saved := func(events []event) object { return events[len(events)-2].data }
		require.NotContains(t, saved(say(t, ada, path, "one")), "budgets")
		warned := saved(say(t, ada, path, "two"))["budgets"].([]any)
		require.Len(t, warned, 1)
		warning := warned[0].(object)
		require.Equal(t, []any{"user", "id-ada", "month", "tokens", 20.0, 45.0, 30.0}, []any{
			warning["kind"], warning["name"], warning["period"], warning["unit"], warning["soft"], warning["hard"], warning["spent"],
		})
		resets, err := time.Parse(time.RFC3339, warning["resetsAt"].(string))
		require.NoError(t, err)
		require.True(t, resets.After(time.Now()))
		require.Equal(t, 1, resets.Day())
		all := messages(ada, path)
		require.NotContains(t, all[1], "budgets")
		require.Equal(t, warned, all[3]["budgets"])
		require.Len(t, saved(say(t, ada, path, "three"))["budgets"], 1)

		refused := ada.Post(path+"/messages", object{"message": "four"})
		fault := refused.Error(http.StatusTooManyRequests, wire.RateLimited)
		require.Equal(t, "You have used all of this month's tokens: no message is accepted until "+resets.Format("2 January")+", midnight UTC.", fault["message"])
		require.NotEmpty(t, refused.Header.Get("Retry-After"))
		require.Len(t, messages(ada, path), 6, "the message is not stored")

		both := saved(say(t, bob, session(bob), "hello"))["budgets"].([]any)
		require.Equal(t, "agent", both[0].(object)["kind"])
		s.limit(usage.OfUser, "id-ada", wire.BudgetRequest{Hard: new(60.0), Reserve: new(15.0)})
		require.Len(t, saved(say(t, ada, path, "four"))["budgets"], 1, "of the agent")
	})
}
