package agent

import (
	"path/filepath"
	"strings"
)

// File is a whole configuration file.
type File struct {
	Auth      Auth    `json:"auth,omitzero"`
	CWD       string  `json:"cwd,omitempty"`       // root of the files interface and of the built-in tools
	AgentHome string  `json:"agentHome,omitempty"` // folder below cwd and the home directory that holds skills
	StateDir  string  `json:"stateDir,omitempty"`  // where sessions are kept
	Limits    Limits  `json:"limits,omitzero"`
	Agents    []Agent `json:"agents,omitzero"` // required in a file, but may be empty
}

// Auth says who may call the runtime: whoever brings one of the keys. Without keys, anyone.
type Auth struct {
	APIKeys []Secret `json:"apiKey,omitzero"` // in a file a list, or one string as for [SplitKeys]
}

// SplitKeys takes apart API keys that are separated by commas.
func SplitKeys(s string) []Secret {
	parts := strings.Split(s, ",")
	keys := make([]Secret, len(parts))
	for i, part := range parts {
		keys[i] = Secret(strings.TrimSpace(part))
	}
	return keys
}

// RelativeTo joins dir, the folder the file was found in, to each path that is not absolute: CWD,
// StateDir, and of agents SystemPromptFile, ExtraUserSkillDirs and the Path of custom tools. What
// servers of agents are given is theirs: it is left as it is. An absolute dir makes all absolute.
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

// MarshalYAML writes the same keys as JSON does. Secrets are written in the clear.
func (f File) MarshalYAML() (any, error) { return yamlOf(f) }

// MarshalYAML writes the same keys as JSON does. Secrets are written in the clear.
func (a Agent) MarshalYAML() (any, error) { return yamlOf(a) }
