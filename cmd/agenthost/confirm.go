package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// confirmAgents asks whether the agents of a directory may run, unless the user has agreed to the
// same list before. Before that, they get nothing of the environment.
func (d *dev) confirmAgents(ctx context.Context) error {
	dir, err := filepath.Abs(d.agents)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}

	if err != nil {
		return err
	}

	d.agents = dir
	known, err := d.readHubs()
	if err != nil {
		return err
	}

	b, err := d.openFolder(d.getenv)
	if err != nil {
		return err
	}

	skills, err := b.skillDirs()
	if err != nil {
		return err
	}

	list := d.describe(b.values, b.variables, skills)
	agreed, err := d.agreement(list)
	if err != nil {
		return err
	}

	definitions := filepath.Join(dir, "agents.yaml") // the directory may have the data too
	if known.Directories[definitions] == agreed {
		return nil
	}

	what := fmt.Sprintf("The agents of %q would run as this user, as they have not before:\n\n%s\n", dir, list)
	if err := d.agree(ctx, what, "Run these agents, and those of changes while this program runs?"); err != nil {
		return err
	}

	return d.trust(ctx, definitions, agreed)
}

// agreement identifies a list and the variables that the file gives to commands, which can decide
// what these execute. Values of the environment are not part of it.
func (d *dev) agreement(list string) (string, error) {
	b, err := d.openFolder(func(name string) string { return "${" + name + "}" })
	if err != nil {
		return "", err
	}

	parts := []any{list}
	for i := range b.values.Agents {
		a := &b.values.Agents[i]
		parts = append(parts, plainValues(a.CommandEnv))
		for _, name := range slices.Sorted(maps.Keys(a.MCPServers)) {
			parts = append(parts, plainValues(a.MCPServers[name].Env))
		}
	}

	text, err := json.Marshal(parts)
	if err != nil {
		return "", fmt.Errorf("identify agents: %w", err)
	}

	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// describe returns what the agents of a file can execute, read and send. Texts of the file are
// quoted.
func (d *dev) describe(file *agent.File, variables, skills []string) string {
	var out strings.Builder
	line := func(name string, values ...string) {
		if len(values) > 0 {
			fmt.Fprintf(&out, "  %-12s %s\n", name, strings.Join(values, " "))
		}
	}
	for i := range file.Agents {
		a := &file.Agents[i]
		fmt.Fprintf(&out, "agent %q\n", a.ID)
		line("model", fmt.Sprintf("%q", a.Model), d.describeProvider(a))
		line("tools", builtinTools(a)...)
		line("rules", quoted(a.AllowedTools)...)
		line("mode", cmp.Or(a.PermissionMode, "default"))
		for _, custom := range a.CustomTools {
			line("tool file", fmt.Sprintf("%q", custom.Path))
		}

		for _, name := range slices.Sorted(maps.Keys(a.MCPServers)) {
			server := a.MCPServers[name]
			line("MCP server", append([]string{fmt.Sprintf("%q:", name)}, describeServer(server)...)...)
			if sandbox := describeSandbox(server.Sandbox); server.Transport == agentvalue.TransportStdio && sandbox != nil {
				line("  sandbox", sandbox...)
			}
		}

		line("sandbox", append([]string{cmp.Or(a.Sandbox.Mode, agentvalue.SandboxAuto)}, describeSandbox(a.Sandbox)...)...)
		line("variables of commands", quoted(slices.Sorted(maps.Keys(a.CommandEnv)))...)
		if a.SystemPromptFile != "" {
			line("prompt of", fmt.Sprintf("%q", a.SystemPromptFile))
		}

		line("skills of", quoted(a.ExtraUserSkillDirs)...)
	}

	if len(skills) > 0 {
		fmt.Fprintln(&out, "skills", strings.Join(quoted(skills), " "))
	}

	if len(variables) > 0 {
		fmt.Fprintln(&out, "variables of the environment that they get:", strings.Join(quoted(variables), " "))
	}

	return out.String()
}

// describeProvider returns where the model of an agent is, and with which key of the environment.
func (d *dev) describeProvider(a *agent.Agent) string {
	text := fmt.Sprintf("of %q", a.Provider.Protocol)
	kind, inherits := d.inherited(a.Provider)
	if base := cmp.Or(string(a.Provider.BaseURL), d.getenv(kind.url)); base != "" {
		text += " at " + place(base)
	}

	if inherits && d.getenv(kind.key) != "" {
		text += ", which gets " + kind.key + " of the environment"
	}

	return text
}

// describeServer returns the command or the address of an MCP server, and the names of the
// variables of the command.
func describeServer(server agent.MCPServer) []string {
	if server.Transport != agentvalue.TransportStdio {
		return []string{place(server.URL)}
	}

	words := append([]string{server.Command}, server.Args...)
	for _, name := range slices.Sorted(maps.Keys(server.Env)) {
		words = append(words, name+"=...")
	}

	if server.CWD != "" {
		words = append(words, "in "+server.CWD)
	}

	return quoted(words)
}

// describeSandbox returns the settings of a sandbox except its mode.
func describeSandbox(s agent.Sandbox) []string {
	var words []string
	if s.Network != "" {
		words = append(words, fmt.Sprintf("network=%q", s.Network))
	}

	for _, list := range []struct {
		name   string
		values []string
	}{{"read", s.Read}, {"write", s.Write}, {"domains", s.Domains}} {
		for _, value := range list.values {
			words = append(words, fmt.Sprintf("%s=%q", list.name, value))
		}
	}

	return words
}

// place returns an address without its secrets.
func place(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return "an invalid address"
	}

	return fmt.Sprintf("%q", u.Scheme+"://"+u.Host+u.Path)
}

func quoted(values []string) []string {
	all := make([]string, len(values))
	for i, value := range values {
		all[i] = fmt.Sprintf("%q", value)
	}

	return all
}
