package chat_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/chat/relay"
	"github.com/seed93082962/agenthost/hub/internal/deployment"
	"github.com/seed93082962/agenthost/hub/internal/usage"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
)

// beginning counts the messages that are about to begin.
type beginning struct {
	relay.Deployments

	n    atomic.Int64
	left sync.Map // the contexts of requests, by their number
}

func (b *beginning) Endpoint(ctx context.Context, tenantID, agentName string) (deployment.Endpoint, error) {
	b.left.Store(b.n.Add(1), ctx)
	return b.Deployments.Endpoint(ctx, tenantID, agentName)
}

// Messages that are sent at the same time begin in one transaction. What one of them may not do
// changes nothing for the others, and each has its own error.
func TestMessagesThatBeginTogether(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		begins := &beginning{}
		s := open(t, url, func(c *config) {
			begins.Deployments = c.Deployments
			c.Deployments, c.Relay.UserAnswers = begins, 2
		})
		s.deploy(endless(t))
		user := func(name string) *apitest.Client { return s.As("acme", name, "member") }
		s.limit(usage.OfUser, "id-poor", wire.BudgetRequest{Hard: new(1.0)})
		var mu sync.Mutex
		got := map[string][]int{} // statuses by the kind of message
		var calls sync.WaitGroup
		ask := func(ctx context.Context, kind string, c *apitest.Client, path string, body object) {
			calls.Go(func() {
				res, err := http.DefaultClient.Do(c.Request(http.MethodPost, path+"/messages", body).WithContext(ctx))
				status := 0
				if err == nil {
					t.Cleanup(func() { _ = res.Body.Close() })
					if status = res.StatusCode; status == http.StatusOK && strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") {
						status = http.StatusAlreadyReported
					}
				}
				mu.Lock()
				defer mu.Unlock()
				got[kind] = append(got[kind], status)
			})
		}
		hello := object{"message": "hello"}
		one, many, same := session(user("one")), user("many"), session(user("same"))
		var paths []string
		for i := range 20 {
			paths = append(paths, session(user(fmt.Sprint("user-", i))))
		}
		ofMany, ofPoor := []string{session(many), session(many), session(many)}, []string{session(user("poor")), session(user("poor"))}
		gone, leave := context.WithCancel(t.Context())
		left := session(user("left"))
		ctx := t.Context()
		require.NoError(t, s.db.Tx(ctx, func(tx *sql.Tx) error {
			if s.db.Engine() == db.PostgreSQL { // a transaction of SQLite excludes others
				require.NoError(t, db.Exec(ctx, tx, "lock", `LOCK TABLE chat_runs IN SHARE MODE`))
			}
			ask(ctx, "good", user("user-0"), paths[0], hello) // the others wait for it
			require.Eventually(t, func() bool { return begins.n.Load() == 1 }, patience, time.Millisecond)
			for i, path := range paths[1:] {
				ask(ctx, "good", user(fmt.Sprint("user-", i+1)), path, hello)
			}
			for range 2 {
				ask(ctx, "two in one session", user("one"), one, hello)
				ask(ctx, "two with one id", user("same"), same, object{"message": "hello", "clientMessageId": "1"})
			}
			for _, path := range ofMany {
				ask(ctx, "three of one user", many, path, hello)
			}
			for _, path := range ofPoor {
				ask(ctx, "two with a budget for one", user("poor"), path, hello)
			}
			ask(ctx, "no session", user("one"), sessions+"/none", hello)
			ask(gone, "a client that leaves", user("left"), left, hello)
			require.Eventually(t, func() bool { return begins.n.Load() == 31 }, patience, time.Millisecond)
			leave()
			require.Eventually(t, func() bool {
				gone := false
				begins.left.Range(func(_, ctx any) bool {
					gone = gone || ctx.(context.Context).Err() != nil
					return !gone
				})
				return gone
			}, patience, time.Millisecond, "the hub knows that it has left")
			return nil
		}))
		calls.Wait()
		for kind, want := range map[string][]int{
			"two in one session":        {200, 409},
			"two with one id":           {200, 208},
			"three of one user":         {200, 200, 429},
			"two with a budget for one": {200, 429},
			"no session":                {404},
			"a client that leaves":      {0},
		} {
			require.ElementsMatch(t, want, got[kind], kind)
		}
		require.Len(t, got["good"], len(paths))
		for i, status := range got["good"] {
			require.Equal(t, 200, status)
			require.Equal(t, []any{float64(1), "hello", float64(2), "partial"}, stored(user(fmt.Sprint("user-", i)), paths[i]))
		}
		require.Equal(t, []any{float64(1), "hello", float64(2), "partial"}, stored(user("same"), same))
		require.Empty(t, messages(user("left"), left))
		for who, count := range map[string]int{"left": 0, "poor": 2, "many": 4, "one": 2} {
			require.Equal(t, count, s.number(`SELECT SUM(message_count) FROM chat_sessions WHERE user_id = 'id-`+who+`'`), who)
			require.Equal(t, count/2*(2*512+len("hello")), s.number(`SELECT SUM(size) FROM chat_sessions WHERE user_id = 'id-`+who+`'`), who)
		}
	}, series...)
}

// stored returns what a message and its answer begin with.
func stored(c *apitest.Client, path string) []any {
	all := messages(c, path)
	return []any{all[0]["seq"], all[0]["text"], all[1]["seq"], all[1]["status"]}
}

// A hub that another one has removed begins no answer before it has joined again.
func TestARemovedHubBeginsNoAnswer(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		s := open(t, url, quiet)
		s.deploy(nil)
		ada := s.ada()
		path := session(ada)
		require.Eventually(t, func() bool {
			s.removes(s.store.HubID)
			return ada.Post(path+"/messages", object{"message": "hello"}).Status == http.StatusServiceUnavailable
		}, patience, 10*time.Millisecond)
	}, series...)
}

// A message whose session, or whose user's runs, another transaction has locked waits alone.
func TestAMessageThatWaitsForALock(t *testing.T) {
	t.Parallel()
	for name, lock := range map[string]string{
		"session": `UPDATE chat_sessions SET title = title WHERE user_id = 'id-ada'`,
		"user":    `SELECT pg_advisory_xact_lock(hashtext('chat_runs acme id-ada'))`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, postgres(t))
			s.deploy(nil)
			ada, eve := s.ada(), s.As("acme", "eve", "member")
			path := session(ada)
			waits := make(chan *stream, 1)
			require.NoError(t, s.db.Tx(t.Context(), func(tx *sql.Tx) error {
				require.NoError(t, db.Exec(t.Context(), tx, "lock", lock))
				go func() { waits <- send(t, ada, path, object{"message": "hello"}) }()
				s.awaitLock()
				require.Equal(t, "completed", last(say(t, eve, session(eve), "hello")))
				return nil
			}))
			require.Equal(t, "completed", last((<-waits).rest()))
		})
	}
}
