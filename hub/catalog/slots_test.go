package catalog_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/catalog"
	"github.com/seed93082962/agenthost/hub/db/dbtest"
)

// All uploads of one tenant hang. Those of another one are checked, and one that waits for longer
// than others does not prevent the next tenant. The clients leave: the workers end and free their
// slots.
func TestATenantCannotOccupyTheChecks(t *testing.T) {
	t.Parallel()
	var running, most, acme atomic.Int32
	s := open(t, dbtest.SQLite(t), func(cfg *catalog.Config) {
		cfg.CheckTool = func(ctx context.Context, fileName, source string) (string, error) {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			if fileName == "hang.ts" {
				acme.Add(1)
			}
			return checkTool(ctx, fileName, source)
		}
	})
	ctx, leave := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	statuses := make(chan int, 40)
	for range cap(statuses) {
		body, kind := form(t, "hang.ts", "for (;;);")
		req := s.ada.Request(http.MethodPost, tools, body, "Content-Type", kind).WithContext(ctx)
		clients.Go(func() {
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				return // this client left
			}
			defer res.Body.Close()
			statuses <- res.StatusCode
		})
	}
	for range cap(statuses) - 33 { // one is checked, and 32 wait
		require.Equal(t, http.StatusTooManyRequests, <-statuses)
	}
	require.Eventually(t, func() bool { return acme.Load() == 1 }, 2*time.Minute, time.Millisecond)
	var others sync.WaitGroup
	for i := range 8 {
		others.Go(func() {
			send(t, s.eve, "POST", tools, "a.ts", named(fmt.Sprintf("tool%d", i))).Want(http.StatusCreated)
		})
	}
	send(t, s.eve, "POST", skills, "SKILL.md", "---\nname: pdf\ndescription: d\n---\n", "type", "expert").Want(http.StatusCreated)
	others.Wait()
	require.EqualValues(t, 1, acme.Load(), "the first upload of acme is checked, and all others wait")
	require.LessOrEqual(t, most.Load(), int32(2))
	require.Empty(t, statuses)

	leave()
	clients.Wait()
	require.Eventually(t, func() bool { return running.Load() == 0 }, 2*time.Minute, time.Millisecond)
	send(t, s.ada, "POST", tools, "a.ts", named("weather")).Want(http.StatusCreated)
	require.Empty(t, s.Audit("acme")[1:])
}

func TestWithoutAWorkerToolsAreNotUploaded(t *testing.T) {
	t.Parallel()
	s := open(t, dbtest.SQLite(t), func(cfg *catalog.Config) { cfg.CheckTool = nil })
	send(t, s.ada, "POST", tools, "a.ts", named("weather")).Error(http.StatusServiceUnavailable, api.Unavailable)
}
