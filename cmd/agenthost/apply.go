package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/seed93082962/agenthost/hub/client"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/runtime/agent"
)

func (a *app) applyCommand() *cobra.Command {
	var path string
	var deploy bool
	cmd := a.command(action{
		use: "apply", short: "Create or replace the agents of a file, with what they use",
		long: `Creates or replaces the agents of a configuration file of the runtime, with the prompts, tools, skills and MCP servers that the
file names. Values of variables for MCP servers are those of this environment; a variable without one leaves the stored value.
Providers, with their keys, and knowledge must exist in the hub.`,
		example: "  agenthost agents apply\n  agenthost agents apply -f writer/agents.yaml --deploy\n  agenthost agents export helper --hub staging | agenthost agents apply -f -",
		run: func(ctx context.Context, c *client.Client, _ []string) error {
			return a.apply(ctx, c, path, deploy)
		},
	})
	bundleFlag(cmd, &path)
	cmd.Flags().BoolVar(&deploy, "deploy", false, "deploy the agents, and wait until they run")
	return cmd
}

func bundleFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVarP(path, "file", "f", defaultFile, "`file` with agents or its directory, or - for stdin")
}

// apply stores the agents of a bundle in a hub.
func (a *app) apply(ctx context.Context, c *client.Client, path string, deploy bool) error {
	b, err := a.openBundle(path, a.readFile, a.getenv, true)
	if err != nil {
		return err
	}

	for _, line := range b.ignored() {
		fmt.Fprintln(a.stderr, line)
	}

	skills, err := b.skillComponents(ctx, c)
	if err != nil {
		return err
	}

	for i := range b.file.Agents {
		one, err := b.agentOf(ctx, c, i, skills)
		if err != nil {
			return err
		}

		before, err := c.Agents.Get(ctx, one.agent.ID)
		if err != nil && !errors.Is(err, wire.NotFound) {
			return err
		}

		after, err := b.store(ctx, c, i, one)
		if err != nil {
			return err
		}

		state := "unchanged"
		if before.ContentHash != after.ContentHash {
			state = stateOf(before.ID != "")
		}

		if err := a.result("The agent %s is %s.", after.Name, state); err != nil {
			return err
		}

		if deploy {
			if err := a.deploy(ctx, c, after.Name, true, false); err != nil {
				return err
			}
		}
	}

	return nil
}

func (a *app) diffCommand() *cobra.Command {
	var path string
	cmd := a.command(action{
		use: "diff", short: "Compare the agents of a file, and what they use, with those of the hub",
		long: `Prints what agents apply would change: lines of the hub with -, lines of the file with +. A line that the file does
not have gets its default; who may use the agent, and who approves its calls, remains. Values of secrets are not compared. The exit code is 8 if there is
a difference.`,
		example: "  agenthost agents diff",
		run: func(ctx context.Context, c *client.Client, _ []string) error {
			lines, err := a.diff(ctx, c, path)
			if err != nil {
				return err
			}

			for _, line := range lines {
				if _, err := fmt.Fprintln(a.stdout, printable(line)); err != nil {
					return err
				}
			}

			if len(lines) > 0 {
				return errDifferent
			}

			return nil
		},
	})
	bundleFlag(cmd, &path)
	return cmd
}

// diff returns the lines in which a bundle and a hub differ.
func (a *app) diff(ctx context.Context, c *client.Client, path string) ([]string, error) {
	b, err := a.openBundle(path, a.readFile, a.getenv, true)
	if err != nil {
		return nil, err
	}

	skills, err := b.skillComponents(ctx, c)
	if err != nil {
		return nil, err
	}

	var lines []string
	add := func(name string, former, next []string) {
		for _, line := range difference(former, next) {
			if line = line[:1] + " " + name + "." + line[1:]; !slices.Contains(lines, line) { // of several agents
				lines = append(lines, line)
			}
		}
	}
	for i := range b.file.Agents {
		one, err := b.agentOf(ctx, c, i, skills)
		if err != nil {
			return nil, err
		}

		for _, p := range one.components {
			add(p.kind+" "+p.name, p.former, p.next)
		}

		stored, err := c.Agents.Export(ctx, one.agent.ID)
		if err != nil && !errors.Is(err, wire.NotFound) {
			return nil, err
		}

		former, err := settings(stored)
		if err != nil {
			return nil, err
		}

		next, err := settings([]byte(one.text))
		if err != nil {
			return nil, err
		}

		for _, prefix := range []string{"hub.access.", "hub.approvers: ", "hub.provider: "} { // apply changes them only if the file has them
			has := func(line string) bool { return strings.HasPrefix(line, prefix) }
			if !slices.ContainsFunc(next, has) {
				former = slices.DeleteFunc(former, has)
			}
		}

		add(one.agent.ID, former, next)
	}

	return lines, nil
}

// settings returns the settings of a file with one agent, each as path: value, sorted and without
// those that are empty. Variables are not replaced.
func settings(text []byte) ([]string, error) {
	if len(text) == 0 {
		return nil, nil // it does not exist
	}

	parsed, err := agent.ParseOne("agents.yaml", text, func(name string) (string, bool) { return "${" + name + "}", true })
	if err != nil {
		return nil, fmt.Errorf("%w: compare agents:\n%w", errRejected, err)
	}

	for i := range parsed.Agents {
		complete(&parsed.Agents[i])
	}

	whole, err := yaml.Marshal(parsed)
	if err != nil {
		return nil, fmt.Errorf("compare agents: %w", err)
	}

	var file struct {
		Agents []map[string]any `yaml:"agents"`
	}
	if err := yaml.Unmarshal(whole, &file); err != nil {
		return nil, fmt.Errorf("compare agents: %w", err)
	}

	var lines []string
	for _, agent := range file.Agents {
		lines = flatten(lines, "", agent)
	}

	slices.Sort(lines)
	return lines, nil
}

// complete sets the defaults of an agent, as the hub does. What the agent uses has only its name.
func complete(a *agent.Agent) {
	a.Name = cmp.Or(a.Name, a.ID)
	a.MaxTurns = a.TurnLimit()
	a.PermissionMode = cmp.Or(a.PermissionMode, "default")
	a.SettingSources = a.SkillSources()
	if a.Hub == nil {
		a.Hub = &agent.Hub{}
	}

	a.Hub.Title = cmp.Or(a.Hub.Title, a.Name)
	if a.Hub.Enabled == nil {
		a.Hub.Enabled = new(true)
	}

	a.Provider.APIKey = ""
	for _, custom := range a.CustomTools {
		a.Hub.Tools = append(a.Hub.Tools, custom.Name)
	}

	a.CustomTools = nil
	slices.Sort(a.Hub.Tools)
	for name, server := range a.MCPServers {
		a.MCPServers[name] = agent.MCPServer{Transport: server.Transport}
	}
}

// flatten appends a line for each value below a path.
func flatten(lines []string, path string, value any) []string {
	if object, ok := value.(map[string]any); ok && len(object) > 0 {
		for name, child := range object {
			lines = flatten(lines, strings.TrimPrefix(path+"."+name, "."), child)
		}

		return lines
	}

	text := fmt.Sprint(value)
	if text == "" || text == "[]" || text == "map[]" || value == nil {
		return lines
	}

	return append(lines, path+": "+text)
}

// difference returns the lines of two sorted lists that the other one does not have.
func difference(former, next []string) []string {
	var lines []string
	for len(former) > 0 || len(next) > 0 {
		switch {
		case len(next) == 0 || len(former) > 0 && former[0] < next[0]:
			lines, former = append(lines, "-"+former[0]), former[1:]
		case len(former) == 0 || next[0] < former[0]:
			lines, next = append(lines, "+"+next[0]), next[1:]
		default:
			former, next = former[1:], next[1:]
		}
	}

	return lines
}

func (a *app) editCommand() *cobra.Command {
	return a.command(action{
		use: "edit AGENT", short: "Change an agent in an editor",
		long:    "Opens an agent as a configuration file of the runtime in $VISUAL or $EDITOR, and replaces it with the edited file.",
		example: "  EDITOR=nano agenthost agents edit helper", args: []string{"AGENT"}, complete: agentNames,
		run: func(ctx context.Context, c *client.Client, args []string) error {
			stored, err := c.Agents.Export(ctx, args[0])
			if err != nil {
				return err
			}

			edited, err := a.edit(ctx, stored)
			if err != nil {
				return err
			}

			if bytes.Equal(stored, edited) {
				return a.result("The agent %s is unchanged.", args[0])
			}

			if _, err := c.Agents.Import(ctx, string(edited), true); err != nil {
				return fmt.Errorf("%w\nthe edited file:\n%s", err, edited)
			}

			return a.result("The agent %s is changed. agenthost deploy %s makes the change effective.", args[0], args[0])
		},
	})
}

// edit lets the user change a text.
func (a *app) edit(ctx context.Context, text []byte) ([]byte, error) {
	editor := a.getenv("VISUAL")
	if editor == "" {
		editor = a.getenv("EDITOR")
	}

	command := strings.Fields(editor)
	if len(command) == 0 {
		return nil, usage("set EDITOR to the command of an editor")
	}

	file, err := os.CreateTemp("", "agent-*.yaml")
	if err != nil {
		return nil, err
	}

	defer func() { _ = os.Remove(file.Name()) }()
	_, err = file.Write(text)
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, err
	}

	cmd := exec.CommandContext(ctx, command[0], append(command[1:], file.Name())...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.stdin, raw(a.stdout), raw(a.stderr)
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("run the editor: %w", err)
	}

	return os.ReadFile(file.Name())
}
