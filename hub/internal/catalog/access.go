package catalog

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/rbac"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// Access is the access of a form. One that names nobody is that of nobody: only an absent one has a
// default.
type Access wire.AgentAccess

// UnmarshalJSON decodes an access. An unknown field is an error, because a misspelled list would
// have no effect.
func (a *Access) UnmarshalJSON(data []byte) error {
	in := wire.AgentAccess{}
	members := map[string]json.RawMessage{}
	if err := jsonlimit.Unmarshal(data, &members); err != nil {
		return err
	}

	if err := jsonlimit.Unmarshal(data, &in); err != nil {
		return err
	}

	for name := range members {
		if name != "users" && name != "groups" && name != "everyone" {
			return &jsonlimit.Error{Field: name, Message: "is unknown: access has users, groups and everyone"}
		}
	}

	*a = Access(in)
	if string(data) != "null" {
		a.Users = append([]string{}, in.Users...)
		a.Groups = append([]string{}, in.Groups...)
	}

	return nil
}

// everyone is the access of an agent that names none.
func everyone() wire.AgentAccess {
	return wire.AgentAccess{Users: []string{}, Groups: []string{}, Everyone: true}
}

// permits reports whether the caller may use the agent. A caller without a user is the hub.
func permits(a wire.AgentAccess, c api.Caller) bool {
	if a.Everyone || c.UserID == "" || rbac.AdminWrite.Check(c) == nil {
		return true
	}

	if slices.ContainsFunc(a.Groups, func(group string) bool { return slices.Contains(c.Groups, group) }) {
		return true
	}

	return slices.ContainsFunc(a.Users, func(user string) bool {
		// A username in the form of an id is not that of the user with the id. Letters outside ASCII
		// that fold to one inside are longer: an embedding program may have a user with such a name.
		_, err := ids.Parse(user)
		return user == c.UserID || err != nil && len(user) == len(c.UserName) && strings.EqualFold(user, c.UserName)
	})
}

// shownTo returns the agent as the caller sees it. Members see neither prompts, nor the environment
// of commands, nor who has access.
func (a Agent) shownTo(c api.Caller) Agent {
	if rbac.AdminWrite.Check(c) == nil {
		return a
	}

	return a.shown()
}

// shown returns the agent as members see it.
func (a Agent) shown() Agent {
	a.ContentHash = a.shownHash
	a.SystemPrompt = ""
	a.CommandEnv = nil
	a.Access = wire.AgentAccess{}
	subagents := make(map[string]agent.Subagent, len(a.Subagents))
	for name, sub := range a.Subagents {
		sub.Prompt = ""
		subagents[name] = sub
	}

	a.Subagents = subagents
	return a
}

// hiddenAgents returns the names of the agents that do not exist for the caller.
func (s *Service) hiddenAgents(ctx context.Context, caller api.Caller) ([]string, error) {
	sn, err := s.snapshot(ctx, caller.TenantID)
	if err != nil || !sn.restricted {
		return nil, err
	}

	var names []string
	for i := range sn.agents {
		if !permits(sn.agents[i].Access, caller) {
			names = append(names, sn.agents[i].Name)
		}
	}

	return names, nil
}
