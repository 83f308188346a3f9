package deployment_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/deployment"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// limits sets the deployment settings of the agent.
func (w *world) limits(d apitest.Object) {
	w.t.Helper()
	const path = "/api/v1/admin/agents/helper"
	agent := w.agents("default").Get(path).Want(http.StatusOK)
	agent["deployment"] = d
	w.agents("default").Put(path, agent).Want(http.StatusOK)
}

// A change of the deployment settings is drift until the next deploy, which starts a revision with
// them. A rollback has the former ones.
func TestDeploymentSettingsOfARevision(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		h := w.start()
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		first := h.reach("running")
		require.Equal(t, false, first["configDrift"])
		w.limits(apitest.Object{"memory": "512Mi", "processes": 64})
		require.Equal(t, true, h.ada.Get(path).Want(http.StatusOK)["configDrift"])
		require.Empty(t, w.driver.Request(key).Deployment)

		h.ada.Post(path, nil).Want(http.StatusAccepted)
		second := h.serves(2)
		require.Equal(t, false, second["configDrift"])
		require.NotEqual(t, first["specHash"], second["specHash"])
		require.Equal(t, agent.Deployment{Memory: "512Mi", Processes: 64}, w.driver.Request(key).Deployment)
		require.Nil(t, w.driver.Request(key).Config.Hub)
		require.Equal(t, []any{"deployment"}, h.ada.Get(path + "/revisions").Items()[0]["changes"])

		h.ada.Post(path+"/rollback", apitest.Object{"revision": 1}).Want(http.StatusAccepted)
		h.serves(3)
		require.Empty(t, w.driver.Request(key).Deployment)
	})
}

// A tool or a skill that has changed is drift, and a change of the next revision. The runtime has
// both in its file.
func TestToolsAndSkillsOfARevision(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		tool := func(method, path, text string) {
			t.Helper()
			w.upload(method, "/api/v1/admin/tools"+path, "count.ts", text)
		}
		tool(http.MethodPost, "", "one")
		w.skill(http.MethodPost, "review", "Reviews.")
		const agents = "/api/v1/admin/agents/helper"
		a := w.agents("default").Get(agents).Want(http.StatusOK)
		a["tools"], a["skills"] = []string{"count"}, []string{"review"}
		w.agents("default").Put(agents, a).Want(http.StatusOK)
		h := w.start()
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		require.Equal(t, false, h.reach("running")["configDrift"])
		request := w.driver.Request(key)
		def := request.File().Agents[0]
		require.Equal(t, "helper", def.ID)
		require.Equal(t, "other", deploy.Request{AgentID: "other"}.File().Agents[0].ID)
		require.Equal(t, request.CustomTools, def.CustomTools)
		require.Equal(t, request.Skills, def.SkillArchives)
		require.Len(t, def.CustomTools, 1)
		require.Len(t, def.SkillArchives, 1)

		tool(http.MethodPut, "/count/file", "two")
		require.Equal(t, true, h.ada.Get(path).Want(http.StatusOK)["configDrift"])
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		require.Equal(t, false, h.serves(2)["configDrift"])
		require.Equal(t, []any{"tool count"}, h.ada.Get(path + "/revisions").Items()[0]["changes"])
		a["tools"], a["skills"] = []string{}, []string{}
		w.agents("default").Put(agents, a).Want(http.StatusOK)
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		h.serves(3)
		require.Equal(t, []any{"skill review", "tool count"}, h.ada.Get(path + "/revisions").Items()[0]["changes"])
	})
}

// An agent that exceeds what the operator permits, or what the platform can enforce, is not
// deployed, and a deployment from before a change of the settings is not started again.
func TestBoundsOfDeploymentSettings(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		most := agent.Deployment{Memory: "1Gi", CPU: "1000m", Processes: 100, Replicas: 3}
		h := w.start(func(c *deployment.Config) { c.Most = most })
		for _, row := range []struct {
			wanted apitest.Object
			want   string
		}{
			{apitest.Object{"memory": "1025Mi"}, "deployment.memory is 1025Mi, and this hub permits at most 1Gi (deployer.max.memory)"},
			{apitest.Object{"cpu": "1001m"}, "deployment.cpu is 1001m, and this hub permits at most 1000m (deployer.max.cpu)"},
			{apitest.Object{"processes": 101}, "deployment.processes is 101, and this hub permits at most 100 (deployer.max.processes)"},
			{apitest.Object{"replicas": 4}, "deployment.replicas is 4, and this hub permits at most 3 (deployer.max.replicas)"},
			{apitest.Object{"replicas": 2}, "deployment.replicas is 2, and the memory deployer starts one runtime"},
		} {
			w.limits(row.wanted)
			require.Contains(t, h.ada.Post(path, nil).Error(http.StatusConflict, wire.Conflict)["message"], row.want)
		}
		require.Equal(t, "not_deployed", h.ada.Get(path).Want(http.StatusOK)["state"])

		w.limits(apitest.Object{"memory": "1024Mi", "cpu": "1000m", "processes": 100, "replicas": 1})
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		h.reach("running")
		h.ada.Post(path+"/stop", nil).Want(http.StatusAccepted)
		h.reach("stopped")
		h.Close()

		least := w.start(func(c *deployment.Config) { c.Most.Replicas = 1 })
		w.limits(apitest.Object{"replicas": 2})
		require.Contains(t, least.ada.Post(path, nil).Error(http.StatusConflict, wire.Conflict)["message"], "permits at most 1 (deployer.max.replicas)")
		require.NoError(t, least.Close())

		lower := w.start(func(c *deployment.Config) { c.Most.Memory = "512Mi" })
		lower.ada.Post(path+"/start", nil).Want(http.StatusAccepted)
		failed := lower.reach("failed")
		require.Equal(t, "deployment.memory is 1Gi, and this hub permits at most 512Mi (deployer.max.memory)", failed["error"])
		require.Equal(t, false, condition(failed, "applied")["status"])
		lower.ada.Post(path+"/rollback", apitest.Object{"revision": 1}).Error(http.StatusConflict, wire.Conflict)
		w.limits(apitest.Object{"memory": "512Mi"})
		lower.ada.Post(path, nil).Want(http.StatusAccepted)
		lower.reach("running")
	})
}
