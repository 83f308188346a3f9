package deploy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/runtime/agent"
)

// Request is a deploy request: all that a driver needs to run an agent. Its JSON form contains
// secrets in clear text.
type Request struct {
	Key         string                  `json:"key"`
	AgentID     string                  `json:"agentId"`
	Config      agent.Agent             `json:"config"`      // without custom tools and skill archives
	CustomTools []ToolSource            `json:"customTools"` // sorted by name
	Skills      []SkillSource           `json:"skills"`      // sorted by name
	Env         map[string]agent.Secret `json:"env"`         // of the runtime, in addition to that of the platform
}

// ToolSource is the file of a custom tool, which the runtime downloads.
type ToolSource struct {
	Name     string `json:"name"`
	URL      string `json:"url"`
	Hash     string `json:"hash"` // sha256:<hex> of the file
	FileName string `json:"fileName"`
}

// SkillSource is the zip archive of a skill, which the runtime downloads.
type SkillSource struct {
	Name string `json:"name"`
	URL  string `json:"url"`
	Hash string `json:"hash"` // sha256:<hex> of the archive
}

// File returns the configuration file of the runtime.
func (r Request) File() agent.File {
	def := r.Config
	def.ID = r.AgentID
	for _, t := range r.CustomTools {
		def.CustomTools = append(slices.Clip(def.CustomTools), agent.CustomTool{Name: t.Name, URL: t.URL, Hash: t.Hash, FileName: t.FileName})
	}
	for _, s := range r.Skills {
		def.SkillArchives = append(slices.Clip(def.SkillArchives), agent.SkillArchive{Name: s.Name, URL: s.URL, Hash: s.Hash})
	}
	return agent.File{Agents: []agent.Agent{def}}
}

// Spec is the configuration of an agent, from the catalog.
type Spec struct {
	Config      agent.Agent // with the keys of its provider and MCP servers
	CustomTools []ToolSource
	Skills      []SkillSource
}

// hash returns the hash of the configuration, without the links, which differ each time. The salt
// prevents that short secrets are found by trying.
func (s Spec) hash(salt string) (string, error) {
	tools, skills := slices.Clone(s.CustomTools), slices.Clone(s.Skills)
	for i := range tools {
		tools[i].URL = ""
	}
	for i := range skills {
		skills[i].URL = ""
	}
	text, err := json.Marshal(struct {
		Salt   string
		Config agent.Agent
		Tools  []ToolSource
		Skills []SkillSource
	}{salt, s.Config, tools, skills})
	if err != nil {
		return "", fmt.Errorf("hash configuration: %w", err)
	}
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// request returns the deploy request of the configuration.
func (s Spec) request(key, agentName, apiKey string) Request {
	r := Request{
		Key: key, AgentID: agentName, Config: s.Config,
		CustomTools: append([]ToolSource{}, s.CustomTools...), Skills: append([]SkillSource{}, s.Skills...),
		Env: map[string]agent.Secret{EnvAPIKey: agent.Secret(apiKey)},
	}
	slices.SortFunc(r.CustomTools, func(a, b ToolSource) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(r.Skills, func(a, b SkillSource) int { return strings.Compare(a.Name, b.Name) })
	return r
}

// EnvAPIKey is the variable of Request.Env with the API keys of the runtime, separated by commas.
const EnvAPIKey = "AGENT_HTTP_API_KEY" //nolint:gosec // a name
