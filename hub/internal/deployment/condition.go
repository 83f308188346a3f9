package deployment

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub/wire"
)

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

// note sets a condition of the revision that serves. Of the revision next to it, it reports only
// why that is not ready.
func (w *worker) note(v *view, a *attempt, kind string, status bool, message string) {
	switch {
	case a == &v.attempt:
		w.condition(v, kind, status, message)
	case !status:
		w.condition(v, conditionProgressing, true, "The revision is not ready: "+message)
	}
}

// noteServers sets the condition of the MCP servers of the runtime that serves every fifth probe.
// It has no effect on the state: without a server, an agent has only fewer tools.
func (w *worker) noteServers(ctx context.Context, d deployment, v *view, seen *sighted) {
	if time.Since(seen.servers) < serversEvery*w.s.cfg.WatchEvery {
		return
	}

	seen.servers = time.Now()
	states, err := w.servers(ctx, d, v.RuntimeURL)
	switch {
	case err != nil:
		w.s.store.Logger.Debug("read MCP servers of deployment", "deployment", d.Key, "err", err)
	case len(states) == 0:
		v.removeCondition(conditionServers)
	default:
		faults := slices.DeleteFunc(states, func(fault string) bool { return fault == "" })
		w.condition(v, conditionServers, len(faults) == 0, bounded(strings.Join(faults, "\n")))
	}
}

func (v *view) removeCondition(kind string) {
	v.Conditions = slices.DeleteFunc(v.Conditions, func(c wire.Condition) bool { return c.Type == kind })
}

// condition sets a condition.
func (w *worker) condition(v *view, kind string, status bool, message string) {
	c := wire.Condition{Type: kind, Status: status, Message: message, ChangedAt: wire.Time{Time: w.s.store.Now()}}
	i := slices.IndexFunc(v.Conditions, func(c wire.Condition) bool { return c.Type == kind })
	if i < 0 {
		v.Conditions = append(v.Conditions, c)
		return
	}

	if v.Conditions[i].Status != status || v.Conditions[i].Message != message {
		v.Conditions[i] = c
	}
}

// setCode sets the error code of a condition.
func (v *view) setCode(kind string, code wire.Code) {
	for i := range v.Conditions {
		if v.Conditions[i].Type == kind {
			v.Conditions[i].Code = code
		}
	}
}

// servers returns the fault of each MCP server of the agent of a runtime, which is "" if the server
// is connected, by the names of the servers.
func (w *worker) servers(ctx context.Context, d deployment, url string) (faults []string, err error) {
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
	for _, name := range slices.Sorted(maps.Keys(detail.MCPServers)) {
		fault := ""
		if server := detail.MCPServers[name]; server.Status != "connected" {
			fault = strings.TrimSuffix(name+" is "+server.Status+": "+firstLine(server.Error), ": ")
		}

		faults = append(faults, fault)
	}

	return faults, err
}
