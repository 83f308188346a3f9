package hub_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub"
	"github.com/seed93082962/agenthost/hub/deploy"
)

const settings = "/api/v1/admin/settings"

// An admin reads what the operator has set, with the values of what the operator did not set, and
// nothing that is secret.
func TestSettings(t *testing.T) {
	t.Parallel()
	const secret = "a-secret-of-at-least-32-characters"
	url := sqlite(t)
	s := open(t, url, func(c *hub.Config) {
		c.Version, c.OpsKey, c.ChatPushKey, c.SetupToken = "1.2.3", secret, secret+"2", secret+"3"
		c.UserRequests, c.AddressRequests, c.AgentAnswers = -1, 50, 7
		c.AuditRetention, c.MaxDeployment = 90*day, deploy.Bounds{Memory: "2Gi"}
	})
	admin := s.call("POST", "/auth/setup", "", `{"username":"admin","password":"`+password+`","setup_token":"`+secret+`3"}`).want(http.StatusCreated)["access_token"].(string)
	got := s.call("GET", settings, admin, "")
	body := got.want(http.StatusOK)
	require.Equal(t, "1.2.3", body["version"])
	require.Equal(t, "sqlite", body["database"])
	require.Equal(t, "default", body["organization"])
	require.Equal(t, "builtin", body["authMode"])
	require.Equal(t, "none", body["deployer"])
	require.Equal(t, body["publicUrl"].(string)+"/runtime", body["gatewayUrl"])
	require.Equal(t, map[string]any{
		"answersPerUser": 20.0, "answersPerAgent": 7.0, "requestsPerUser": 0.0, "requestsPerAddress": 50.0, "auditDays": 90.0, "usageDays": 0.0,
		"maxMemory": "2Gi",
	}, body["limits"])
	require.NotContains(t, got.text, secret)
	require.NotContains(t, got.text, strings.TrimPrefix(url, "sqlite://"), "a path of the machine")
}
