package hub_test

import (
	"errors"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/deploy"
)

const helper = "/api/v1/admin/agents/deployed/deploy"

// unseenDeployments are further rows of unseen.
var unseenDeployments = map[string]string{
	"GET /api/v1/admin/agents/{name}/deploy 503 deployer_unavailable":        "it takes a hub without a deployer: deploy.TestWithoutADriver",
	"POST /api/v1/admin/agents/{name}/deploy 503 deployer_unavailable":       "it takes a hub without a deployer: deploy.TestWithoutADriver",
	"DELETE /api/v1/admin/agents/{name}/deploy 503 deployer_unavailable":     "it takes a hub without a deployer: deploy.TestWithoutADriver",
	"POST /api/v1/admin/agents/{name}/deploy/stop 503 deployer_unavailable":  "it takes a hub without a deployer: deploy.TestWithoutADriver",
	"POST /api/v1/admin/agents/{name}/deploy/start 503 deployer_unavailable": "it takes a hub without a deployer: deploy.TestWithoutADriver",
	"POST /api/v1/admin/agents/{name}/deploy 409 deployment_key_taken":       "it takes two organizations: deploy.TestDeploymentKeysAreUnique",
	"POST /api/v1/admin/agents/{name}/deploy 202 error":                      "a change clears it",
	"POST /api/v1/admin/agents/{name}/deploy/stop 202 runtimeUrl":            "a stopped runtime has none",
	"POST /api/v1/admin/agents/{name}/deploy/stop 202 error":                 "a change clears it",
	"POST /api/v1/admin/agents/{name}/deploy/start 202 error":                "a change clears it",
}

// deployments deploys an agent of the demo model.
func (c *contract) deployments(admin string) {
	const agent = `{"name":"deployed","providerId":"demo","model":"demo"`
	c.ok(201, "POST", agents, admin, agent+`}`)
	c.newcomer(admin, "dora", "member")
	dora, _ := c.enter("dora")
	for _, row := range []struct{ method, path string }{{"POST", ""}, {"DELETE", ""}, {"POST", "/stop"}, {"POST", "/start"}, {"GET", "/logs"}} {
		c.refuse(403, api.Forbidden, row.method, helper+row.path, dora, "")
	}
	for _, row := range []struct{ method, path string }{{"GET", ""}, {"POST", ""}, {"DELETE", ""}, {"POST", "/stop"}, {"POST", "/start"}, {"GET", "/logs"}} {
		c.refuse(404, api.NotFound, row.method, "/api/v1/admin/agents/nothing/deploy"+row.path, admin, "")
	}
	require.Equal(c.t, "not_deployed", c.ok(200, "GET", helper, dora, "")["state"])
	for _, row := range []struct{ method, path string }{{"POST", "/stop"}, {"POST", "/start"}, {"GET", "/logs"}} {
		c.refuse(409, api.AgentNotDeployed, row.method, helper+row.path, admin, "")
	}
	c.ok(204, "DELETE", helper, admin, "")
	c.refuse(400, api.InvalidRequest, "POST", helper, admin, `{"force":"yes"}`)
	c.ok(200, "PUT", agents+"/deployed", admin, agent+`,"enabled":false}`)
	c.refuse(409, api.Conflict, "POST", helper, admin, "")
	c.ok(200, "PUT", agents+"/deployed", admin, agent+`}`)
	c.ok(202, "POST", helper, admin, `{"force":null}`)
	c.deployed(admin, "running")
	c.refuse(409, api.AgentDeployed, "DELETE", agents+"/deployed", admin, "")
	c.ok(202, "POST", helper, admin, "")
	c.ok(202, "POST", helper+"/start", admin, "")
	c.ok(200, "GET", helper+"/logs?tail=1", admin, "")
	c.refuse(400, api.InvalidRequest, "GET", helper+"/logs?tail=0", admin, "")
	c.ok(202, "POST", helper+"/stop", admin, "")
	c.deployed(admin, "stopped")
	c.ok(202, "POST", helper, admin, "")
	c.deployed(admin, "running")
	c.ok(202, "POST", helper+"/stop", admin, "")
	c.deployed(admin, "stopped")
	c.ok(202, "POST", helper+"/stop", admin, "")
	c.ok(202, "POST", helper+"/start", admin, "")
	c.deployed(admin, "running")
	c.deployer.Fail(errors.New("no space left on device"))
	c.ok(202, "POST", helper, admin, `{"force":true}`)
	require.Eventually(c.t, func() bool { return c.ok(200, "GET", helper, admin, "")["error"] != nil }, 20*time.Second, 5*time.Millisecond)
	c.deployer.Fail(deploy.ErrUnavailable)
	c.refuse(503, api.DeployerUnavailable, "GET", helper+"/logs", admin, "")
	c.deployer.Fail(nil)
	c.ok(204, "DELETE", helper, admin, "")
	c.deployed(admin, "not_deployed")
}

// deployed waits for a state of the deployment.
func (c *contract) deployed(admin, state string) {
	c.t.Helper()
	require.Eventually(c.t, func() bool { return c.ok(200, "GET", helper, admin, "")["state"] == state }, 20*time.Second, 5*time.Millisecond)
}
