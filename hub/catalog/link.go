package catalog

import (
	"context"
	"strings"

	"github.com/seed93082962/agenthost/hub/artifact"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// Link sets the URLs of tools and skills that were part of a deployment. Their files may be those of
// an earlier version of the catalog.
func (s *Service) Link(ctx context.Context, tools []agent.CustomTool, skills []agent.SkillArchive) (err error) {
	for i, t := range tools {
		tools[i].URL = s.cfg.Artifacts.URL(toolFile(t))
	}
	for i, v := range skills {
		if skills[i].URL, _, err = s.cfg.Artifacts.SignedURL(ctx, skillFile(v), linkTTL); err != nil {
			return err
		}
	}
	return nil
}

// Artifacts returns the keys of the files of tools and skills.
func (s *Service) Artifacts(tools []agent.CustomTool, skills []agent.SkillArchive) (keys []string) {
	for _, t := range tools {
		keys = append(keys, toolFile(t).Key())
	}
	for _, v := range skills {
		keys = append(keys, skillFile(v).Key())
	}
	return keys
}

func toolFile(t agent.CustomTool) artifact.Ref {
	return artifact.Ref{Kind: artifact.Tools, Name: t.FileName, Hash: strings.TrimPrefix(t.Hash, hashPrefix)}
}

func skillFile(v agent.SkillArchive) artifact.Ref {
	return artifact.Ref{Kind: artifact.Skills, Name: v.Name + ".zip", Hash: strings.TrimPrefix(v.Hash, hashPrefix)}
}
