package hub_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
)

const helper = "/api/v1/admin/agents/deployed/deploy"

// changesDeployment matches the operations that return the deployment while it changes.
var changesDeployment = regexp.MustCompile(`^POST /api/v1/admin/agents/\{name\}/deploy(/[\w-]+)? 202$`)

// unseenDeployments are further rows of unseen.
var unseenDeployments = map[string]string{
	"GET /api/v1/admin/agents/{name}/deploy 503 deployer_unavailable":             "it takes a hub without a deployer: deployment.TestWithoutADriver",
	"POST /api/v1/admin/agents/{name}/deploy 503 deployer_unavailable":            "it takes a hub without a deployer: deployment.TestWithoutADriver",
	"DELETE /api/v1/admin/agents/{name}/deploy 503 deployer_unavailable":          "it takes a hub without a deployer: deployment.TestWithoutADriver",
	"POST /api/v1/admin/agents/{name}/deploy/stop 503 deployer_unavailable":       "it takes a hub without a deployer: deployment.TestWithoutADriver",
	"POST /api/v1/admin/agents/{name}/deploy/start 503 deployer_unavailable":      "it takes a hub without a deployer: deployment.TestWithoutADriver",
	"POST /api/v1/admin/agents/{name}/deploy/rotate-key 503 deployer_unavailable": "it takes a hub without a deployer: deployment.TestWithoutADriver",
	"POST /api/v1/admin/agents/{name}/deploy/rollback 503 deployer_unavailable":   "it takes a hub without a deployer: deployment.TestWithoutADriver",
	"GET /api/v1/admin/agents/{name}/deploy/revisions 503 deployer_unavailable":   "it takes a hub without a deployer: deployment.TestWithoutADriver",
	"GET /api/v1/admin/agents/{name}/deploy 200 conditions code":                  "it takes a hub with a gateway: deployment.TestGatewayFails",
	"POST /api/v1/admin/agents/{name}/deploy 409 deployment_key_taken":            "it takes two organizations: deployment.TestDeploymentKeysAreUnique",
}

// runtimeOf returns a runtime with the agent and a working directory with one file.
func (c *contract) runtimeOf(req deploy.Request) (http.Handler, error) {
	dir := c.t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("0123456789"), 0o600); err != nil {
		return nil, err
	}
	rt, err := runtime.New(c.t.Context(), runtime.Config{
		CWD: dir, APIKeys: strings.Split(string(req.Env[deploy.EnvAPIKey]), ","), Agents: []agent.Agent{req.Config},
	})
	if err == nil {
		c.t.Cleanup(func() { require.NoError(c.t, rt.Close()) })
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.failing.Load() {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		rt.ServeHTTP(w, r)
	}), err
}

// runtimeOfAgent reads the detail and the files of the deployed agent.
func (c *contract) runtimeOfAgent(admin string) {
	const detail, files, content = "/api/v1/agents/deployed/detail", "/api/v1/admin/agents/deployed/files", "/api/v1/admin/agents/deployed/files/content?path="
	require.Equal(c.t, "deployed", c.ok(200, "GET", detail, admin, "")["id"])
	require.Contains(c.t, c.send("GET", files, admin, "").text, "notes.txt")
	whole := c.send("GET", content+"notes.txt", admin, "")
	require.Equal(c.t, "0123456789", whole.text)
	require.Equal(c.t, "12", c.send("GET", content+"notes.txt", admin, "", "Range", "bytes=1-2").text)
	require.Equal(c.t, 304, c.send("GET", content+"notes.txt", admin, "", "If-None-Match", whole.header.Get("ETag")).status)
	require.Equal(c.t, 416, c.send("GET", content+"notes.txt", admin, "", "Range", "bytes=99-").status)
	for _, path := range []string{files + "?path=", content} {
		require.Equal(c.t, 400, c.send("GET", path+"../x", admin, "").status)
		require.Equal(c.t, 404, c.send("GET", path+"nothing", admin, "").status)
	}
	c.failing.Store(true)
	for _, path := range []string{detail, files, content + "notes.txt"} {
		c.reject(502, code.UpstreamFailed, "GET", path, admin, "")
	}
	c.failing.Store(false)
	key := c.ok(200, "GET", helper, admin, "")["apiKey"].(string)
	req, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, c.url+"/runtime/deployed/v1/agents/deployed", nil)
	require.NoError(c.t, err)
	req.Header.Set("X-Api-Key", key)
	res, err := c.client.Do(req)
	require.NoError(c.t, err)
	require.NoError(c.t, res.Body.Close())
	require.Equal(c.t, 200, res.StatusCode)
	require.Equal(c.t, 401, c.call("GET", "/runtime/deployed/v1/agents/deployed", admin, "").status, "a token of the hub is no key of a runtime")
}

// deployments deploys an agent of the demo model.
func (c *contract) deployments(admin string) {
	const deployed = `{"name":"deployed","providerId":"demo","model":"demo"`
	c.ok(201, "POST", agents, admin, deployed+`}`)
	c.newcomer(admin, "dora", "member")
	dora, _ := c.enter("dora")
	for _, row := range []struct{ method, path string }{{"POST", ""}, {"DELETE", ""}, {"POST", "/stop"}, {"POST", "/start"}, {"POST", "/rotate-key"}, {"POST", "/rollback"}, {"GET", "/logs"}} {
		c.reject(403, wire.Forbidden, row.method, helper+row.path, dora, "")
	}
	for _, row := range []struct{ method, path string }{{"GET", ""}, {"POST", ""}, {"DELETE", ""}, {"POST", "/stop"}, {"POST", "/start"}, {"POST", "/rotate-key"}, {"POST", "/rollback"}, {"GET", "/revisions"}, {"GET", "/logs"}} {
		c.reject(404, wire.NotFound, row.method, "/api/v1/admin/agents/nothing/deploy"+row.path, admin, "")
	}
	require.Equal(c.t, "not_deployed", c.ok(200, "GET", helper, dora, "")["state"])
	for _, row := range []struct{ method, path string }{{"POST", "/stop"}, {"POST", "/start"}, {"POST", "/rotate-key"}, {"POST", "/rollback"}, {"GET", "/revisions"}, {"GET", "/logs"}} {
		c.reject(409, code.AgentNotDeployed, row.method, helper+row.path, admin, "")
	}
	c.ok(204, "DELETE", helper, admin, "")
	c.reject(400, wire.InvalidRequest, "POST", helper, admin, `{"force":"yes"}`)
	c.ok(200, "PUT", agents+"/deployed", admin, deployed+`,"enabled":false}`)
	c.reject(409, wire.Conflict, "POST", helper, admin, "")
	c.ok(200, "PUT", agents+"/deployed", admin, deployed+`}`)
	for _, path := range []string{"/api/v1/agents/%s/detail", "/api/v1/admin/agents/%s/files", "/api/v1/admin/agents/%s/files/content?path=x"} {
		c.reject(404, wire.NotFound, "GET", fmt.Sprintf(path, "nothing"), admin, "")
		c.reject(409, code.AgentNotDeployed, "GET", fmt.Sprintf(path, "deployed"), admin, "")
	}
	c.reject(403, wire.Forbidden, "GET", "/api/v1/admin/agents/deployed/files/content?path=x", dora, "")
	c.ok(202, "POST", helper, admin, `{"force":null}`)
	c.deployed(admin, "running")
	c.reject(409, code.AgentDeployed, "DELETE", agents+"/deployed", admin, "")
	c.runtimeOfAgent(admin)
	c.ok(202, "POST", helper, admin, "")
	c.ok(202, "POST", helper+"/start", admin, "")
	c.ok(202, "POST", helper+"/rotate-key", admin, "")
	c.ok(200, "GET", helper+"/logs?tail=1", admin, "")
	c.reject(400, wire.InvalidRequest, "GET", helper+"/logs?tail=0", admin, "")
	c.ok(202, "POST", helper+"/stop", admin, "")
	c.deployed(admin, "stopped")
	c.ok(202, "POST", helper, admin, "")
	c.deployed(admin, "running")
	c.ok(202, "POST", helper+"/stop", admin, "")
	c.deployed(admin, "stopped")
	c.ok(202, "POST", helper+"/stop", admin, "")
	c.deployer.Fail(errors.New("no space left on device"))
	c.ok(202, "POST", helper+"/start", admin, "")
	require.Eventually(c.t, func() bool { return c.ok(200, "GET", helper, admin, "")["error"] != nil }, time.Minute, 20*time.Millisecond)
	c.deployer.Fail(nil)
	c.deployed(admin, "running")
	c.reject(409, wire.Conflict, "POST", helper+"/rollback", admin, `{"revision":99}`)
	c.reject(400, wire.InvalidRequest, "POST", helper+"/rollback", admin, `{"revision":"last"}`)
	c.ok(202, "POST", helper+"/rollback", admin, "")
	c.ok(200, "GET", helper+"/revisions", dora, "")
	c.deployer.Fail(errors.New("no space left on device"))
	c.ok(202, "POST", helper, admin, `{"force":true}`)
	require.Eventually(c.t, func() bool {
		return slices.ContainsFunc(c.ok(200, "GET", helper, admin, "")["conditions"].([]any), func(condition any) bool {
			message, _ := condition.(map[string]any)["message"].(string)
			return strings.Contains(message, "no space left on device")
		})
	}, time.Minute, 20*time.Millisecond)
	c.deployer.Fail(deploy.ErrUnavailable)
	c.reject(503, code.DeployerUnavailable, "GET", helper+"/logs", admin, "")
	c.deployer.Fail(nil)
	c.ok(204, "DELETE", helper, admin, "")
	c.deployed(admin, "not_deployed")
}

// deployed waits for a state of the deployment.
func (c *contract) deployed(admin, state string) {
	c.t.Helper()
	require.Eventually(c.t, func() bool { return c.ok(200, "GET", helper, admin, "")["state"] == state }, time.Minute, 20*time.Millisecond)
}
