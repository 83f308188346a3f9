package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// deployedRuns are the runs that a deployed runtime has at once.
const deployedRuns = 1000

// concurrently calls do with each index below n, eight at a time, and returns the first error of
// each caller.
func concurrently(n int, do func(i int) error) error {
	var next atomic.Int64
	var all sync.WaitGroup
	failures := make([]error, 8)
	for caller := range failures {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && failures[caller] == nil; i = int(next.Add(1)) - 1 {
				failures[caller] = do(i)
			}
		})
	}
	all.Wait()
	return errors.Join(failures...)
}

// Answers of ten agents are open at once through one hub, twice, as many as it may have files for.
// Each gets its first word, and another chat is answered. Their clients disconnect: each answer is
// stored as cancelled, and none is in progress.
func TestOpenAnswers(t *testing.T) {
	n := manyRuns(t, 2) // the connections of the client and to the runtime
	upstream, url, certificate := startStuck(t)
	metrics := freeAddress(t)
	in := newInstallation(t, 1, false, "HUB_CONFIG="+settingsFile(t, 20_000), "HUB_METRICS_ADDR="+metrics,
		"HUB_LOG_LEVEL=error", "SSL_CERT_FILE="+certificate)
	c := in.setUp(t)
	var agents []string
	for i := range (n + deployedRuns - 1) / deployedRuns {
		agents = append(agents, fmt.Sprint("many", i))
		in.deployOn(t, c, agents[i], url)
	}
	owner := c.users[1] // whose token is valid until the end
	agentOf := func(i int) string { return agents[i%len(agents)] }
	chats := make([]string, n)
	require.NoError(t, concurrently(n, func(i int) (err error) {
		chats[i], err = owner.newChat(t.Context(), agentOf(i), "")
		return err
	}))
	rounds := 0
	crowd{
		n:   n,
		now: func() (usage, error) { return use(in.hubs[0].pid(), "http://"+metrics+"/metrics") },
		start: func(ctx context.Context, client *http.Client, i int) (*http.Response, error) {
			return begin(ctx, client, in.urls[0]+"/api/v1/agents/"+agentOf(i)+"/chat/sessions/"+chats[i]+"/messages", owner.token, `{"message":"hello"}`)
		},
		during: func() {
			took, err := in.probe(t.Context(), owner)
			require.NoError(t, err, in.logs())
			fmt.Println("another chat needs", took.Round(time.Millisecond))
		},
		after: func() {
			rounds++
			require.NoError(t, eventually(t.Context(), patience, upstream.ended))
			require.NoError(t, eventually(t.Context(), patience, func(ctx context.Context) error {
				var list struct{ Total int }
				if err := owner.call(ctx, http.MethodGet, "/api/v1/admin/runs", nil, &list); err != nil || list.Total == 0 {
					return err
				}
				return fmt.Errorf("%d answers are in progress", list.Total)
			}))
			require.NoError(t, concurrently(n, func(i int) error {
				var list struct{ Items []message }
				if err := owner.call(t.Context(), http.MethodGet, "/api/v1/admin/chat/sessions/"+chats[i]+"/messages", nil, &list); err != nil {
					return err
				}
				if last := list.Items[len(list.Items)-1]; len(list.Items) != 2*rounds || last.Status != "cancelled" || last.Text != "One" {
					return fmt.Errorf("the chat %s is %+v", chats[i], list.Items)
				}
				return nil
			}))
		},
	}.openTwice(t)
	require.Empty(t, c.faults)
	require.NotContains(t, in.hubs[0].failures(), `"level":"error"`)
}
