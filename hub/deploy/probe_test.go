package deploy_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/deploy"
)

// A probe does not decode a response that would take much memory.
func TestLargeResponseOfARuntime(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.driver.Serve = func(deploy.Request) (http.Handler, error) {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if strings.HasPrefix(r.URL.Path, "/health") {
					_, _ = io.WriteString(w, "{}")
					return
				}
				_, _ = io.WriteString(w, `[{"id":"helper","status":"ready"}`+strings.Repeat(",{}", 64<<10)+"]") // the hub may have left
			}), nil
		}
		h := w.start(func(c *deploy.Config) { c.StartTimeout = 50 * time.Millisecond })
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		require.Contains(t, h.reach("failed")["error"], "the response is too large")
	})
}
