package catalog_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/catalog"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/rbac"
)

// endless is a file whose parser does not end.
var endless = "x=()=>" + strings.Repeat("a?(b):c=>", 40) + "d\n" + named("hang")

// All uploads of one tenant hang. Those of another one are checked, and one that waits for longer
// than others does not prevent the next tenant. The clients leave: the workers end and free their
// slots.
func TestATenantCannotOccupyTheChecks(t *testing.T) {
	t.Parallel()
	var running, most, acme atomic.Int32
	s := open(t, dbtest.SQLite(t, series...), func(cfg *catalog.Config) {
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
		body, kind := form(t, "hang.ts", endless)
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
	for range cap(statuses) - 9 { // one is checked, and 8 wait
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

// Users of one tenant take turns: an upload of one waits for at most one of another, however many
// that one sends.
func TestAUserCannotOccupyTheChecksOfATenant(t *testing.T) {
	t.Parallel()
	var checked []string
	var mu sync.Mutex // guards checked
	next := make(chan struct{})
	s := open(t, dbtest.SQLite(t, series...), func(cfg *catalog.Config) {
		cfg.CheckTool = func(ctx context.Context, fileName, source string) (string, error) {
			mu.Lock()
			checked = append(checked, fileName)
			mu.Unlock()
			select {
			case <-next:
			case <-ctx.Done():
			}
			return checkTool(ctx, fileName, source)
		}
	})
	count := func(n int) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(checked) == n
		}
	}
	ada, eve := s.As("acme", "ada", rbac.Maintainer), s.As("acme", "eve", rbac.Maintainer)
	var uploads sync.WaitGroup
	const most = 9
	rejected := make(chan int, 40)
	for i := range cap(rejected) {
		uploads.Go(func() {
			if status := send(t, ada, "POST", tools, "ada.ts", named(fmt.Sprintf("ada%d", i))).Status; status != http.StatusCreated {
				rejected <- status
			}
		})
	}
	for range cap(rejected) - most {
		require.Equal(t, http.StatusTooManyRequests, <-rejected)
	}
	require.Eventually(t, count(1), 2*time.Minute, time.Millisecond)
	uploads.Go(func() { send(t, eve, "POST", tools, "eve.ts", named("eve")).Want(http.StatusCreated) })
	require.Eventually(t, func() bool { return s.Uploads("acme") == most+1 }, 2*time.Minute, time.Millisecond)
	for n := 2; n <= most+1; n++ {
		next <- struct{}{}
		require.Eventually(t, count(n), 2*time.Minute, time.Millisecond)
	}
	next <- struct{}{}
	uploads.Wait()
	require.Contains(t, checked[1:3], "eve.ts")
}

func TestWithoutAWorkerToolsAreNotUploaded(t *testing.T) {
	t.Parallel()
	s := open(t, dbtest.SQLite(t, series...), func(cfg *catalog.Config) { cfg.CheckTool = nil })
	send(t, s.ada, "POST", tools, "a.ts", named("weather")).Error(http.StatusServiceUnavailable, wire.Unavailable)
}
