package main_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/cmd/internal/daemontest"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/db/pgtest"
	"github.com/seed93082962/agenthost/runtime/client"
	"github.com/seed93082962/agenthost/runtime/wire"
)

var servingMetrics = regexp.MustCompile(`"addr":"([^"\s]+)"[^\n]*"message":"serving metrics"`)

// scrape returns the metrics of a server by their names.
func scrape(t *testing.T, in *daemontest.Instance) map[string]*dto.MetricFamily {
	t.Helper()
	res := call(t, http.MethodGet, "http://"+in.Await(t, in.Log, servingMetrics)[1]+"/metrics", "", "")
	require.Equal(t, http.StatusOK, res.status, res.text)
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(res.text))
	require.NoError(t, err)
	return families
}

// value returns the sum of the series of a metric with these labels, as "name=value". Of a
// histogram, it is the number of values.
func value(families map[string]*dto.MetricFamily, name string, labels ...string) (sum float64) {
	for _, m := range families[name].GetMetric() {
		var all []string
		for _, l := range m.GetLabel() {
			all = append(all, l.GetName()+"="+l.GetValue())
		}
		if !slices.ContainsFunc(labels, func(l string) bool { return !slices.Contains(all, l) }) {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

// series returns the number of series of this module.
func series(families map[string]*dto.MetricFamily) (n int) {
	for name, f := range families {
		if strings.HasPrefix(name, "agenthost_") {
			n += len(f.GetMetric())
		}
	}
	return n
}

// observed is a hub with metrics that has done everything once: a chat, one whose provider does not
// respond, pushes, logins, and the start of a runtime that was killed.
func observed(t *testing.T, env ...string) *product {
	t.Helper()
	p := openProduct(t, append([]string{"HUB_METRICS_ADDR", "127.0.0.1:0", "HUB_CONFIG", file(t, "limits: {requestsPerUser: 8}")}, env...)...)
	p.send(http.StatusCreated, http.MethodPost, adminAgents, `{"name":"helper","providerId":"demo","model":"demo"}`)
	p.deploy("helper")
	away := p.send(http.StatusCreated, http.MethodPost, "/api/v1/admin/providers", `{"name":"away","protocol":"openai","baseUrl":"http://127.0.0.1:1","apiKey":"k"}`)
	p.send(http.StatusCreated, http.MethodPost, adminAgents, `{"name":"broken","providerId":"`+away.string(t, "id")+`","model":"m"}`)
	p.deploy("broken")
	p.send(http.StatusOK, http.MethodPost, p.session("helper")+"/messages", `{"message":"hello"}`)
	p.send(http.StatusOK, http.MethodPost, p.session("broken")+"/messages", `{"message":"hello"}`)
	require.NoError(t, syscall.Kill(runtimes(p.path)[0], syscall.SIGKILL))
	p.until("helper", func(s map[string]any) bool { return s["state"] == "running" })
	restarted := func(agent string) bool {
		return p.send(http.StatusOK, http.MethodGet, adminAgents+"/"+agent+"/deploy", "").body["restartCount"] == 1.0
	}
	require.Eventually(t, func() bool { return restarted("helper") || restarted("broken") }, daemontest.Patience, 50*time.Millisecond)
	push := `{"sessions":[{"id":"a","agent_name":"%s","created_at":"2026-01-01T00:00:00Z","updated_at":"2026-01-01T00:00:00Z","messages":[]}]}`
	p.send(http.StatusOK, http.MethodPost, "/api/v1/chat/push", fmt.Sprintf(push, "helper"))
	p.send(http.StatusOK, http.MethodPost, "/api/v1/chat/push", fmt.Sprintf(push, "no such agent"))
	call(t, http.MethodPost, p.URL+"/auth/login", "", `{"username":"admin","password":"`+password+`"}`)
	call(t, http.MethodPost, p.URL+"/auth/login", "", `{"username":"admin","password":"incorrect"}`)
	return p
}

// end deletes the deployments of observed.
func (p *product) end() {
	p.t.Helper()
	for _, agent := range []string{"helper", "broken"} {
		p.send(http.StatusNoContent, http.MethodDelete, adminAgents+"/"+agent+"/deploy", "")
		p.until(agent, func(s map[string]any) bool { return s["state"] == "not_deployed" })
	}
}

// documented returns the rows of a table of metrics: the labels by the name.
func documented(t *testing.T, file string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	rows := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(agenthost_\\w+)` \\| \\w+ \\|([^|]*)\\|").FindAllStringSubmatch(string(text), -1) {
		rows[m[1]] = strings.Join(regexp.MustCompile(`\w+`).FindAllString(m[2], -1), " ")
	}
	return rows
}

// The table has exactly the metrics of a hub, with their labels.
func TestMetrics(t *testing.T) {
	t.Parallel()
	p := observed(t)
	for range 8 { // beyond the rate of the user
		call(t, http.MethodPost, p.URL+"/api/v1/chat/push", p.token, `{"sessions":[]}`)
	}
	families := scrape(t, p.Instance)
	for _, row := range []struct {
		name   string
		labels []string
		least  float64
	}{
		{"agenthost_hub_request_duration_seconds", []string{"method=POST", "route=/auth/login", "status=2xx"}, 1},
		{"agenthost_hub_request_duration_seconds", []string{"method=POST", "route=/auth/login", "status=4xx"}, 1},
		{"agenthost_hub_logins_total", []string{"method=password", "outcome=success"}, 1},
		{"agenthost_hub_logins_total", []string{"method=password", "outcome=invalid_credentials"}, 1},
		{"agenthost_hub_chats_total", []string{"tenant=default", "agent=helper", "outcome=completed"}, 1},
		{"agenthost_hub_chats_total", []string{"tenant=default", "agent=broken", "outcome=failed"}, 1},
		{"agenthost_hub_runtime_errors_total", []string{"tenant=default", "agent=broken", "kind=run"}, 1},
		{"agenthost_hub_chat_first_token_duration_seconds", []string{"agent=helper"}, 1},
		{"agenthost_hub_tokens_total", []string{"agent=helper", "model=demo", "type=output"}, 1},
		{"agenthost_hub_pushed_sessions_total", []string{"agent=helper", "outcome=created"}, 1},
		{"agenthost_hub_pushed_sessions_total", []string{"tenant=other", "agent=other", "outcome=invalid"}, 1},
		{"agenthost_hub_requests_limited_total", []string{"limit=user_requests"}, 1},
		{"agenthost_hub_deployments", nil, 2},
		{"agenthost_hub_deployment_leases", []string{"holder=this"}, 2},
		{"agenthost_hub_deployment_restarts_total", []string{"tenant=default"}, 1},
		{"agenthost_hub_driver_call_duration_seconds", []string{"call=apply", "outcome=success"}, 3},
		{"agenthost_hub_db_transaction_duration_seconds", []string{"outcome=committed"}, 5},
		{"agenthost_hub_audit_entries_total", nil, 5},
	} {
		require.GreaterOrEqual(t, value(families, row.name, row.labels...), row.least, "%s %v", row.name, row.labels)
	}
	tokens := func() float64 {
		return value(scrape(t, p.Instance), "agenthost_hub_tokens_total", "agent=helper", "type=output")
	}
	before := tokens()
	helper := p.until("helper", func(s map[string]any) bool { return s["state"] == "running" })
	runtime, err := client.New(client.Config{
		BaseURL: p.URL + "/runtime/helper", APIKey: helper["apiKey"].(string), HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	})
	require.NoError(t, err)
	_, err = runtime.Complete(t.Context(), "helper", wire.RunRequest{Message: "hello"})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return tokens() > before }, daemontest.Patience, 20*time.Millisecond, "of a run at /runtime")
	found := map[string]string{}
	for name, f := range families {
		if !strings.HasPrefix(name, "agenthost_") {
			continue
		}
		labels := map[string]bool{}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = true
			}
		}
		var names []string
		for l := range labels {
			names = append(names, l)
		}
		slices.Sort(names)
		found[name] = strings.Join(names, " ")
	}
	require.Equal(t, documented(t, "../../hub/METRICS.md"), found)
	p.end()
}

// Requests with unknown routes, methods, users and agents add no series.
func TestMetricsAreBounded(t *testing.T) {
	t.Parallel()
	p := observed(t)
	attack := func(i int) {
		for _, row := range [][2]string{
			{http.MethodGet, "/unknown/%d"}, {"M%d", "/auth/mode"}, {"M%d", "/runtime/a%d/v1/agents"}, {http.MethodGet, "/runtime/agent%d/v1/agents"},
			{http.MethodGet, "/api/v1/agents/agent%d/detail"}, {http.MethodPost, "/api/v1/agents/agent%d/chat/sessions"},
			{http.MethodGet, "/api/v1/admin/agents/agent%d/deploy"},
		} {
			text := strings.ReplaceAll(row[0]+" "+row[1], "%d", fmt.Sprint(i))
			method, path, _ := strings.Cut(text, " ")
			call(t, method, p.URL+path, p.token, "")
		}
		call(t, http.MethodPost, p.URL+"/auth/login", "", fmt.Sprintf(`{"username":"user%d","password":"incorrect"}`, i))
		call(t, http.MethodPost, p.URL+"/api/v1/chat/push", p.token, fmt.Sprintf(
			`{"sessions":[{"id":"a%[1]d","agent_name":"agent%[1]d","created_at":"2026-01-01T00:00:00Z","updated_at":"2026-01-01T00:00:00Z","messages":[]}]}`, i))
	}
	for i := range 8 { // until the rates reject
		attack(i)
	}
	before := scrape(t, p.Instance)
	for i := range 30 {
		attack(i + 100)
	}
	require.Equal(t, series(before), series(scrape(t, p.Instance)))
	p.end()
}

// The address of the metrics serves nothing else, and no page can read them by the name of another
// host. Without the setting, there are none.
func TestMetricsAddress(t *testing.T) {
	t.Parallel()
	in := serving(t, []string{"HUB_DATA_DIR", t.TempDir(), "HUB_CONFIG", file(t, "metrics: {addr: '127.0.0.1:0', hosts: [hub-metrics]}")})
	addr := "http://" + in.Await(t, in.Log, servingMetrics)[1]
	for host, want := range map[string]int{"": http.StatusOK, "hub-metrics": http.StatusOK, "example.com": http.StatusForbidden} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, addr+"/metrics", nil)
		require.NoError(t, err)
		req.Host = host
		require.Equal(t, want, do(t, req).status, host)
	}
	require.Equal(t, http.StatusNotFound, call(t, http.MethodGet, addr+"/health", "", "").status)
	require.Equal(t, http.StatusNotFound, call(t, http.MethodGet, in.URL+"/metrics", "", "").status)
}

// A backup is visible to a hub that starts afterwards, and within a minute to one that serves, with
// both engines.
func TestBackupIsAMetric(t *testing.T) {
	t.Parallel()
	hub := binary(t)
	dbtest.Each(t, func(t *testing.T, url string) {
		env := append(database(t, url), "HUB_METRICS_ADDR", "127.0.0.1:0")
		first := spawn(t, hub, env)
		require.Zero(t, value(scrape(t, first.Instance), "agenthost_hub_backup_last_timestamp_seconds"))
		_, err := once(t, env, "backup", filepath.Join(t.TempDir(), "hub.tar"), "--postgres-bin", pgtest.Bin(t))
		require.NoError(t, err)
		first.Signal(t, syscall.SIGTERM)
		require.Zero(t, first.Exit(t))
		second := spawn(t, hub, env)
		ctx, cancel := context.WithTimeout(t.Context(), daemontest.Patience)
		defer cancel()
		for value(scrape(t, second.Instance), "agenthost_hub_backup_last_timestamp_seconds") < float64(time.Now().Add(-time.Hour).Unix()) {
			require.NoError(t, ctx.Err())
		}
	})
}
