package catalog

import "github.com/seed93082962/agenthost/auditlog"

// The audit actions of this package. A detail lists every field that an entry of the action can
// contain, and never a secret.

// Values of Event.TargetType.
const (
	targetAgent     = "agent"
	targetScene     = "scene"
	targetMCP       = "mcp"
	targetKnowledge = "knowledge"
)

// target returns e with its target.
func target(e auditlog.Event, kind, id, name string) auditlog.Event {
	e.TargetType, e.TargetID, e.TargetName = kind, id, name
	return e
}
