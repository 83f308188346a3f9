package deployment

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
)

// serversEvery is the number of probes until the state of the MCP servers is read again.
const serversEvery = 5

// Types of conditions.
const (
	conditionApplied     = "applied"     // the driver has the request
	conditionReady       = "ready"       // the agent can be called
	conditionProgressing = "Progressing" // false: the last revision did not become ready
	conditionRestored    = "restored"    // the deployment was changed after the backup was made

	// conditionRouted is false if the gateway could not be changed. A deployment without a route, or
	// without a gateway, does not have it.
	conditionRouted = "Routed"

	// conditionServers is false if an MCP server of the runtime that serves is not connected. A
	// deployment without such servers does not have it.
	conditionServers = "McpServersReady"
)

// noteServers sets the condition of the MCP servers of the runtime that serves, if the worker has
// read their faults. It has no effect on the state: without a server, an agent has only fewer
// tools.
func (v *view) noteServers(now time.Time, faults []string) {
	switch {
	case faults == nil:
	case len(faults) == 0:
		v.removeCondition(conditionServers)
	default:
		faults = slices.DeleteFunc(slices.Clone(faults), func(fault string) bool { return fault == "" })
		v.condition(now, conditionServers, len(faults) == 0, bounded(strings.Join(faults, "\n")))
	}
}

func (v *view) removeCondition(kind string) {
	v.Conditions = slices.DeleteFunc(v.Conditions, func(c wire.Condition) bool { return c.Type == kind })
}

// condition sets a condition.
func (v *view) condition(now time.Time, kind string, status bool, message string) {
	c := wire.Condition{Type: kind, Status: status, Message: message, ChangedAt: wire.Time{Time: now}}
	if kind == conditionRouted && !status {
		c.Code = code.GatewayFailed
	}

	i := slices.IndexFunc(v.Conditions, func(c wire.Condition) bool { return c.Type == kind })
	if i < 0 {
		v.Conditions = append(v.Conditions, c)
		return
	}

	if v.Conditions[i].Status != status || v.Conditions[i].Message != message {
		v.Conditions[i] = c
	}
}

// servers returns the fault of each MCP server of the agent of a runtime, which is "" if the server
// is connected, by the names of the servers.
func (w *worker) servers(ctx context.Context, d deployment, url string) ([]string, error) {
	c, err := w.s.open(d)
	if err != nil {
		return nil, err
	}

	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	runtime, err := w.runtime(url, c.APIKey)
	if err != nil {
		return nil, err
	}

	detail, err := runtime.Agent(ctx, d.AgentName)
	faults := []string{}
	for _, name := range slices.Sorted(maps.Keys(detail.MCPServers)) {
		fault := ""
		if server := detail.MCPServers[name]; server.Status != "connected" {
			fault = strings.TrimSuffix(name+" is "+server.Status+": "+firstLine(server.Error), ": ")
		}

		faults = append(faults, fault)
	}

	return faults, err
}

// note sets a condition of the revision that serves. Of the revision next to it, it reports only
// why that is not ready.
func (s *step) note(a *attempt, kind string, status bool, message string) {
	switch {
	case a == &s.attempt:
		s.condition(s.now, kind, status, message)
	case !status:
		s.condition(s.now, conditionProgressing, true, "The revision is not ready: "+message)
	}
}
