package audit_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/audit"
)

func TestOneVerificationRunsAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running atomic.Int32
		serve := audit.OneAtATime(func(w http.ResponseWriter, _ *http.Request) {
			defer running.Add(-1)
			if running.Add(1) > 1 {
				w.WriteHeader(http.StatusTeapot)
			}
			<-time.After(time.Second)
		})
		begin := time.Now()
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				recorder := httptest.NewRecorder()
				require.NoError(t, serve(recorder, httptest.NewRequest(http.MethodGet, "/", http.NoBody)))
				require.Equal(t, http.StatusOK, recorder.Code)
			})
		}
		synctest.Wait()
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, serve(httptest.NewRecorder(), httptest.NewRequestWithContext(gone, http.MethodGet, "/", http.NoBody)), context.Canceled)
		require.Equal(t, begin, time.Now(), "a client that is gone does not wait")
		request := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		all.Go(func() { require.NoError(t, serve(httptest.NewRecorder(), request)) })
		synctest.Wait()
		rejected, ok := errors.AsType[*api.Error](serve(httptest.NewRecorder(), request))
		require.True(t, ok)
		require.Equal(t, api.RateLimited, rejected.Code)
		require.Equal(t, 10*time.Second, rejected.RetryAfter)
		all.Wait()
		require.Equal(t, 5*time.Second, time.Since(begin))
		require.NoError(t, serve(httptest.NewRecorder(), request))
	})
}
