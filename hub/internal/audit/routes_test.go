package audit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/audit"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/rbac"
)

// One tenant cannot occupy the verifications: another one waits for none of it, and each user has a
// share of those of a tenant.
func TestVerificationsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const long = time.Minute
		var mu sync.Mutex // guards running
		running := map[string]int{}
		serve := audit.InTurn(func(_ http.ResponseWriter, r *http.Request) {
			tenant := api.CallerOf(r).TenantID
			mu.Lock()
			running[tenant]++
			if running[tenant] > 1 {
				t.Error("two verifications of one tenant")
			}
			mu.Unlock()
			<-time.After(long)
			mu.Lock()
			running[tenant]--
			mu.Unlock()
		})
		verify := func(ctx context.Context, tenant, user string) error {
			ctx = rbac.NewContext(ctx, api.Caller{TenantID: tenant, UserID: user})
			return serve(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody))
		}
		var all sync.WaitGroup
		begin := time.Now()
		for _, user := range []string{"ada", "ada", "ada", "bob"} {
			all.Go(func() {
				if err := verify(t.Context(), "acme", user); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		for _, user := range []string{"ada", "ada"} {
			err := verify(t.Context(), "acme", user)
			require.ErrorIs(t, err, wire.RateLimited)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, verify(gone, "acme", "bob"), context.Canceled)
		require.Equal(t, begin, time.Now(), "neither waits")
		for _, user := range []string{"eve", "eve"} {
			require.NoError(t, verify(t.Context(), "beta", user))
		}
		require.Equal(t, 2*long, time.Since(begin), "those of beta waited for none of acme")
		all.Wait()
		require.Equal(t, 4*long, time.Since(begin))
		require.NoError(t, verify(t.Context(), "acme", "ada"))
	})
}
