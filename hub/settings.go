package hub

import (
	"cmp"
	"net/http"
	goruntime "runtime"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/bodies"
	"github.com/seed93082962/agenthost/hub/internal/chat/relay"
	"github.com/seed93082962/agenthost/rbac"
)

func (h *Hub) settingsRoutes() []api.Route {
	return []api.Route{{
		Method: http.MethodGet, Path: "/api/v1/admin/settings", Group: rbac.AdminOnly, Category: "user",
		Handle: api.Result(http.StatusOK, h.settings),
	}}
}

const day = 24 * time.Hour

// settings returns what the operator has set. It has no address of the private network.
func (h *Hub) settings(r *http.Request) (bodies.Settings, error) {
	cfg := h.cfg
	most := cfg.MaxDeployment
	s := bodies.Settings{
		Version: cfg.Version, GoVersion: goruntime.Version(), Database: string(h.db.Engine()),
		Organization: api.CallerOf(r).TenantID, AuthMode: "builtin", PublicURL: cfg.PublicURL,
		GatewayURL: h.deploys.GatewayURL(), GatewayManaged: cfg.Gateway != nil, Deployer: "none",
		Limits: bodies.SettingsLimits{
			AnswersPerUser: cmp.Or(cfg.UserAnswers, relay.UserAnswers), AnswersPerAgent: cmp.Or(cfg.AgentAnswers, relay.AgentAnswers),
			RequestsPerUser: rate(cfg.UserRequests, userRequests), RequestsPerAddress: rate(cfg.AddressRequests, addressRequests),
			AuditDays: int(cfg.AuditRetention / day), UsageDays: int(cfg.UsageRetention / day),
			MaxMemory: most.Memory, MaxCPU: most.CPU, MaxProcesses: most.Processes, MaxReplicas: most.Replicas,
		},
	}
	if cfg.External {
		s.AuthMode = "external"
	}

	if cfg.Deployer != nil {
		s.Deployer = cfg.Deployer.Backend()
	}

	return s, nil
}
