package deployment_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/deployment"
)

// ending is what a platform knows of a runtime that ended.
type ending struct {
	message string
	lines   []string
	err     error
}

// ended is a driver with the ending of its runtimes.
type ended struct {
	deploy.Driver
	ending atomic.Pointer[ending]
}

func (e *ended) Observe(ctx context.Context, ref deploy.Ref) (deploy.Observed, error) {
	o, err := e.Driver.Observe(ctx, ref)
	for i := range o.Runtimes {
		if r := &o.Runtimes[i]; r.Phase == deploy.Exited {
			r.Message = e.ending.Load().message
		}
	}
	return o, err
}

func (e *ended) Logs(context.Context, deploy.Ref, int64, int) ([]string, error) {
	end := e.ending.Load()
	return end.lines, end.err
}

// The status has why a runtime ended: the message of the platform, and the last warnings and errors
// in its log, each once, in at most 2000 bytes.
func TestReasonOfAnEnd(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		var warnings []string
		for i := range 7 {
			warnings = append(warnings, fmt.Sprintf(`{"level":"warn","message":"%d"}`, i))
		}
		plain := func(first ...string) []string { return append(first, "goroutine 1", "main.main()", "exit 2", "") }
		driver := &ended{Driver: w.driver}
		h := w.start(func(c *deployment.Config) {
			c.Driver, c.Backoff, c.WatchEvery = driver, time.Minute, 10*time.Millisecond
		})
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		for _, row := range []struct {
			ending ending
			want   string
		}{
			{ending{}, "see its log"},
			{ending{err: errors.New("planted")}, "its log cannot be read"},
			{ending{message: "exit code 137"}, "exit code 137"},
			{ending{message: "exit code 1", lines: warnings[:2]}, "exit code 1\n0\n1"},
			{ending{lines: warnings}, "2\n3\n4\n5\n6"},
			{ending{lines: append(warnings, warnings[1])}, "3\n4\n5\n6\n1"},
			{ending{lines: []string{`{"level":"info","message":"planted"}`, `{"level":"error","message":"m","err":"e\nplanted"}`}}, "m: e"},
			{ending{lines: []string{`{"level":"error","message":"planted","panic":1}`, `{"level":"fatal","message":"m"}`}}, "m"},
			{ending{lines: plain("runtime: planted", "hub: the disk is full")}, "hub: the disk is full"},
			{ending{lines: []string{`{"level":"error","message":"agent is unavailable","err":"load: no x"}`, "runtime: agent a is unavailable: load: no x"}}, "agent is unavailable: load: no x"},
			{ending{message: "planted" + strings.Repeat("x", 2000)}, strings.Repeat("x", 2000)},
			{ending{message: strings.Repeat("é", 1000) + "a"}, strings.Repeat("é", 999) + "a"},
		} {
			driver.ending.Store(&row.ending)
			h.reach("running")
			w.driver.Kill(key)
			s := h.until(func(s apitest.Object) bool { return s["error"] != nil })
			require.Equal(t, "The runtime ended: "+row.want, s["error"])
			require.Equal(t, []any{"starting", "unknown", nil}, []any{s["state"], s["health"], s["runtimeUrl"]})
			h.ada.Post(path+"/stop", nil).Want(http.StatusAccepted)
			h.reach("stopped")
			h.ada.Post(path+"/start", nil).Want(http.StatusAccepted)
		}
	})
}
