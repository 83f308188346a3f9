package doctor_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed93082962/agenthost/internal/doctor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ExampleRun() {
	results := doctor.Run(context.Background(), doctor.Check{Name: "license", Do: func(context.Context) []doctor.Result {
		return doctor.Fail("the license has expired", "renew it")
	}})
	fmt.Println(results[0].Check, results[0].Status, results[0].Fact, doctor.Failed(results))
	// Output: license error the license has expired 1
}

// A check that waits ends, and the next one has its own time.
func TestEachCheckIsBounded(t *testing.T) {
	t.Parallel()
	waits := func(ctx context.Context) []doctor.Result {
		<-ctx.Done()
		return doctor.Warn(context.Cause(ctx).Error(), "")
	}
	runs := func(ctx context.Context) []doctor.Result {
		require.NoError(t, ctx.Err())
		return doctor.Fine("it runs")
	}
	results := doctor.Run(t.Context(), doctor.Check{Name: "waits", Within: 1, Do: waits}, doctor.Check{Name: "runs", Do: runs})
	require.Equal(t, []doctor.Result{
		{Check: "waits", Status: doctor.Warning, Fact: "context deadline exceeded"},
		{Check: "runs", Status: doctor.OK, Fact: "it runs"},
	}, results)
	require.Zero(t, doctor.Failed(results))
}

func TestDisk(t *testing.T) {
	t.Parallel()
	require.Equal(t, doctor.OK, doctor.Judge("/srv", 10<<30, 1<<20)[0].Status)
	require.Equal(t, doctor.Warning, doctor.Judge("/srv", 1<<30, 1<<20)[0].Status)
	full := doctor.Judge("/srv", 5<<20, 1<<20)[0]
	require.Equal(t, doctor.Result{
		Status: doctor.Error, Fact: "5 MiB are free in /srv", Fix: "delete files, or enlarge the disk: on a full disk, every change fails",
	}, full)
	require.Contains(t, doctor.Judge("/srv", 10<<30, 7)[0].Fact, "7 more files can be created in /srv")
	require.Contains(t, doctor.Disk(t.TempDir())[0].Fact, "MiB are free in ")
	require.Contains(t, doctor.Disk("/does/not/exist")[0].Fact, "is unknown")
}

func TestPublicURL(t *testing.T) {
	t.Parallel()
	body, status := `{"status":"ok","version":"v1"}`, http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "/base/health", r.URL.Path)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	defer server.Close()
	base := server.URL + "/base"
	require.Equal(t, doctor.Fine(base+" is a hub of version v1"), doctor.PublicURL(t.Context(), base, false))
	body = "<html>"
	require.Contains(t, doctor.PublicURL(t.Context(), base, false)[0].Fact, "is not a hub")
	body, status = `{"status":"ok","version":"v1"}`, http.StatusNotFound
	_, err := doctor.Health(t.Context(), base)
	require.True(t, errors.Is(err, doctor.ErrNotHub))
	server.Close()
	require.Contains(t, doctor.PublicURL(t.Context(), base, false)[0].Fact, "does not respond")
	unknown := doctor.PublicURL(t.Context(), "https://127.0.0.1:1", false)
	require.Contains(t, unknown[0].Fact, "no proxy is trusted")
	require.Equal(t, doctor.Warning, unknown[0].Status)
	require.Len(t, doctor.PublicURL(t.Context(), "https://127.0.0.1:1", true), 1)
}
