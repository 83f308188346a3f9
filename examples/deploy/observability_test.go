//go:build deploy

package deploy_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The rules, and the expressions of the dashboard as rules, are valid for Prometheus.
func TestExpressions(t *testing.T) {
	t.Parallel()
	var dashboard struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	text, err := os.ReadFile("observability/dashboard.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &dashboard))
	variables := strings.NewReplacer("$__rate_interval", "5m", "$hub", ".*", "$runtime", ".*", "$agent", ".*")
	rules := []map[string]string{}
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			rules = append(rules, map[string]string{"record": "panel", "expr": variables.Replace(target.Expr)})
		}
	}
	require.Greater(t, len(rules), 20)
	file := filepath.Join(t.TempDir(), "panels.yaml")
	text, err = json.Marshal(map[string]any{"groups": []any{map[string]any{"name": "panels", "rules": rules}}}) // JSON is YAML
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, text, 0o600))
	for _, path := range []string{"observability/alerts.yaml", file} {
		out, err := exec.CommandContext(t.Context(), "promtool", "check", "rules", "--lint=none", path).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
}
