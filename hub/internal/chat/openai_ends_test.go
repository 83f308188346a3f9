package chat_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/usage"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/rbac"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// Every hub continues, reads and cancels the responses of the others.
func TestResponsesOfReplicas(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		a, b := open(t, url), open(t, url)
		a.deploy(modelSaying("Right.")(t))
		b.endpoint.Store(a.endpoint.Load())
		one, two := a.ada(), b.ada()
		first := one.Post(responsesPath, object{"model": "helper", "input": "one"}).Want(http.StatusOK)
		follow := object{"model": "helper", "input": "two", "previous_response_id": first["id"]}
		second := two.Post(responsesPath, follow).Want(http.StatusOK)
		require.Equal(t, []string{"one|Right.|two|Right."}, textsOf(one))
		require.Equal(t, outputOf(second), outputOf(one.Get(responsesPath+"/"+second["id"].(string)).Want(http.StatusOK)))
		one.Post(responsesPath, follow).Want(http.StatusOK)
		require.Len(t, listed(two), 2, "a branch")
		complete(one, "three")
		complete(two, "three", "Right.", "four")
		require.Len(t, listed(one), 3)

		a.deploy(endless(t))
		b.endpoint.Store(a.endpoint.Load())
		id := one.Post(responsesPath, object{"model": "helper", "input": "go", "background": true, "stream": false}).Want(http.StatusOK)["id"].(string)
		path := responsesPath + "/" + id
		require.Equal(t, "in_progress", two.Get(path).Want(http.StatusOK)["status"])
		failsAs(t, two.Get(path+"?stream=true"), http.StatusBadRequest)
		failsAs(t, b.As("acme", "bob", rbac.Admin).Post(path+"/cancel", nil), http.StatusNotFound)
		two.Post(path+"/cancel", nil).Want(http.StatusOK)
		for _, c := range []*apitest.Client{one, two} {
			require.Eventually(t, func() bool { return c.Get(path).Want(http.StatusOK)["status"] == "cancelled" }, patience, 20*time.Millisecond)
		}
		two.Post(path+"/cancel", nil).Want(http.StatusOK)
		require.Equal(t, "cancelled", two.Get(path).Want(http.StatusOK)["status"])
		require.Zero(t, a.number(`SELECT COUNT(*) FROM chat_runs`))
		require.EqualValues(t, 6, a.counted("agent")[0]["runs"])
	}, series...)
}

// Continuations of one response at the same time: one has its session, and the others branch.
func TestBranchesOfAResponse(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		a, b := open(t, url), open(t, url)
		a.deploy(modelSaying("Right.")(t))
		b.endpoint.Store(a.endpoint.Load())
		first := a.ada().Post(responsesPath, object{"model": "helper", "input": "one"}).Want(http.StatusOK)["id"]
		var mu sync.Mutex
		ids := map[string]bool{}
		var wg sync.WaitGroup
		for i := range 8 {
			c := []*server{a, b}[i%2].ada()
			wg.Go(func() {
				res := c.Post(responsesPath, object{"model": "helper", "input": fmt.Sprint("two ", i), "previous_response_id": first})
				if !strings.Contains(res.Text, `"completed"`) {
					t.Error(res.Text)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				ids[res.Want(http.StatusOK)["id"].(string)] = true
			})
		}
		wg.Wait()
		require.Len(t, ids, 8)
		for id := range ids {
			require.Equal(t, "Right.", outputOf(b.ada().Get(responsesPath+"/"+id).Want(http.StatusOK)))
		}
		all := textsOf(a.ada())
		require.Len(t, all, 8)
		for _, texts := range all {
			require.Regexp(t, `^one\|Right\.\|two \d\|Right\.$`, texts)
		}
	}, series...)
}

// A client that leaves cancels its run, with and without a stream, and the run counts.
func TestClientsOfAllFacesThatLeave(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t))
	up := endless(t)
	s.deploy(up)
	for i, body := range []object{
		asked("hello"), plus(asked("hello"), "stream", true), plus(asked("hello"), "store", false),
		{"model": "helper", "input": "hello"}, {"model": "helper", "input": "hello", "stream": true}, {"model": "helper", "input": "hello", "store": false},
	} {
		user := fmt.Sprint("user", i)
		path := completions
		if body["input"] != nil {
			path = responsesPath
		}
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan struct{})
		go func() {
			defer close(left)
			if res, err := http.DefaultClient.Do(s.As("acme", user, rbac.Member).Request(http.MethodPost, path, body).WithContext(ctx)); err == nil {
				<-ctx.Done()
				_ = res.Body.Close()
			}
		}()
		called := up.Await(t, i+1)
		cancel()
		<-left
		<-called.Closed()
	}
	require.Eventually(t, func() bool { return len(s.counted("user")) == 6 }, patience, 20*time.Millisecond)
	require.Equal(t, 4, s.number(`SELECT COUNT(*) FROM chat_messages WHERE status = 'cancelled'`))
	require.Zero(t, s.number(`SELECT COUNT(*) FROM chat_runs`))
	require.Zero(t, s.number(`SELECT COUNT(*) FROM chat_sessions WHERE ephemeral`))
}

// A request with store: false leaves no row with its texts in the hub, and no session in the
// runtime.
func TestUnstoredRequestsLeaveNothing(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t))
	s.deploy(modelSaying("A zebra answer.")(t))
	deleted := s.front()
	ada := s.ada()
	for _, req := range []*http.Request{
		ada.Request(http.MethodPost, completions, plus(asked("a zebra", "a zebra", "a zebra"), "store", false)),
		ada.Request(http.MethodPost, completions, plus(plus(asked("a zebra"), "store", false), "stream", true)),
		ada.Request(http.MethodPost, responsesPath, object{"model": "helper", "input": "a zebra", "store": false}),
		ada.Request(http.MethodPost, responsesPath+"/compact", object{"model": "helper", "input": "a zebra"}),
	} {
		res, text := wholeOf(t, req)
		require.Equal(t, http.StatusOK, res.StatusCode, text)
	}
	tables, err := db.Values[string](t.Context(), s.db.Read(), "read tables", `SELECT name FROM sqlite_master WHERE type = 'table'`)
	require.NoError(t, err)
	require.Greater(t, len(tables), 10)
	for _, table := range tables {
		columns, err := db.Values[string](t.Context(), s.db.Read(), "read columns", `SELECT name FROM pragma_table_info($1)`, table)
		require.NoError(t, err)
		for _, column := range columns {
			require.Zero(t, s.number(`SELECT COUNT(*) FROM "`+table+`" WHERE CAST("`+column+`" AS TEXT) LIKE '%zebra%'`), "%s.%s", table, column)
		}
	}
	require.Zero(t, s.number(`SELECT COUNT(*) FROM chat_sessions`))
	require.Eventually(t, func() bool { return len(deleted()) == 4 && s.transcripts() == 0 }, patience, 20*time.Millisecond)
	require.EqualValues(t, 4, s.counted("agent")[0]["runs"])
}

// dial opens a WebSocket connection of a user, with headers in pairs.
func (s *server) dial(t *testing.T, c *apitest.Client, headers ...string) (*websocket.Conn, *http.Response, error) {
	t.Helper()
	req := c.Request(http.MethodGet, responsesPath, nil, headers...)
	conn, res, err := websocket.Dial(t.Context(), s.URL+responsesPath, &websocket.DialOptions{HTTPHeader: req.Header})
	if conn != nil {
		t.Cleanup(func() { _ = conn.CloseNow() })
	}
	return conn, res, err
}

// until returns the message with one of these types.
func until(t *testing.T, conn *websocket.Conn, types ...string) object {
	t.Helper()
	for {
		var v object
		require.NoError(t, wsjson.Read(t.Context(), conn, &v))
		for _, kind := range types {
			if v["type"] == kind {
				return v
			}
		}
	}
}

// The messages of a WebSocket connection have the rates, budgets and chats of requests.
func TestWebSocketsOfTheHub(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t), func(c *config) { c.rate = 4 })
	s.deploy(modelSaying("Right.")(t))
	ada := s.ada()
	_, res, err := s.dial(t, s.As("", "", ""))
	require.Error(t, err)
	require.Equal(t, http.StatusUnauthorized, res.StatusCode)
	_, res, err = s.dial(t, ada, "Origin", "https://other.example.com")
	require.Error(t, err)
	require.Equal(t, http.StatusForbidden, res.StatusCode)

	conn, _, err := s.dial(t, ada)
	require.NoError(t, err)
	ask := func(more ...any) object {
		body := object{"type": "response.create", "model": "helper", "input": "hello"}
		for i := 0; i < len(more); i += 2 {
			body[more[i].(string)] = more[i+1]
		}
		require.NoError(t, wsjson.Write(t.Context(), conn, body))
		return until(t, conn, "response.completed", "error")
	}
	first := ask()["response"].(object)
	require.Equal(t, "Right.", outputOf(first))
	second := ask("previous_response_id", first["id"], "input", "two")["response"].(object)
	require.Equal(t, []string{"hello|Right.|two|Right."}, textsOf(ada))
	unstored := ask("store", false)["response"].(object)
	require.Len(t, listed(ada), 1)
	require.Equal(t, outputOf(second), outputOf(ada.Get(responsesPath+"/"+second["id"].(string)).Want(http.StatusOK)))
	failsAs(t, ada.Get(responsesPath+"/"+unstored["id"].(string)), http.StatusNotFound)

	s.limit(usage.OfUser, "id-ada", wire.BudgetRequest{Hard: new(20.0), Reserve: new(10.0)})
	failure := ask()
	require.EqualValues(t, http.StatusTooManyRequests, failure["status"])
	require.Contains(t, failure["error"].(object)["message"], "You have used all of")
	failure = ask()
	require.Contains(t, failure["error"].(object)["message"], "Too many requests of this user")
	require.EqualValues(t, 3, s.counted("agent")[0]["runs"])

	bob, _, err := s.dial(t, s.As("acme", "bob", rbac.Admin))
	require.NoError(t, err)
	require.NoError(t, wsjson.Write(t.Context(), bob, object{"type": "response.create", "model": "helper", "input": "x", "previous_response_id": first["id"]}))
	require.Equal(t, "previous_response_not_found", until(t, bob, "error")["error"].(object)["code"])
}

// The end of a connection cancels the response in progress.
func TestAWebSocketThatEnds(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t))
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("Half"), modeltest.Hang()))
	s.deploy(up)
	conn, _, err := s.dial(t, s.ada())
	require.NoError(t, err)
	require.NoError(t, wsjson.Write(t.Context(), conn, object{"type": "response.create", "model": "helper", "input": "hello"}))
	until(t, conn, "response.output_text.delta")
	require.NoError(t, conn.CloseNow())
	<-up.Await(t, 1).Closed()
	require.Eventually(t, func() bool { return s.number(`SELECT COUNT(*) FROM chat_messages WHERE status = 'cancelled'`) == 1 }, patience, 20*time.Millisecond)
	require.EqualValues(t, 1, s.counted("agent")[0]["runs"])
}
