package chat_test

import (
	"context"
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
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/rbac"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// faces are the interfaces at which an answer begins.
var faces = []string{"chat", "completions", "responses"}

// asksAt returns a request for an answer with a stream.
func asksAt(c *apitest.Client, face string) *http.Request {
	switch face {
	case "completions":
		return c.Request(http.MethodPost, completions, plus(asked("hello"), "stream", true))
	case "responses":
		return c.Request(http.MethodPost, responsesPath, object{"model": "helper", "input": "hello", "stream": true})
	}
	return c.Request(http.MethodPost, session(c)+"/messages", object{"message": "hello"})
}

// begin sends a request, and returns the open response.
func begin(t *testing.T, req *http.Request) (res *http.Response, end func()) {
	ctx, cancel := context.WithCancel(t.Context())
	res, err := http.DefaultClient.Do(req.WithContext(ctx))
	require.NoError(t, err)
	end = func() { cancel(); res.Body.Close() }
	t.Cleanup(end)
	return res, end
}

// wholeOf sends a request, and returns the whole response.
func wholeOf(t *testing.T, req *http.Request) (*http.Response, string) {
	t.Helper()
	res, end := begin(t, req)
	defer end()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res, string(text)
}

// refused requires that an answer does not begin, with a wait, and returns the body.
func refused(t *testing.T, req *http.Request, wait string) string {
	t.Helper()
	res, text := wholeOf(t, req)
	require.Equal(t, http.StatusTooManyRequests, res.StatusCode, text)
	if wait != "" {
		require.Equal(t, wait, res.Header.Get("Retry-After"), text)
	}
	require.NotEmpty(t, res.Header.Get("Retry-After"))
	require.Empty(t, res.Header.Get("X-Should-Retry"))
	if strings.Contains(req.URL.Path, "/openai/") {
		require.Contains(t, text, `"code":"rate_limit_exceeded"`)
	}
	return text
}

// Open answers of all interfaces and hubs count together, for a user and for an agent.
func TestAnswersAtOnceOfAllFaces(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		few := func(c *config) { c.Relay.UserAnswers, c.Relay.AgentAnswers = 3, 5 }
		a, b := open(t, url, few), open(t, url, few)
		a.deploy(endless(t))
		b.endpoint.Store(a.endpoint.Load())
		opens := func(c *apitest.Client, face string) func() {
			res, end := begin(t, asksAt(c, face))
			require.Equal(t, http.StatusOK, res.StatusCode)
			return end
		}
		var first func()
		for i, face := range faces {
			end := opens([]*server{a, b}[i%2].ada(), face)
			if i == 0 {
				first = end
			}
		}
		for _, face := range faces {
			require.Contains(t, refused(t, asksAt(b.ada(), face), "5"), "of your answers are in progress")
		}
		eve := b.As("acme", "eve", rbac.Member)
		opens(eve, "responses")
		opens(eve, "completions")
		for _, face := range faces {
			require.Contains(t, refused(t, asksAt(a.As("acme", "zoe", rbac.Member), face), "5"), "answers of the agent are in progress")
		}
		first()
		require.Eventually(t, func() bool {
			res, _ := begin(t, asksAt(a.ada(), "completions"))
			return res.StatusCode == http.StatusOK
		}, patience, 20*time.Millisecond)
	}, series...)
}

// Answers of all interfaces and hubs begin exactly while the budget has a reserve for each.
func TestReservesOfAllFaces(t *testing.T) {
	t.Parallel()
	const reserve, admitted, tries = 15_000, 4, 24
	for kind, name := range map[string]string{usage.OfAgent: "helper", usage.OfUser: "id-ada"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, url string) {
				a, b := open(t, url), open(t, url)
				a.deploy(modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Stream(
					modeltest.Usage(model.Usage{InputTokens: 10, OutputTokens: 5}), modeltest.Text("Half"), modeltest.Hang()))))
				b.endpoint.Store(a.endpoint.Load())
				a.limit(kind, name, wire.BudgetRequest{Hard: new(float64(admitted*reserve + reserve - 1)), Reserve: new(float64(reserve))})
				var mu sync.Mutex
				var open []func()
				var wg sync.WaitGroup
				for i := range tries {
					req := asksAt([]*server{a, b}[i/3%2].ada(), faces[i%3])
					wg.Go(func() {
						res, end := begin(t, req)
						if res.StatusCode == http.StatusOK {
							mu.Lock()
							open = append(open, end)
							mu.Unlock()
							return
						}
						text, _ := io.ReadAll(res.Body)
						if res.StatusCode != http.StatusTooManyRequests || res.Header.Get("Retry-After") != "5" ||
							!strings.Contains(string(text), "is reserved by answers in progress") {
							t.Error(res.Status, res.Header, string(text))
						}
					})
				}
				wg.Wait()
				require.Len(t, open, admitted)
				for _, face := range faces {
					refused(t, asksAt(b.ada(), face), "5")
				}
				for _, end := range open {
					end()
				}
				counted := func() bool { return len(a.counted("agent")) > 0 && a.counted("agent")[0]["runs"] == float64(admitted) }
				require.Eventually(t, counted, patience, 20*time.Millisecond)
			}, series...)
		})
	}
}

// A budget that ends during an answer ends the next one of any interface, and not that one.
func TestABudgetThatEndsInTheMiddle(t *testing.T) {
	t.Parallel()
	for i := range faces {
		t.Run(faces[i], func(t *testing.T) {
			t.Parallel()
			s := open(t, sqlite(t))
			s.deploy(modelSaying("Right.")(t))
			ada := s.ada()
			s.limit(usage.OfUser, "id-ada", wire.BudgetRequest{Hard: new(40.0), Reserve: new(10.0)})
			for n := range faces { // each uses 15 tokens
				res, text := wholeOf(t, asksAt(ada, faces[(i+n)%3]))
				require.Equal(t, http.StatusOK, res.StatusCode)
				require.Contains(t, text, "Right.")
			}
			require.Equal(t, []object{row(3, 30, 15, "userId", "id-ada", "userName", "ada")}, s.counted("user"))
			for _, face := range faces {
				require.Contains(t, refused(t, asksAt(ada, face), ""), "You have used all of this month's tokens")
			}
			require.Equal(t, 3, s.number(`SELECT COUNT(*) FROM chat_messages WHERE role = 'assistant'`), "what is refused is not stored")
		})
	}
}

// An answer costs the same at all interfaces, with and without a stream, in the background, and if
// its client leaves.
func TestCostsOfAllFaces(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		s := open(t, url, func(c *config) {
			c.prices = map[string]usage.Price{"m": {Input: 1000, CacheRead: 10, CacheWrite: 30, Output: 2000}}
		})
		used := model.Usage{InputTokens: 7, OutputTokens: 5, CacheReadInputTokens: 11, CacheCreationInputTokens: 3}
		s.deploy(modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Stream(modeltest.Usage(used), modeltest.Text("Right.")))))
		requests := map[string]func(c *apitest.Client) *http.Request{
			"completions-whole": func(c *apitest.Client) *http.Request { return c.Request(http.MethodPost, completions, asked("hello")) },
			"completions-unstored": func(c *apitest.Client) *http.Request {
				return c.Request(http.MethodPost, completions, plus(asked("hello"), "store", false))
			},
			"responses-whole": func(c *apitest.Client) *http.Request {
				return c.Request(http.MethodPost, responsesPath, object{"model": "helper", "input": "hello"})
			},
			"responses-background": func(c *apitest.Client) *http.Request {
				return c.Request(http.MethodPost, responsesPath, object{"model": "helper", "input": "hello", "background": true})
			},
			"responses-compact": func(c *apitest.Client) *http.Request {
				return c.Request(http.MethodPost, responsesPath+"/compact", object{"model": "helper", "input": "hello"})
			},
		}
		for _, face := range faces {
			requests[face] = func(c *apitest.Client) *http.Request { return asksAt(c, face) }
		}
		for name, request := range requests {
			res, text := wholeOf(t, request(s.As("acme", name, rbac.Member)))
			require.Equal(t, http.StatusOK, res.StatusCode, text)
		}
		rows := func() []apitest.Object {
			return s.As("acme", "max", rbac.Admin).Get("/api/v1/admin/usage?by=user,model").Items()
		}
		require.Eventually(t, func() bool { return len(rows()) == len(requests) }, patience, 20*time.Millisecond)
		for _, one := range rows() {
			require.Contains(t, requests, one["userName"])
			require.InDelta(t, (7*1000+11*10+3*30+5*2000)/1e6, one["cost"], 1e-9, "%v", one)
			delete(one, "cost")
			delete(one, "userId")
			name := one["userName"]
			require.Equal(t, row(1, 7, 5, "userName", name, "model", "m", "cacheReadTokens", 11.0, "cacheWriteTokens", 3.0), one)
		}
	}, series...)
}

// Requests of all interfaces count for one rate. Those that begin no run do not.
func TestRatesOfAllFaces(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t), func(c *config) { c.rate = 4 })
	s.deploy(modelSaying("Right.")(t))
	ada := s.ada()
	native := session(ada) + "/messages"
	for _, req := range []*http.Request{
		ada.Request(http.MethodPost, native, object{"message": "hello"}), asksAt(ada, "completions"), asksAt(ada, "responses"),
		ada.Request(http.MethodPost, responsesPath+"/compact", object{"model": "helper", "input": "hello"}),
	} {
		ada.Get("/openai/v1/models").Want(http.StatusOK)
		failsAs(t, ada.Post(responsesPath+"/resp_bg_x/cancel", nil), http.StatusNotFound)
		res, text := wholeOf(t, req)
		require.Equal(t, http.StatusOK, res.StatusCode, text)
	}
	for _, req := range []*http.Request{ada.Request(http.MethodPost, native, object{"message": "hello"}), asksAt(ada, "completions"), asksAt(ada, "responses")} {
		require.Contains(t, refused(t, req, ""), "Too many requests of this user")
	}
	require.Equal(t, http.StatusOK, s.As("acme", "bob", rbac.Member).Post(completions, asked("hello")).Status)
}
