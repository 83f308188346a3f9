package agent

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/internal/domain"

	"github.com/seed93082962/agenthost/internal/agentvalue"
)

// Sandbox is what the commands and stdio servers of an agent can access in addition to the
// system, the programs in PATH, and the working directory.
//
// The Sandbox of an MCP server adds to that of its agent: see [Sandbox.Add]. Its Network replaces
// that of the agent.
type Sandbox struct {
	Mode    string   `json:"mode,omitempty"`    // auto: as far as the kernel can; required: unavailable without namespaces; off. Defaults to auto.
	Read    []string `json:"read,omitzero"`     // files and directories that may be read and executed, relative to the working directory
	Write   []string `json:"write,omitzero"`    // files and directories that may be changed too, relative to the working directory
	Network string   `json:"network,omitempty"` // proxy: public addresses only; none; all. Defaults to proxy.
	Domains []string `json:"domains,omitzero"`  // the only hosts of the proxy: "example.com", "*.example.com" or "example.com:8443". Defaults to all public hosts.
}

// Add returns the sandbox of a stdio server of an agent with the sandbox s.
func (s Sandbox) Add(server Sandbox) Sandbox {
	return Sandbox{
		Mode:    s.Mode,
		Read:    slices.Concat(s.Read, server.Read),
		Write:   slices.Concat(s.Write, server.Write),
		Network: cmp.Or(server.Network, s.Network),
		Domains: slices.Concat(s.Domains, server.Domains),
	}
}

// In returns s with its defaults, and with absolute paths if dir, the working directory, is
// absolute. It shares no memory with s.
func (s Sandbox) In(dir string) Sandbox {
	s = s.Add(Sandbox{})
	for _, list := range [][]string{s.Read, s.Write} {
		for i, path := range list {
			if !filepath.IsAbs(path) {
				list[i] = filepath.Join(dir, path)
			}
		}
	}

	s.Mode = cmp.Or(s.Mode, agentvalue.SandboxAuto)
	s.Network = cmp.Or(s.Network, agentvalue.NetworkProxy)
	return s
}

// Limits of a Sandbox.
const (
	maxSandboxEntries = 100   // of each list
	maxSandboxPath    = 4_095 // bytes, as in Linux
)

// SandboxSettings are those of all agents.
type SandboxSettings struct {
	Limits SandboxLimits `json:"limits,omitzero"`
}

// SandboxLimits bound one confined command with its descendants. A zero field has its default,
// which internal/sandbox defines.
type SandboxLimits struct {
	MaxMemoryBytes       int64 `json:"maxMemoryBytes,omitzero"`       // where a cgroup can be used. Defaults to 2 GiB.
	MaxProcesses         int64 `json:"maxProcesses,omitzero"`         // Defaults to 1000.
	MaxAddressSpaceBytes int64 `json:"maxAddressSpaceBytes,omitzero"` // of one process. Defaults to 16 GiB.
	MaxOpenFiles         int64 `json:"maxOpenFiles,omitzero"`         // of one process. Defaults to 4096.
	MaxFileBytes         int64 `json:"maxFileBytes,omitzero"`         // of one file. Defaults to 8 GiB.
}

func (r *rules) sandbox(s Sandbox, key string) {
	if mode := child(key, "mode"); s.Mode != "" || r.has(mode) {
		r.oneOf(mode, s.Mode, []string{agentvalue.SandboxAuto, agentvalue.SandboxRequired, agentvalue.SandboxOff})
	}

	if network := child(key, "network"); s.Network != "" || r.has(network) {
		r.oneOf(network, s.Network, []string{agentvalue.NetworkProxy, agentvalue.NetworkNone, agentvalue.NetworkAll})
	}

	for _, list := range []struct {
		name   string
		values []string
		check  func(key, value string)
	}{
		{"read", s.Read, r.sandboxPath},
		{"write", s.Write, r.sandboxPath},
		{"domains", s.Domains, r.sandboxDomain},
	} {
		at := child(key, list.name)
		if len(list.values) > maxSandboxEntries {
			r.faults.add(at, "must have at most %d entries", maxSandboxEntries)
			continue
		}

		for i, value := range list.values {
			list.check(element(at, i), value)
		}
	}

	if len(s.Domains) > 0 && (s.Network == agentvalue.NetworkNone || s.Network == agentvalue.NetworkAll) {
		r.faults.add(child(key, "domains"), "has no effect with network: %s", s.Network)
	}
}

func (r *rules) sandboxPath(key, path string) {
	switch {
	case path == "":
		r.faults.add(key, "must not be empty")
	case len(path) > maxSandboxPath:
		r.faults.add(key, "must have at most %d bytes", maxSandboxPath)
	case strings.ContainsRune(path, 0):
		r.faults.add(key, "must not contain a null byte")
	}
}

func (r *rules) sandboxDomain(key, text string) {
	if _, err := domain.Parse(text); err != nil {
		r.faults.add(key, "%s", err)
	}
}

func (r *rules) sandboxLimits(l SandboxLimits) {
	r.positive("sandbox.limits.maxMemoryBytes", l.MaxMemoryBytes)
	r.positive("sandbox.limits.maxProcesses", l.MaxProcesses)
	r.positive("sandbox.limits.maxAddressSpaceBytes", l.MaxAddressSpaceBytes)
	r.positive("sandbox.limits.maxOpenFiles", l.MaxOpenFiles)
	r.positive("sandbox.limits.maxFileBytes", l.MaxFileBytes)
}
