package deployment_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/deployment"
	"github.com/seed93082962/agenthost/hub/internal/store"
)

// measured starts a hub whose metrics the function returns, by name and the values of their labels.
func (w *world) measured(change ...func(*deployment.Config)) (*hub, func() map[string]float64) {
	w.t.Helper()
	reader := sdk.NewManualReader()
	traces := trace.NewTracerProvider(trace.WithSyncer(&w.spans))
	h := w.start(append(change, func(c *deployment.Config) {
		c.Store = apitest.NewStore(w.t, w.db, store.Config{
			Keyring: apitest.Keyring(w.t, w.keys...), MeterProvider: sdk.NewMeterProvider(sdk.WithReader(reader)), TracerProvider: traces,
		})
	})...)
	return h, func() map[string]float64 {
		w.t.Helper()
		var all metricdata.ResourceMetrics
		require.NoError(w.t, reader.Collect(w.t.Context(), &all))
		got := map[string]float64{}
		for _, scope := range all.ScopeMetrics {
			for _, m := range scope.Metrics {
				name := strings.TrimPrefix(m.Name, "agenthost.hub.deployment")
				switch data := m.Data.(type) {
				case metricdata.Gauge[float64]:
					for _, p := range data.DataPoints {
						got[name+" "+labels(p.Attributes)] = p.Value
					}
				case metricdata.Histogram[float64]:
					for _, p := range data.DataPoints {
						got[name+" "+labels(p.Attributes)] = float64(p.Count)
					}
				case metricdata.Sum[int64]:
					for _, p := range data.DataPoints {
						got[name+" "+labels(p.Attributes)] = float64(p.Value)
					}
				}
			}
		}
		return got
	}
}

func labels(set attribute.Set) string { return set.Encoded(attribute.DefaultEncoder()) }

// Each deployment is in the metrics of one hub, which has its lease.
func TestMetricsOfDeployments(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		first, metrics := w.measured()
		until := func(metrics func() map[string]float64, want map[string]float64) {
			t.Helper()
			var got map[string]float64
			require.Eventually(t, func() bool {
				got = metrics()
				for name, value := range want {
					if now, ok := got[name]; !ok || now != value {
						return false
					}
				}
				return true
			}, patience, pause, "%v", want)
		}
		first.ada.Post(path, nil).Want(http.StatusAccepted)
		first.reach("running")
		w.driver.Kill(key)
		until(metrics, map[string]float64{
			".restarts agent=helper,tenant=default": 1, "s state=running": 1, "s state=starting": 0, ".leases holder=this": 1, ".leases holder=other": 0,
		})
		require.NoError(t, first.Close())
		require.NotContains(t, metrics(), ".leases holder=this")
		require.EqualValues(t, 0, metrics()[".lease.changes change=lost"], "it was returned")
		second, metrics := w.measured()
		until(metrics, map[string]float64{".lease.changes change=taken": 1, ".lease.changes change=lost": 0, ".leases holder=this": 1, "s state=running": 1})
		third, others := w.measured()
		if third.db.Engine() == "postgres" { // on SQLite, there is one hub
			until(others, map[string]float64{".leases holder=this": 0, ".leases holder=other": 1, "s state=running": 0})
		}
		w.driver.Fail(deploy.ErrUnavailable)
		second.ada.Delete(path).Want(http.StatusNoContent)
		require.Eventually(t, func() bool { return metrics()["s state=deleting"]+others()["s state=deleting"] == 1 }, patience, pause)
		w.driver.Fail(nil)
		second.reach("not_deployed")
		require.Eventually(t, func() bool { return metrics()[".lease.changes change=lost"]+others()[".lease.changes change=lost"] > 0 }, patience, pause)
		for _, metrics := range []func() map[string]float64{metrics, others} {
			until(metrics, map[string]float64{".leases holder=this": 0, ".leases holder=other": 0, "s state=deleting": 0})
		}
	})
}

// Each call of the driver is counted with its outcome, and a poll has its time.
func TestMetricsOfTheDriver(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		f := w.failing()
		began := time.Now()
		h, metrics := w.measured(func(c *deployment.Config) { c.Driver = f })
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		h.reach("running")
		const name = "agenthost.hub.driver.call.duration "
		require.EqualValues(t, 1, metrics()[name+"call=apply,outcome=success"])
		require.GreaterOrEqual(t, metrics()["agenthost.hub.reconciler.poll.timestamp "], float64(began.Unix()))
		require.LessOrEqual(t, metrics()["agenthost.hub.reconciler.poll.timestamp "], float64(time.Now().Unix()+1))
		for outcome, err := range map[string]error{
			"error": errors.New("not permitted"), "unavailable": deploy.ErrUnavailable,
		} {
			f.set("Stop", err)
			h.ada.Post(path+"/stop", nil).Want(http.StatusAccepted)
			require.Eventually(t, func() bool { return metrics()[name+"call=stop,outcome="+outcome] > 0 }, patience, pause, outcome)
		}
		require.NoError(t, h.Close())
		seen := map[string]trace.Status{}
		for _, span := range w.spans.GetSpans() {
			seen[span.Name+" "+span.Status.Description] = span.Status
		}
		require.Equal(t, map[string]trace.Status{
			"deployment apply ": {}, "deployment stop error": {Code: codes.Error, Description: "error"},
			"deployment stop unavailable": {Code: codes.Error, Description: "unavailable"},
		}, seen)
	})
}

// A hub that has not read the leases has no time of that.
func TestMetricsBeforeAPoll(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.exec(`ALTER TABLE deployment_tombstones RENAME TO gone`)
		_, metrics := w.measured()
		require.NotContains(t, metrics(), "agenthost.hub.reconciler.poll.timestamp ")
		w.exec(`ALTER TABLE gone RENAME TO deployment_tombstones`)
		require.Eventually(t, func() bool { return metrics()["agenthost.hub.reconciler.poll.timestamp "] > 0 }, patience, pause)
	})
}

// A hub has the states of the deployments whose leases it takes, also if nothing changes.
func TestMetricsOfADeploymentThatDoesNotChange(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		first := w.start()
		first.ada.Post(path, nil).Want(http.StatusAccepted)
		first.reach("running")
		first.ada.Post(path+"/stop", nil).Want(http.StatusAccepted)
		first.reach("stopped")
		require.NoError(t, first.Close())
		second, metrics := w.measured()
		require.Eventually(t, func() bool { return metrics()["s state=stopped"] == 1 }, patience, pause)
		second.ada.Delete(path).Want(http.StatusNoContent)
		second.reach("not_deployed")
		require.Eventually(t, func() bool { return metrics()[".lease.changes change=lost"] >= 1 }, patience, pause, "a worker that begins as its deployment is deleted counts too")
	})
}
