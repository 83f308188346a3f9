package main_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/seed93082962/agenthost/cmd/internal/daemontest"
)

const observability = "../../examples/deploy/observability/"

// agents has an agent with a model and a tool, and one whose provider does not respond.
const agents = `
agents:
  - {id: demo, model: demo, provider: {protocol: demo}, allowedTools: [Glob]}
  - {id: broken, model: m, provider: {protocol: openai, baseUrl: "http://127.0.0.1:1"}}
`

// runtimeMetrics returns the metrics of a runtime that has had a run, a tool call and a failed run.
func runtimeMetrics(t *testing.T) map[string]*dto.MetricFamily {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "agents.yaml"), []byte(agents), 0o600))
	p := daemontest.Spawn(t, binary(t), dir, []string{"PATH", os.Getenv("PATH")}, "runtime", "--addr", "127.0.0.1:0", "--metrics-addr", "127.0.0.1:0",
		"--config", "agents.yaml")
	p.Started(t)
	for _, row := range [][2]string{
		{"demo", `{"message":"hello","stream":true}`}, {"demo", `{"message":"/tool Glob {\"pattern\":\"*\"}","stream":false}`},
		{"broken", `{"message":"hello","stream":false}`},
	} {
		res := call(t, http.MethodPost, p.URL+"/v1/agents/"+row[0]+"/runs", "", row[1])
		require.NotEqual(t, http.StatusBadRequest, res.status, res.text)
		require.NotEqual(t, http.StatusServiceUnavailable, res.status, res.text)
	}
	return scrape(t, p.Instance)
}

// expressions returns what the dashboard and the alerts request, by the title of the panel or the
// alert.
func expressions(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
		Templating struct {
			List []struct{ Name, Query any }
		}
	}
	text, err := os.ReadFile(observability + "dashboard.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &dashboard))
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			all[panel.Title] = append(all[panel.Title], target.Expr)
		}
	}
	for _, variable := range dashboard.Templating.List {
		if query, ok := variable.Query.(map[string]any); ok {
			all["variables"] = append(all["variables"], query["query"].(string))
		}
	}
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations map[string]string
			}
		}
	}
	text, err = os.ReadFile(observability + "alerts.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &rules))
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			all[rule.Alert] = append(all[rule.Alert], rule.Expr)
			require.Greater(t, len(rule.Annotations["runbook"]), 40, rule.Alert)
			require.NotEmpty(t, rule.Annotations["summary"], rule.Alert)
		}
	}
	require.Greater(t, len(all), 30)
	return all
}

var (
	metricName = regexp.MustCompile(`\b(?:agenthost|process|go)_\w+`)
	ofSeries   = regexp.MustCompile(`_(?:bucket|sum|count)$`)
	selector   = regexp.MustCompile(`(\w+)\{([^}]*)\}`)
	labelName  = regexp.MustCompile(`(\w+) *(?:=~|!~|!=|=)`)
)

// Each metric and label that the dashboard and the alerts name is in a scrape of the real programs.
func TestDashboardAndAlerts(t *testing.T) {
	t.Parallel()
	p := observed(t)
	families := scrape(t, p.Instance)
	maps.Copy(families, runtimeMetrics(t))
	family := func(name string) *dto.MetricFamily {
		if f := families[name]; f != nil {
			return f
		}
		return families[ofSeries.ReplaceAllString(name, "")]
	}
	for title, all := range expressions(t) {
		for _, expr := range all {
			for _, name := range metricName.FindAllString(expr, -1) {
				require.NotNil(t, family(name), "%s: %s", title, name)
			}
			for _, m := range selector.FindAllStringSubmatch(expr, -1) {
				known := map[string]bool{"job": true, "instance": true}
				for _, one := range family(m[1]).GetMetric() {
					for _, label := range one.GetLabel() {
						known[label.GetName()] = true
					}
				}
				for _, label := range labelName.FindAllStringSubmatch(m[2], -1) {
					require.True(t, m[1] == "up" || known[label[1]], "%s: %s has no label %s", title, m[1], label[1])
				}
			}
		}
	}
	p.end()
}

// The PodMonitor and the NetworkPolicy of Kubernetes name the port and the labels of the hub.
func TestMetricsInKubernetes(t *testing.T) {
	hub, err := os.ReadFile("../../examples/deploy/kubernetes/hub.yaml")
	require.NoError(t, err)
	monitor, err := os.ReadFile("../../examples/deploy/kubernetes/metrics.yaml")
	require.NoError(t, err)
	port := regexp.MustCompile(`HUB_METRICS_ADDR: \S+:(\d+)`).FindStringSubmatch(string(hub))
	require.Len(t, port, 2)
	require.Contains(t, string(hub), "{name: metrics, containerPort: "+port[1]+"}")
	require.Contains(t, string(monitor), "{port: "+port[1]+"}")
	require.Contains(t, string(monitor), "{port: metrics, path: /metrics")
	require.Equal(t, 2, strings.Count(string(monitor), "matchLabels: {app.kubernetes.io/name: hub}"))
	require.Contains(t, string(hub), "labels: {app.kubernetes.io/name: hub}")
}
