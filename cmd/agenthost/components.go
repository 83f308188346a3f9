package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/seed93082962/agenthost/hub/client"
	"github.com/seed93082962/agenthost/hub/wire"
)

var (
	sceneKind = noun{group: "scenes", one: "scene", example: "welcome", names: func(ctx context.Context, c *client.Client) ([]string, error) {
		return collect(c.Scenes.List(ctx, ""), func(s wire.Scene) string { return s.Name })
	}}
	serverKind = noun{group: "mcps", one: "MCP server", example: "search", names: func(ctx context.Context, c *client.Client) ([]string, error) {
		return collect(c.MCPs.List(ctx, ""), func(m wire.MCP) string { return m.Name })
	}}
	knowledgeKind = noun{group: "knowledge", one: "knowledge set", example: "manual", names: func(ctx context.Context, c *client.Client) ([]string, error) {
		return collect(c.Knowledge.List(ctx, ""), func(k wire.Knowledge) string { return k.Name })
	}}
)

func (a *app) scenesCommand() *cobra.Command {
	return componentCommand(a, sceneKind, "prompts that users are offered", func(c *client.Client) client.Catalog[wire.Scene, wire.SceneRequest] {
		return c.Scenes.Catalog
	}, func(s wire.Scene) []field {
		return []field{
			{"name", s.Name},
			{"title", s.Title},
			{"agent", s.AgentName},
			{"order", s.Order},
			{"enabled", s.Enabled},
			{"prompt", s.Prompt},
		}
	}, func(wire.Agent, string) bool { return false })
}

func (a *app) mcpsCommand() *cobra.Command {
	cmd := componentCommand(a, serverKind, "MCP servers that agents mount", func(c *client.Client) client.Catalog[wire.MCP, wire.MCPRequest] {
		return c.MCPs
	}, func(m wire.MCP) []field {
		return []field{
			{"name", m.Name},
			{"transport", m.Transport},
			{"enabled", m.Enabled},
			{"updated", m.UpdatedAt},
			{"server", strings.Join(append([]string{m.Command + m.URL}, m.Args...), " ")},
			{"description", m.Description},
		}
	}, func(agent wire.Agent, name string) bool { return slices.Contains(agent.MCPs, name) })
	cmd.AddCommand(a.importServersCommand())
	return cmd
}

func (a *app) knowledgeCommand() *cobra.Command {
	return componentCommand(a, knowledgeKind, "knowledge sets that agents mount", func(c *client.Client) client.Catalog[wire.Knowledge, wire.KnowledgeRequest] {
		return c.Knowledge
	}, func(k wire.Knowledge) []field {
		return []field{
			{"name", k.Name},
			{"title", k.Title},
			{"dataset", k.DatasetID},
			{"enabled", k.Enabled},
			{"updated", k.UpdatedAt},
			{"description", k.Description},
		}
	}, func(agent wire.Agent, name string) bool {
		return slices.ContainsFunc(agent.Knowledge, func(k wire.KnowledgeRef) bool { return k.Name == name })
	})
}

// componentCommand returns the commands of a kind of components.
func componentCommand[T, R any](a *app, k noun, what string, of func(*client.Client) client.Catalog[T, R], columns func(T) []field, uses func(wire.Agent, string) bool) *cobra.Command {
	return group(k.group, "List and change the "+what, fmt.Sprintf("  agenthost %s list\n  agenthost %s apply -f %s.yaml", k.group, k.group, k.example),
		listCommand(a, k, func(ctx context.Context, c *client.Client) iter.Seq2[T, error] { return of(c).List(ctx, "") }, columns),
		getCommand(a, k, func(ctx context.Context, c *client.Client, name string) (T, error) { return of(c).Get(ctx, name) }, columns),
		applyComponentCommand(a, k, of),
		a.deleteCommand(k, " that no agent uses", func(ctx context.Context, c *client.Client, name string) (string, error) {
			return usersOf(ctx, c, func(agent wire.Agent) bool { return uses(agent, name) })
		}, func(ctx context.Context, c *client.Client, name string) error { return of(c).Delete(ctx, name) }),
	)
}

// applyComponentCommand returns the command that makes the components of a hub those of a file.
func applyComponentCommand[T, R any](a *app, k noun, of func(*client.Client) client.Catalog[T, R]) *cobra.Command {
	var path string
	cmd := a.command(action{
		use: "apply", short: "Create or replace the " + k.one + "s of a file",
		long: fmt.Sprintf(`Creates or replaces the %ss of a file: one object or a list of them, in YAML or JSON, with the fields that
agenthost %s get prints. A version in the file must be the stored one, so that no other change is lost.`, k.one, k.group),
		example: fmt.Sprintf("  agenthost %s apply -f %s.yaml\n  agenthost %s get %s -o yaml --hub staging | agenthost %s apply -f -", k.group, k.example, k.group, k.example, k.group),
		run: func(ctx context.Context, c *client.Client, _ []string) error {
			objects, err := a.readObjects(path)
			if err != nil {
				return err
			}

			for _, object := range objects {
				name, _ := object["name"].(string)
				version, _ := object["version"].(int)
				var req R
				if err := decodeObject(object, &req); err != nil {
					return usage("%s: %s %s: %w", path, k.one, name, err)
				}

				state := "created"
				_, err := of(c).Create(ctx, req)
				if errors.Is(err, wire.NameTaken) {
					state = "changed"
					_, err = of(c).Update(ctx, name, int64(version), req)
				}

				if err != nil {
					return fmt.Errorf("apply %s: %w", name, err)
				}

				if err := a.result("The %s %s is %s.", k.one, name, state); err != nil {
					return err
				}
			}

			return nil
		},
	})
	fileFlag(cmd, &path, k.one+"s")
	return cmd
}

// fileFlag adds the flag for an input file.
func fileFlag(cmd *cobra.Command, path *string, content string) {
	cmd.Flags().StringVarP(path, "file", "f", "", "`file` with "+content+", or - for stdin (required)")
	_ = cmd.MarkFlagRequired("file")
}

// readObjects reads an object or a list of them, in YAML or JSON.
func (a *app) readObjects(path string) ([]map[string]any, error) {
	text, err := a.readFile(path)
	if err != nil {
		return nil, err
	}

	var node yaml.Node
	if err := yaml.Unmarshal(text, &node); err != nil {
		return nil, usage("read %s: %w", path, err)
	}

	var objects []map[string]any
	if len(node.Content) == 1 && node.Content[0].Kind == yaml.MappingNode {
		objects = make([]map[string]any, 1)
		err = node.Decode(&objects[0])
	} else {
		err = node.Decode(&objects)
	}

	if err != nil || len(objects) == 0 {
		return nil, usage("%s is not an object or a list of objects", path)
	}

	return objects, nil
}

// readOnly are the fields of responses that a request does not have.
var readOnly = []string{"id", "version", "createdAt", "updatedAt"}

// decodeObject sets the fields of a request to those of an object, without the fields that are only
// in responses. It rejects unknown fields, which may be misspelt.
func decodeObject(object map[string]any, req any) error {
	for _, name := range readOnly {
		delete(object, name)
	}

	data, err := json.Marshal(object)
	if err != nil {
		return err
	}

	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	return decoder.Decode(req)
}
