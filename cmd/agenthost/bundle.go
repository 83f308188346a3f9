package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/seed93082962/agenthost/hub/client"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/internal/builtintool"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// skillTool is the built-in tool that agents with skills need.
const skillTool = "Skill"

// defaultFile is the name of a configuration file in its directory.
const defaultFile = "agents.yaml"

// A bundle is a configuration file of the runtime with the files next to it: prompts, tools and
// skills. agents apply and dev store it in a hub, and agents diff compares it with one.
type bundle struct {
	*app
	path string // of the file, for faults
	dir  string // of relative paths and of the directory skills
	root yaml.Node

	// file has ${NAME} in place of variables, unless the value is an address. values has their
	// values, and ${NAME} for those of unset. references has ${env:NAME} in place of them, for the
	// command lines of MCP servers, which have references in values too.
	file, values, references *agent.File

	variables []string
	unset     []string
	getenv    func(string) string
}

// openBundle reads a configuration file, that of a directory, or stdin for -. A variable without a
// value and a default is a fault, unless it is one of unset.
func (a *app) openBundle(path string, read func(string) ([]byte, error), getenv func(string) string, unset bool) (*bundle, error) {
	b := &bundle{app: a, path: path, dir: filepath.Dir(path), getenv: getenv}
	if path == "-" {
		b.path, b.dir = "stdin", "."
	} else if info, err := os.Stat(path); err == nil && info.IsDir() {
		b.path, b.dir = filepath.Join(path, defaultFile), path
		path = b.path
	}

	text, err := read(path)
	if err != nil {
		return nil, err
	}

	b.values, err = agent.Parse(b.path, text, func(name string) (string, bool) {
		b.variables = append(b.variables, name)
		value := getenv(name)
		if value == "" && unset {
			b.unset = append(b.unset, name)
			return "${" + name + "}", false
		}

		return value, value != ""
	})
	if err != nil {
		return nil, fmt.Errorf("%w:\n%w", errRejected, err)
	}

	b.references, err = agent.Parse(b.path, text, func(name string) (string, bool) {
		value := getenv(name)
		if value == "" || !slices.Contains(inherited, name) {
			return agentvalue.Reference(name), value != ""
		}

		return value, true
	})
	if err != nil {
		return nil, fmt.Errorf("%w:\n%w", errRejected, err)
	}

	for i, a := range b.references.Agents {
		for name, server := range a.MCPServers {
			own := b.values.Agents[i].MCPServers[name]
			own.Command, own.Args, own.CWD = server.Command, server.Args, server.CWD
			b.values.Agents[i].MCPServers[name] = own
		}
	}

	b.file, err = agent.Parse(b.path, text, func(name string) (string, bool) {
		if value := getenv(name); strings.Contains(value, "://") {
			return value, true
		}

		return "${" + name + "}", true
	})
	if err != nil {
		return nil, fmt.Errorf("%w:\n%w", errRejected, err)
	}

	if len(b.file.Agents) == 0 {
		return nil, fmt.Errorf("%w: %s has no agents", errRejected, b.path)
	}

	slices.Sort(b.variables)
	b.variables = slices.Compact(b.variables)
	if err := yaml.Unmarshal(text, &b.root); err != nil {
		return nil, fmt.Errorf("read %s: %w", b.path, err)
	}

	return b, nil
}

// ignored returns the settings of the file that a hub does not store, each with its line.
func (b *bundle) ignored() []string {
	var lines []string
	f := b.file
	for _, setting := range []struct {
		key     string
		present bool
	}{
		{"auth", f.Auth.APIKeys != nil},
		{"cwd", f.CWD != ""},
		{"agentHome", f.AgentHome != ""},
		{"stateDir", f.StateDir != ""},
		{"storeOnRequest", f.StoreOnRequest},
		{"bus", f.Bus != ""},
		{"sandbox", f.Sandbox != agent.SandboxSettings{}},
	} {
		if setting.present {
			lines = append(lines, b.at(setting.key)+": the hub has its own: it is ignored")
		}
	}

	_, further := b.agentLimits(agent.AgentLimits{})
	for _, key := range further {
		lines = append(lines, b.at("limits."+key)+": is a limit of a whole runtime: it is ignored")
	}

	return lines
}

// agentLimits returns the limits of an agent with those of the file, and the names of those of the
// file that an agent cannot have.
func (b *bundle) agentLimits(limits agent.AgentLimits) (agent.AgentLimits, []string) {
	var others []string
	for field, value := range reflect.ValueOf(b.file.Limits).Fields() {
		own := reflect.ValueOf(&limits).Elem().FieldByName(field.Name)
		switch {
		case value.IsZero():
		case !own.IsValid():
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			others = append(others, name)
		case own.IsZero():
			own.Set(value)
		}
	}

	return limits, others
}

// local returns a path of the file as one of this process.
func (b *bundle) local(path string) string {
	if filepath.IsAbs(path) {
		return path
	}

	return filepath.Join(b.dir, path)
}

// skillComponents returns the skills of the directory.
func (b *bundle) skillComponents(ctx context.Context, c *client.Client) ([]component, error) {
	dirs, err := b.skillDirs()
	if err != nil {
		return nil, err
	}

	var components []component
	for _, dir := range dirs {
		p, err := b.skillComponent(ctx, c, dir)
		if err != nil {
			return nil, err
		}

		components = append(components, p)
	}

	return components, nil
}

// skillDirs returns the directories of skills.
func (b *bundle) skillDirs() ([]string, error) {
	dirs, err := fs.Glob(os.DirFS(b.dir), "skills/*/[sS][kK][iI][lL][lL].[mM][dD]")
	for i, file := range dirs {
		dirs[i] = filepath.Join(b.dir, filepath.Dir(filepath.FromSlash(file)))
	}

	return dirs, err
}

// bundled is an agent of a bundle as a hub stores it: a configuration file of its own, and what it
// uses.
type bundled struct {
	agent      agent.Agent
	text       string
	components []component
}

// agentOf returns an agent of the bundle. Skills are those of the bundle.
func (b *bundle) agentOf(ctx context.Context, c *client.Client, i int, skills []component) (bundled, error) {
	a := b.file.Agents[i]
	if a.SystemPromptFile != "" {
		text, err := readRegular(b.local(a.SystemPromptFile))
		if err != nil {
			return bundled{}, fmt.Errorf("%w: %s: %w", errRejected, b.at(fmt.Sprintf("agents[%d].systemPromptFile", i)), err)
		}

		a.SystemPrompt, a.SystemPromptFile = string(text), ""
	}

	a.Provider.APIKey = "" // that of the hub
	a.CommandEnv = b.values.Agents[i].CommandEnv
	var extra agent.Hub
	if a.Hub != nil {
		extra = *a.Hub
	}

	if extra.Tools == nil {
		extra.Tools = builtinTools(&a)
	}

	var components []component
	var local []agent.CustomTool
	for j, custom := range a.CustomTools {
		if custom.Path == "" { // the hub has it
			local = append(local, custom)
			continue
		}

		tool, err := b.toolComponent(ctx, c, b.local(custom.Path))
		if err != nil {
			return bundled{}, fmt.Errorf("%s: %w", b.at(fmt.Sprintf("agents[%d].customTools[%d]", i, j)), err)
		}

		components = append(components, tool)
		extra.Tools = append(extra.Tools, tool.name)
	}

	a.CustomTools = local
	if extra.Skills == nil && len(skills) > 0 {
		components = append(components, skills...)
		for _, s := range skills {
			extra.Skills = append(extra.Skills, s.name)
		}

		if !slices.Contains(extra.Tools, skillTool) {
			extra.Tools = append(extra.Tools, skillTool)
		}
	}

	servers := map[string]agent.MCPServer{}
	for _, name := range slices.Sorted(maps.Keys(a.MCPServers)) {
		server, err := b.serverComponent(ctx, c, i, name)
		if err != nil {
			return bundled{}, err
		}

		components = append(components, server)
		servers[name] = agent.MCPServer{Transport: a.MCPServers[name].Transport, Command: a.MCPServers[name].Command, URL: a.MCPServers[name].URL}
	}

	if len(servers) > 0 {
		a.MCPServers = servers // only the names are read
	}

	a.Hub = &extra
	a.Limits, _ = b.agentLimits(a.Limits)
	text, err := yaml.Marshal(agent.File{Agents: []agent.Agent{a}})
	return bundled{a, string(text), components}, err
}

// store creates or replaces an agent of the bundle, after what it uses.
func (b *bundle) store(ctx context.Context, c *client.Client, i int, one bundled) (wire.Agent, error) {
	for _, p := range one.components {
		if slices.Equal(p.former, p.next) && !p.secrets {
			continue
		}

		if err := p.store(ctx); err != nil {
			return wire.Agent{}, b.located(err, fmt.Sprintf("agents[%d].%s", i, p.key))
		}

		if !slices.Equal(p.former, p.next) {
			if err := b.result("The %s %s is %s.", p.kind, p.name, stateOf(p.former != nil)); err != nil {
				return wire.Agent{}, err
			}
		}
	}

	stored, err := c.Agents.Import(ctx, one.text, true)
	return stored, b.located(err, fmt.Sprintf("agents[%d]", i))
}

// stateOf returns what has happened to an object that existed before or not.
func stateOf(existed bool) string {
	if existed {
		return "changed"
	}

	return "created"
}

// located returns an error of the hub with the lines of the file. at is the key of what was sent.
func (b *bundle) located(err error, at string) error {
	fault, ok := errors.AsType[*wire.Error](err)
	if !ok || len(fault.Data.Fields) == 0 {
		return err
	}

	var lines []string
	for _, field := range slices.Sorted(maps.Keys(fault.Data.Fields)) {
		reason := fault.Data.Fields[field]
		key := at + "." + strings.TrimPrefix(field, "agents[0].")
		lines = append(lines, b.at(key)+": "+reason)
	}

	return fmt.Errorf("%w:\n%s", errRejected, strings.Join(lines, "\n"))
}

// at returns the place of a key, such as agents.yaml:3: agents[0].model, or that of what contains
// it.
func (b *bundle) at(key string) string {
	line := 1
	node := &b.root
	if node.Kind == yaml.DocumentNode {
		node = node.Content[0]
	}

	for _, name := range strings.FieldsFunc(key, func(c rune) bool { return strings.ContainsRune(".[]", c) }) {
		var next *yaml.Node
		if node.Kind == yaml.AliasNode {
			node = node.Alias
		}

		var index int
		if _, err := fmt.Sscan(name, &index); err == nil && node.Kind == yaml.SequenceNode && index < len(node.Content) {
			next = node.Content[index]
			line = next.Line
		}

		for i := 0; node.Kind == yaml.MappingNode && i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == name {
				next = node.Content[i+1]
				line = node.Content[i].Line
			}
		}

		if next == nil {
			break
		}

		node = next
	}

	return fmt.Sprintf("%s:%d: %s", b.path, line, key)
}

// builtinTools returns the built-in tools that the rules of an agent name, or all without rules.
func builtinTools(a *agent.Agent) []string {
	names := []string{}
	for _, tool := range builtintool.All() {
		named := slices.ContainsFunc(a.AllowedTools, func(rule string) bool {
			name, _, _ := strings.Cut(rule, "(")
			return name == tool.Name
		})
		if a.AllowedTools == nil || named {
			names = append(names, tool.Name)
		}
	}

	return names
}
