package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/builtintool"
	"github.com/seed93082962/agenthost/runtime/agent"
)

const (
	// scanInterval is the time between two looks at the directory of the agents. A change is deployed
	// when two looks have found the same.
	scanInterval = 150 * time.Millisecond
	// maxScanned bounds the files that are looked at.
	maxScanned = 2000
)

// followFolder deploys the agents of the directory, and again when a file changes, until ctx ends.
func (d *dev) followFolder(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(d.agents, "agents.yaml")); err != nil {
		return err
	}

	if err := d.startAgents(ctx); err != nil {
		return err
	}

	tick := time.NewTicker(scanInterval)
	defer tick.Stop()
	deployed, last := "", ""
	for {
		now, err := scan(d.agents)
		if err == nil && now == last && now != deployed {
			deployed = now
			err = d.deployFolder(ctx)
		}

		if err != nil && ctx.Err() == nil {
			fmt.Fprintln(d.stderr, "agenthost dev:", explain(err)) // until the next change
		}

		last = now
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// scan returns a text that changes if a file of a directory does. Hidden files are ignored, and
// links are followed.
func scan(dir string) (string, error) {
	found := scanned{dirs: map[string]bool{}}
	err := found.add(dir)
	return found.text.String(), err
}

type scanned struct {
	text strings.Builder
	n    int
	dirs map[string]bool // without links, so that each is read once
}

func (s *scanned) add(dir string) error {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil || s.dirs[real] {
		return ignoreMissing(err)
	}

	s.dirs[real] = true
	entries, err := os.ReadDir(real)
	if err != nil {
		return ignoreMissing(err)
	}

	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") || entry.Name() == "node_modules" {
			continue
		}

		if s.n++; s.n > maxScanned {
			return fmt.Errorf("%s has more than %d files", dir, maxScanned)
		}

		path := filepath.Join(dir, entry.Name())
		info, err := os.Stat(path)
		switch {
		case err != nil:
			err = ignoreMissing(err)
		case info.IsDir():
			err = s.add(path)
		default:
			fmt.Fprintln(&s.text, path, info.Size(), info.ModTime().UnixNano())
		}

		if err != nil {
			return err
		}
	}

	return nil
}

// ignoreMissing ignores that a file was deleted in the meantime, or that a link leads nowhere.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	return err
}

// deployFolder makes the agents of the hub those of the directory, and deploys them.
func (d *dev) deployFolder(ctx context.Context) error {
	file, _, err := d.parseFolder(d.getenv)
	if err != nil {
		return err
	}

	skills, err := d.uploadSkills(ctx)
	if err != nil {
		return err
	}

	var failed error
	for i := range file.Agents {
		if err := d.deployOne(ctx, &file.Agents[i], skills); err != nil {
			failed = errors.Join(failed, fmt.Errorf("agent %s: %w", file.Agents[i].ID, err))
		}
	}

	return failed
}

// parseFolder reads agents.yaml with the values of variables, as the runtime does, and returns the
// names of these variables.
func (d *dev) parseFolder(getenv func(string) string) (*agent.File, []string, error) {
	path := filepath.Join(d.agents, "agents.yaml")
	text, err := readRegular(path)
	if err != nil {
		return nil, nil, err
	}

	var variables []string
	file, err := agent.Parse(path, text, func(name string) (string, bool) {
		value := getenv(name)
		variables = append(variables, name)
		return value, value != ""
	})
	if err != nil {
		return nil, nil, err
	}

	file.RelativeTo(d.agents)
	slices.Sort(variables)
	return file, slices.Compact(variables), nil
}

// deployOne makes an agent of the hub as in the file, and deploys it if it has changed.
func (d *dev) deployOne(ctx context.Context, a *agent.Agent, skills []string) error {
	req, err := d.request(ctx, a)
	if err != nil {
		return err
	}

	if req.Skills = skills; len(skills) > 0 && !slices.Contains(req.Tools, "Skill") {
		req.Tools = append(req.Tools, "Skill")
	}

	stored, err := d.client.Agents.Get(ctx, a.ID)
	if errors.Is(err, wire.NotFound) {
		_, err = d.client.Agents.Create(ctx, req)
	} else if err == nil {
		_, err = d.client.Agents.Update(ctx, a.ID, stored.Version, req)
	}

	if err != nil {
		return err
	}

	state, err := d.client.Deployments.Get(ctx, a.ID)
	if err != nil || state.State == wire.StateRunning && !state.ConfigDrift && state.Revision == state.ServingRevision {
		return err
	}

	if err := d.deployAgent(ctx, a.ID); err != nil {
		return err
	}

	fmt.Fprintf(d.stdout, "The agent %s is running with the model %s. Chat with it: %s chat %s\n", a.ID, a.Model, d.name, a.ID)
	return nil
}

// request returns the request for an agent of a file, after what it uses exists in the hub.
func (d *dev) request(ctx context.Context, a *agent.Agent) (wire.AgentRequest, error) {
	var req wire.AgentRequest
	if a.SystemPromptFile != "" {
		text, err := readRegular(a.SystemPromptFile)
		if err != nil {
			return req, err
		}

		a.SystemPrompt = string(text)
	}

	if err := convert(a, &req); err != nil {
		return req, err
	}

	if req.CommandEnv != nil {
		req.CommandEnv = plainValues(a.CommandEnv) // the encoding of a secret escapes ${
	}

	req.Name, req.Title = a.ID, a.Name
	var err error
	if req.ProviderID, err = d.providerOf(ctx, a); err != nil {
		return req, err
	}

	req.Tools = builtinTools(a)
	for _, custom := range a.CustomTools {
		file, closeFile, err := d.openUpload(custom.Path)
		if err != nil {
			return req, err
		}

		tool, err := d.uploadTool(ctx, d.client, file)
		closeFile()
		if err != nil {
			return req, err
		}

		req.Tools = append(req.Tools, tool.Name)
	}

	req.MCPs = []string{}
	for name, server := range a.MCPServers {
		if err := d.uploadServer(ctx, name, server); err != nil {
			return req, fmt.Errorf("MCP server %s: %w", name, err)
		}

		req.MCPs = append(req.MCPs, name)
	}

	slices.Sort(req.MCPs)
	return req, nil
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

// uploadSkills uploads the directories of skills, and returns the names of the skills.
func (d *dev) uploadSkills(ctx context.Context) ([]string, error) {
	dirs, err := d.skillDirs()
	if err != nil {
		return nil, err
	}

	names := []string{}
	for _, dir := range dirs {
		upload, closeFile, err := d.openSkill(dir)
		if err != nil {
			return nil, err
		}

		skill, err := d.client.Skills.Create(ctx, upload)
		if errors.Is(err, wire.NameTaken) {
			skill, err = d.client.Skills.Replace(ctx, filepath.Base(dir), 0, upload)
		}

		closeFile()
		if err != nil {
			return nil, fmt.Errorf("skill %s: %w", dir, err)
		}

		names = append(names, skill.Name)
	}

	return names, nil
}

// skillDirs returns the directories of skills.
func (d *dev) skillDirs() ([]string, error) {
	dirs, err := fs.Glob(os.DirFS(d.agents), "skills/*/SKILL.md")
	for i, file := range dirs {
		dirs[i] = filepath.Join(d.agents, filepath.Dir(filepath.FromSlash(file)))
	}

	return dirs, err
}

// uploadServer makes an MCP server of the hub as in the file.
func (d *dev) uploadServer(ctx context.Context, name string, server agent.MCPServer) error {
	var req wire.MCPRequest
	if err := convert(server, &req); err != nil {
		return err
	}

	req.Name = name
	req.Env, req.Headers = plainValues(server.Env), plainValues(server.Headers) // the encoding of a secret escapes ${
	req.OAuth.ClientSecret = string(server.OAuth.ClientSecret)
	_, err := d.client.MCPs.Create(ctx, req)
	if errors.Is(err, wire.NameTaken) {
		_, err = d.client.MCPs.Update(ctx, name, 0, req)
	}

	return err
}
