package catalog

import (
	"context"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/runtime/agent"
)

// CustomTools returns the custom tools of an agent that are ready, sorted by name.
func (s *Service) CustomTools(ctx context.Context, tenantID, agentName string) ([]agent.CustomTool, error) {
	tools, err := toolsOfAgent(ctx, s.store.Read(), tenantID, agentName)
	if err != nil {
		return nil, err
	}
	if err := s.setToolStates(ctx, tools); err != nil {
		return nil, err
	}
	var all []agent.CustomTool
	for _, v := range tools {
		if v.Status == statusReady {
			all = append(all, agent.CustomTool{Name: v.Name, URL: s.cfg.Artifacts.URL(v.ref), Hash: v.Hash, FileName: v.FileName})
		}
	}
	// The database may sort by its language.
	slices.SortFunc(all, func(a, b agent.CustomTool) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// SkillArchives returns the skills of an agent, sorted by name, with links that are valid for an
// hour. It also returns those whose archive is missing: their deployment fails with that reason.
func (s *Service) SkillArchives(ctx context.Context, tenantID, agentName string) ([]agent.SkillArchive, error) {
	skills, err := skillsOfAgent(ctx, s.store.Read(), tenantID, agentName)
	if err != nil {
		return nil, err
	}
	var all []agent.SkillArchive
	for _, v := range skills {
		url, _, err := s.cfg.Artifacts.SignedURL(ctx, v.ref, linkTTL)
		if err != nil {
			return nil, err
		}
		all = append(all, agent.SkillArchive{Name: v.Name, URL: url, Hash: v.Hash})
	}
	slices.SortFunc(all, func(a, b agent.SkillArchive) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}
