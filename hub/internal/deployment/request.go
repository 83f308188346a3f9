package deployment

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// newRequest returns the request for an agent of the catalog, whose tools and skills are sorted,
// without an environment.
func newRequest(key, agentName string, config agent.Agent) deploy.Request {
	r := deploy.Request{Key: key, AgentID: agentName}
	r.CustomTools = append([]agent.CustomTool{}, config.CustomTools...)
	r.Skills = append([]agent.SkillArchive{}, config.SkillArchives...)
	config.CustomTools, config.SkillArchives = nil, nil
	if config.Hub != nil {
		r.Deployment = config.Hub.Deployment
	}

	config.Hub = nil
	r.Config = config
	return r
}

// hashOf returns the hash of the configuration, without the links, which differ each time. The salt
// prevents that short secrets are found by trying. Deployments have the hashes of earlier versions:
// their form of tools and skills remains, null if there are none.
func hashOf(r deploy.Request, salt string) (string, error) {
	type tool struct {
		Name     string `json:"name"`
		URL      string `json:"url"` // always empty
		Hash     string `json:"hash"`
		FileName string `json:"fileName"`
	}
	content := struct {
		Salt       string
		Config     agent.Agent
		Tools      []tool
		Skills     []agent.SkillArchive
		Deployment agent.Deployment `json:",omitzero"`
	}{Salt: salt, Config: r.Config, Deployment: r.Deployment}
	for _, t := range r.CustomTools {
		content.Tools = append(content.Tools, tool{Name: t.Name, Hash: t.Hash, FileName: t.FileName})
	}

	for _, a := range r.Skills {
		content.Skills = append(content.Skills, agent.SkillArchive{Name: a.Name, Hash: a.Hash})
	}

	text, err := json.Marshal(content)
	if err != nil {
		return "", fmt.Errorf("hash configuration: %w", err)
	}

	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// alive reports whether a process of the runtime may exist.
func alive(r deploy.Runtime) bool {
	return r.Phase == deploy.Running || r.Phase == deploy.Stopping || r.Phase == deploy.Changed
}

// mayRun reports whether the runtime needs a request to end: the platform may start one again that
// has ended.
func mayRun(r deploy.Runtime) bool { return alive(r) || r.Phase == deploy.Exited }
