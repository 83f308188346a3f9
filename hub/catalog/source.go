package catalog

import (
	"context"
	"slices"
	"strings"
)

// ToolSource is the file of a custom tool for a deployment.
type ToolSource struct {
	Name     string
	URL      string
	Hash     string // sha256:<hex>
	FileName string
}

// SkillSource is the archive of a skill for a deployment. The link is valid for an hour.
type SkillSource struct {
	Name string
	URL  string
	Hash string // sha256:<hex>
}

// ToolSources returns the custom tools of an agent that are ready, sorted by name.
func (s *Service) ToolSources(ctx context.Context, tenantID, agentName string) ([]ToolSource, error) {
	tools, err := toolsOfAgent(ctx, s.db.Read(), tenantID, agentName)
	if err != nil {
		return nil, err
	}
	if err := s.setToolStates(ctx, tools); err != nil {
		return nil, err
	}
	var all []ToolSource
	for _, v := range tools {
		if v.Status == statusReady {
			all = append(all, ToolSource{v.Name, s.cfg.Artifacts.URL(v.ref), v.Hash, v.FileName})
		}
	}
	// The database may sort by its language.
	slices.SortFunc(all, func(a, b ToolSource) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// SkillSources returns the skills of an agent, sorted by name, also those whose archive is missing:
// their deployment fails with that reason.
func (s *Service) SkillSources(ctx context.Context, tenantID, agentName string) ([]SkillSource, error) {
	skills, err := skillsOfAgent(ctx, s.db.Read(), tenantID, agentName)
	if err != nil {
		return nil, err
	}
	var all []SkillSource
	for _, v := range skills {
		url, _, err := s.cfg.Artifacts.SignedURL(ctx, v.ref, linkTTL)
		if err != nil {
			return nil, err
		}
		all = append(all, SkillSource{v.Name, url, v.Hash})
	}
	slices.SortFunc(all, func(a, b SkillSource) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}
