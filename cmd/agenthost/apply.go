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

// agentFile is an agent of a configuration file of the runtime, as a file of its own.
type agentFile struct {
	name string
	text string
}

// readAgents reads a configuration file of the runtime, and splits it into one for each agent. The
// hub checks them.
func (a *app) readAgents(path string) ([]agentFile, error) {
	text, err := a.readFile(path)
	if err != nil {
		return nil, err
	}

	var file struct {
		Agents []yaml.Node          `yaml:"agents"`
		Rest   map[string]yaml.Node `yaml:",inline"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("read agents: %s: %w", path, err)
	}

	if len(file.Agents) == 0 {
		return nil, usage("%s has no agents: it is a configuration file of the runtime, as agenthost agents export prints", path)
	}

	var split []agentFile
	for i := range file.Agents {
		var id struct {
			ID string `yaml:"id"`
		}
		if err := file.Agents[i].Decode(&id); err != nil {
			return nil, fmt.Errorf("read agents: %s: %w", path, err)
		}

		one := map[string]any{"agents": []*yaml.Node{&file.Agents[i]}}
		for name := range file.Rest {
			one[name] = new(file.Rest[name])
		}

		data, err := yaml.Marshal(one)
		if err != nil {
			return nil, fmt.Errorf("read agents: %s: %w", path, err)
		}

		split = append(split, agentFile{id.ID, string(data)})
	}

	return split, nil
}

func (a *app) applyCommand() *cobra.Command {
	var path string
	var deploy bool
	cmd := a.command(action{
		use: "apply", short: "Create or replace the agents of a file",
		long: `Creates or replaces the agents of a configuration file of the runtime. Their providers, tools, skills, MCP servers and
knowledge must exist in the hub.`,
		example: "  agenthost agents apply -f agents.yaml\n  agenthost agents export helper --hub staging | agenthost agents apply -f - --deploy",
		run: func(ctx context.Context, c *client.Client, _ []string) error {
			files, err := a.readAgents(path)
			if err != nil {
				return err
			}

			for _, file := range files {
				before, err := c.Agents.Get(ctx, file.name)
				if err != nil && !errors.Is(err, wire.NotFound) {
					return err
				}

				agent, err := c.Agents.Import(ctx, file.text, true)
				if err != nil {
					return fmt.Errorf("apply %s: %w", file.name, err)
				}

				state := "is created"
				switch {
				case before.ContentHash == agent.ContentHash:
					state = "is unchanged"
				case before.ID != "":
					state = "is changed"
				}

				if err := a.result("The agent %s %s.", agent.Name, state); err != nil {
					return err
				}

				if deploy {
					if err := a.deploy(ctx, c, agent.Name, true, false); err != nil {
						return err
					}
				}
			}

			return nil
		},
	})
	fileFlag(cmd, &path, "agents")
	cmd.Flags().BoolVar(&deploy, "deploy", false, "deploy the agents, and wait until they run")
	return cmd
}

func (a *app) diffCommand() *cobra.Command {
	var path string
	cmd := a.command(action{
		use: "diff", short: "Compare the agents of a file with those of the hub",
		long: `Prints what agents apply would change: lines of the hub with -, lines of the file with +. A line that the file does
not have gets its default; who may use the agent remains. The exit code is 8 if there is a difference.`,
		example: "  agenthost agents diff -f agents.yaml",
		run: func(ctx context.Context, c *client.Client, _ []string) error {
			files, err := a.readAgents(path)
			if err != nil {
				return err
			}

			different := false
			for _, file := range files {
				stored, err := c.Agents.Export(ctx, file.name)
				if err != nil && !errors.Is(err, wire.NotFound) {
					return err
				}

				former, err := settings(stored)
				if err != nil {
					return err
				}

				next, err := settings([]byte(file.text))
				if err != nil {
					return err
				}

				if !slices.ContainsFunc(next, isAccess) { // apply changes it only if the file has it
					former = slices.DeleteFunc(former, isAccess)
				}

				for _, line := range difference(former, next) {
					different = true
					if _, err := fmt.Fprintln(a.stdout, line[:1]+" "+file.name+"."+printable(line[1:])); err != nil {
						return err
					}
				}
			}

			if different {
				return errDifferent
			}

			return nil
		},
	})
	fileFlag(cmd, &path, "agents")
	return cmd
}

// isAccess reports whether a line of settings says who may use the agent.
func isAccess(line string) bool { return strings.HasPrefix(line, "hub.access.") }

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

// complete sets the defaults of an agent, as the hub does.
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
