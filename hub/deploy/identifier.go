package deploy

import "strings"

// identifiers are the three identifiers of a deployed agent, by the contract.
type identifiers struct {
	AgentID   string // in the runtime
	Key       string // at the driver and the gateway
	PublicURL string
}

// identify returns the identifiers of an agent. The key has the organization in both modes, the
// public URL only in external mode.
func (s *Service) identify(tenantID, name string) identifiers {
	base := strings.TrimRight(s.cfg.GatewayURL, "/")
	if base == "" {
		base = s.cfg.PublicURL + "/runtime"
	}
	path := "/" + name
	if s.cfg.External {
		path = "/" + tenantID + path
	}
	return identifiers{AgentID: name, Key: tenantID + "-" + name, PublicURL: base + path}
}
