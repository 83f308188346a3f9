package deploy

import "github.com/seed93082962/agenthost/auditlog"

// The audit actions of this package.
var (
	actionDeploy   = auditlog.Define[deployDetail]("agent.deploy")
	actionStop     = auditlog.Define[keyDetail]("agent.stop")
	actionStart    = auditlog.Define[keyDetail]("agent.start")
	actionUndeploy = auditlog.Define[keyDetail]("agent.undeploy")

	actionRotateKey = auditlog.Define[keyDetail]("agent.rotate_key")
)

// targetAgent is the Event.TargetType of all actions.
const targetAgent = "agent"

type (
	deployDetail struct {
		DeploymentKey string `json:"deploymentKey"`
		SpecHash      string `json:"specHash"`
		Force         bool   `json:"force"`
	}
	keyDetail struct {
		DeploymentKey string `json:"deploymentKey"`
	}
)
