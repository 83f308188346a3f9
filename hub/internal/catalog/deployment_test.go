package catalog_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// The deployment settings of an agent are stored with a version, and part of its content, its
// audit entries, its exports and its deployment.
func TestDeploymentSettings(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		plain := s.ada.Post(agents, demo("coder")).Want(http.StatusCreated)
		require.NotContains(t, plain, "deployment")
		config, err := s.Deployment(t.Context(), "acme", "coder")
		require.NoError(t, err)
		require.Nil(t, config.Hub)

		want := object{"memory": "512Mi", "cpu": "500m", "processes": 256.0, "replicas": 2.0}
		changed := s.ada.Put(agents+"/coder", demo("coder", "deployment", want)).Want(http.StatusOK)
		require.NotEqual(t, plain["contentHash"], changed["contentHash"])
		require.EqualValues(t, 2, changed["version"])
		for _, read := range []object{changed, s.ada.Get(agents + "/coder").Want(http.StatusOK), s.bob.Get("/api/v1/agents/coder").Want(http.StatusOK)} {
			require.Equal(t, want, read["deployment"])
		}
		require.EqualValues(t, 2, s.ada.Put(agents+"/coder", changed).Want(http.StatusOK)["version"], "it is unchanged")
		log := strings.Join(s.Audit("acme"), "\n")
		for _, line := range []string{"deployment.memory: 512Mi", "deployment.cpu: 500m", "deployment.processes: 256", "deployment.replicas: 2"} {
			require.Contains(t, log, line)
		}
		config, err = s.Deployment(t.Context(), "acme", "coder")
		require.NoError(t, err)
		require.Equal(t, agent.Deployment{Memory: "512Mi", CPU: "500m", Processes: 256, Replicas: 2}, config.Hub.Deployment)

		file := s.ada.Get(agents + "/coder/export").Text
		_, err = agent.Parse("agents.yaml", []byte(file), func(string) (string, bool) { return "x", true })
		require.NoError(t, err, "a runtime starts with it")
		s.ada.Delete(agents + "/coder").Want(http.StatusNoContent)
		imported := s.ada.Do(http.MethodPost, agents+"/import", strings.NewReader(file), "Content-Type", "application/yaml").Want(http.StatusCreated)
		require.Equal(t, want, imported["deployment"])
		require.Equal(t, changed["contentHash"], imported["contentHash"])

		empty := object{"memory": "", "cpu": nil, "processes": 0, "replicas": nil}
		cleared := s.ada.Put(agents+"/coder", demo("coder", "deployment", empty)).Want(http.StatusOK)
		require.NotContains(t, cleared, "deployment")
		require.Equal(t, plain["contentHash"], cleared["contentHash"])
	})
}

// A deployment without the key of its provider would only fail later. It has the key that the
// organization gives to a built-in provider.
func TestDeploymentsHaveAKey(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		const path = "/api/v1/admin/providers/anthropic/key"
		s.ada.Post(agents, demo("coder", "providerId", "anthropic", "model", "m")).Want(http.StatusCreated)
		for _, prepare := range []func(){
			func() {},
			func() {
				s.ada.Put(path, object{"apiKey": "k-1"}).Want(http.StatusOK)
				s.ada.Delete(path).Want(http.StatusNoContent)
			},
		} {
			prepare()
			_, err := s.Deployment(t.Context(), "acme", "coder")
			require.ErrorIs(t, err, wire.Conflict)
			require.ErrorContains(t, err, "The provider Anthropic has no key: add it with agenthost providers set Anthropic --key")
		}
		s.ada.Put(path, object{"apiKey": "k-2"}).Want(http.StatusOK)
		config, err := s.Deployment(t.Context(), "acme", "coder")
		require.NoError(t, err)
		require.Equal(t, agent.Provider{Protocol: "anthropic", APIKey: "k-2"}, config.Provider)
		file := s.ada.Get(agents + "/coder/export").Text
		require.NotContains(t, file, "k-2")
	})
}

func TestInvalidDeploymentSettings(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		for name, values := range map[string][]any{
			"memory":    {"512", "512M", "512MB", "0.5Gi", "1e3Mi", "512 Mi", "-1Gi", "0Mi", "031Mi", "31Mi", "16385Gi", "99999999Gi", "512Mi\n"},
			"cpu":       {"1", "0.5", "500", "9m", "0m", "-500m", "1024001m", "500M"},
			"processes": {15, -1, 1<<22 + 1},
			"replicas":  {-1, 101},
		} {
			for _, value := range values {
				faults(t, s.ada.Post(agents, demo("coder", "deployment", object{name: value})), "deployment."+name)
			}
		}
		for name, value := range map[string]any{"memory": 512, "cpu": 1, "processes": "16", "replicas": 1.5} {
			r := s.ada.Post(agents, demo("coder", "deployment", object{name: value}))
			require.Contains(t, r.Error(http.StatusBadRequest, wire.InvalidRequest)["data"].(object)["fields"], "deployment."+name)
		}
		for _, valid := range []object{
			{"memory": "32Mi", "cpu": "10m", "processes": 16, "replicas": 1},
			{"memory": "16384Gi", "cpu": "1024000m", "processes": 1 << 22, "replicas": 100},
		} {
			s.ada.Post(agents, demo("coder", "deployment", valid)).Want(http.StatusCreated)
			s.ada.Delete(agents + "/coder").Want(http.StatusNoContent)
		}
	})
}
