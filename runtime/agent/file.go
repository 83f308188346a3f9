package agent

import (
	"path/filepath"
	"strings"
)

// File is a whole configuration file.
type File struct {
	Auth      Auth            `json:"auth,omitzero"`
	CWD       string          `json:"cwd,omitempty"`       // root of the file routes and of the built-in tools
	AgentHome string          `json:"agentHome,omitempty"` // directory of skills below cwd and the home directory
	StateDir  string          `json:"stateDir,omitempty"`  // directory of the sessions
	Limits    Limits          `json:"limits,omitzero"`
	Sandbox   SandboxSettings `json:"sandbox,omitzero"`
	Agents    []Agent         `json:"agents,omitzero"` // required in a file, but may be empty
}

// Auth lists the API keys of the runtime. Without keys, every caller has access.
type Auth struct {
	APIKeys []Secret `json:"apiKey,omitzero"` // in a file a list, or one string as for [SplitKeys]
}

// SplitKeys splits a comma-separated list of API keys.
func SplitKeys(s string) []Secret {
	parts := strings.Split(s, ",")
	keys := make([]Secret, len(parts))
	for i, part := range parts {
		keys[i] = Secret(strings.TrimSpace(part))
	}
	return keys
}

// RelativeTo prefixes each relative path with dir, the directory of the file: CWD, StateDir, and an
// agent's SystemPromptFile, ExtraUserSkillDirs and paths of custom tools. The commands and
// arguments of MCP servers are unchanged. If dir is absolute, all paths are absolute.
func (f *File) RelativeTo(dir string) {
	join := func(path *string) {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(dir, *path)
		}
	}
	join(&f.CWD)
	join(&f.StateDir)
	for i := range f.Agents {
		join(&f.Agents[i].SystemPromptFile)
		for j := range f.Agents[i].ExtraUserSkillDirs {
			join(&f.Agents[i].ExtraUserSkillDirs[j])
		}
		for j := range f.Agents[i].CustomTools {
			join(&f.Agents[i].CustomTools[j].Path)
		}
	}
}

// MarshalYAML encodes the same keys as JSON. Secrets are in clear text.
func (f File) MarshalYAML() (any, error) { return yamlOf(f) }

// MarshalYAML encodes the same keys as JSON. Secrets are in clear text.
func (a Agent) MarshalYAML() (any, error) { return yamlOf(a) }
