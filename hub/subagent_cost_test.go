package hub_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub"
	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/deploytest"
	"github.com/seed93082962/agenthost/hub/internal/usage"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// A call of a subagent without its end counts for the model of the subagent: it costs what that
// model costs, although the model of the agent is free.
func TestSubagentsWithoutTheirEndsCost(t *testing.T) {
	t.Parallel()
	protocols := map[string]modeltest.Protocol{agent.ProtocolOpenAI: modeltest.OpenAI, agent.ProtocolAnthropic: modeltest.Anthropic}
	for _, row := range []struct{ face, end, protocol string }{
		{"chat", "timeout", agent.ProtocolOpenAI},
		{"chat", "leave", agent.ProtocolOpenAI},
		{"chat", "leave", agent.ProtocolAnthropic},
		{"runtime", "timeout", agent.ProtocolOpenAI},
		{"runtime", "leave", agent.ProtocolAnthropic},
		{"blocking", "timeout", agent.ProtocolAnthropic},
	} {
		t.Run(strings.Join([]string{row.face, row.end, row.protocol}, " "), func(t *testing.T) {
			t.Parallel()
			v := startVendor(t, protocols[row.protocol], "Task")
			driver := &deploytest.Memory{Serve: func(req deploy.Request) (http.Handler, error) {
				c := &req.Config
				c.Provider = agent.Provider{Protocol: row.protocol, BaseURL: agent.Secret(v.URL), APIKey: "k"}
				if row.end == "timeout" {
					c.Limits.RunTimeout = time.Second
				}
				return runtimeWithFile(t, req)
			}}
			t.Cleanup(driver.Close)
			s := open(t, sqlite(t), func(cfg *hub.Config) {
				cfg.Deployer = driver
				cfg.Prices = map[string]usage.Price{"small": {Input: 1000, Output: 1000}}
			})
			admin := s.setUp()
			s.call("POST", agents, admin, `{"name":"helper","providerId":"demo","model":"demo",
				"subagents":{"sub":{"description":"d","prompt":"You are the subagent","model":"small","tools":[]}}}`).want(http.StatusCreated)
			key := s.deploy(admin, "helper")
			s.call("PUT", budgets+"/agent/helper", admin, `{"period":"month","unit":"cost","hard":0.001,"reserve":0.001}`).want(http.StatusOK)
			s.abandon(t, v, row.face, row.end == "leave", row.end == "leave", admin, key)
			var byModel map[string]any
			require.Eventually(t, func() bool {
				byModel = s.call("GET", "/api/v1/admin/usage?by=model", admin, "").want(http.StatusOK)
				return byModel["totals"].(map[string]any)["runs"] == 1.0
			}, time.Minute, 10*time.Millisecond)
			spent := 0.0
			for _, one := range byModel["items"].([]any) {
				if item := one.(map[string]any); item["model"] == "small" {
					spent = item["cost"].(float64)
				}
			}
			require.GreaterOrEqual(t, spent, billedInput*0.001, "%v", byModel)
			require.Equal(t, http.StatusTooManyRequests, s.abandon(t, v, row.face, row.end == "leave", false, admin, key), "the budget is used up")
		})
	}
}
