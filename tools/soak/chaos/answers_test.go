package chaos_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// deployedRuns are the runs that a deployed runtime has at once.
const deployedRuns = 1000

// Answers of ten agents are open at once, as many as TestOpenRuns has runs. Each gets its first word,
// and another chat is answered. Their clients disconnect: nothing remains of them, and each answer is
// stored as cancelled.
func TestOpenAnswers(t *testing.T) {
	n := manyRuns(t)
	metrics := freeAddress(t)
	const many = "=20000"
	in := newInstallation(t, 1, false, "HUB_ANSWERS_PER_USER"+many, "HUB_ANSWERS_PER_AGENT"+many, "HUB_METRICS_ADDR="+metrics, "HUB_LOG_LEVEL=error")
	c := in.setUp(t)
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Stream(modeltest.Text("One"), modeltest.Hang())))
	var agents []string
	for i := range (n + deployedRuns - 1) / deployedRuns {
		agents = append(agents, fmt.Sprint("many", i))
		in.deployOn(t, c, agents[i], up.URL)
	}
	chats := make([]string, n)
	var next atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				id, err := c.newChat(t.Context(), agents[i%len(agents)], "")
				if err != nil {
					t.Error(err)
					return
				}
				chats[i] = id
			}
		})
	}
	all.Wait()
	require.False(t, t.Failed())
	now := func() (usage, error) { return use(in.hubs[0].pid(), "http://"+metrics+"/metrics") }
	before, err := now()
	require.NoError(t, err)
	began := time.Now()
	end := openRuns(t, n, func(ctx context.Context, client *http.Client, i int) (*http.Response, error) {
		return begin(ctx, client, in.urls[0]+"/api/v1/agents/"+agents[i%len(agents)]+"/chat/sessions/"+chats[i]+"/messages", c.token, `{"message":"hello"}`)
	})
	open, err := now()
	require.NoError(t, err)
	fmt.Printf("hub: %d answers open after %v: %d MiB, %.1f KiB, %.1f goroutines and %.1f files for each\n", n, time.Since(began).Round(time.Second), open.memory>>20,
		float64(open.memory-before.memory)/float64(n)/1024, float64(open.goroutines-before.goroutines)/float64(n), float64(open.files-before.files)/float64(n))
	took, err := in.probe(t.Context(), c)
	require.NoError(t, err, in.logs())
	fmt.Println("hub: another chat needs", took.Round(time.Millisecond))
	end()
	after := requireEnd(t, before, now)
	fmt.Printf("hub: after their end: %d MiB, %d goroutines, %d files\n", after.memory>>20, after.goroutines, after.files)
	require.NoError(t, eventually(t.Context(), patience, func(context.Context) error { return closed(up) }))
	for i := 0; i < n; i += n / 100 {
		require.NoError(t, eventually(t.Context(), patience, func(ctx context.Context) error {
			return c.stored(ctx, agents[i%len(agents)], chats[i], "cancelled", "One", true)
		}))
	}
}
