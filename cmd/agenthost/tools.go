package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/hub/client"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/tool/js"
)

func toolColumns(t wire.Tool) []field {
	return []field{
		{"name", t.Name},
		{"source", t.Source},
		{"status", t.Status},
		{"size", number(t.Size)},
		{"updated", t.UpdatedAt},
		{"description", cmp.Or(t.DescriptionEN, t.Description)},
	}
}

var toolKind = noun{group: "tools", one: "tool", example: "word_count", names: toolNames}

func (a *app) toolsCommand() *cobra.Command {
	return group("tools", "List, upload and test tools", "  agenthost tools test word_count.ts '{\"text\": \"a b\"}'\n  agenthost tools upload word_count.ts",
		listCommand(a, toolKind, func(ctx context.Context, c *client.Client) iter.Seq2[wire.Tool, error] {
			return c.Tools.List(ctx, "")
		}, toolColumns),
		getCommand(a, toolKind, func(ctx context.Context, c *client.Client, name string) (wire.Tool, error) {
			return c.Tools.Get(ctx, name)
		}, toolColumns),
		a.command(action{
			use: "upload FILE", short: "Upload a new tool, or replace its file", args: []string{"FILE"}, files: true,
			long:    "Uploads a TypeScript or JavaScript file. A tool of the same name gets the new file; agents that mount it use it after their next deployment.",
			example: "  agenthost tools upload word_count.ts",
			run: func(ctx context.Context, c *client.Client, args []string) error {
				uploaded, err := a.toolComponent(ctx, c, args[0])
				if err != nil {
					return err
				}

				if err := uploaded.store(ctx); err != nil {
					return err
				}

				tool, err := c.Tools.Get(ctx, uploaded.name)
				if err != nil {
					return err
				}

				return a.printOne(tool, toolColumns(tool)...)
			},
		}),
		a.testToolCommand(),
		setTextsCommand(a, toolKind, func(ctx context.Context, c *client.Client, name string, texts wire.ToolUpdate) (wire.Tool, error) {
			return c.Tools.Update(ctx, name, 0, texts)
		}, toolColumns),
		a.downloadCommand(toolKind, "Print the file of a tool", "word_count.ts", func(ctx context.Context, c *client.Client, name string) (*client.File, error) {
			return c.Tools.Download(ctx, name, 0)
		}),
		a.deleteCommand(toolKind, " that no agent mounts", func(ctx context.Context, c *client.Client, name string) (string, error) {
			return usersOf(ctx, c, func(agent wire.Agent) bool { return slices.Contains(agent.Tools, name) })
		}, func(ctx context.Context, c *client.Client, name string) error {
			return c.Tools.Delete(ctx, name)
		}),
	)
}

// setTextsCommand returns the command that changes what users read about a tool or a skill.
func setTextsCommand[T any](a *app, k noun, update func(context.Context, *client.Client, string, wire.ToolUpdate) (T, error), columns func(T) []field) *cobra.Command {
	var title, description, english string
	var cmd *cobra.Command
	cmd = a.command(action{
		use: "set " + k.argument(), short: "Change the title and the description of " + article(k.one), args: []string{k.argument()}, complete: k.names,
		example: fmt.Sprintf("  agenthost %s set %s --title \"A new title\"", k.group, k.example),
		run: func(ctx context.Context, c *client.Client, args []string) error {
			var texts wire.ToolUpdate
			for _, text := range []struct {
				flag  string
				value *string
				field **string
			}{{"title", &title, &texts.Title}, {"description", &description, &texts.Description}, {"description-en", &english, &texts.DescriptionEN}} {
				if cmd.Flags().Changed(text.flag) {
					*text.field = text.value
				}
			}

			object, err := update(ctx, c, args[0], texts)
			if err != nil {
				return err
			}

			return a.printOne(object, columns(object)...)
		},
	})
	cmd.Flags().StringVar(&title, "title", "", "`title`; empty means the name")
	cmd.Flags().StringVar(&description, "description", "", "what it is for")
	cmd.Flags().StringVar(&english, "description-en", "", "what it is for, in English")
	cmd.MarkFlagsOneRequired("title", "description", "description-en")
	return cmd
}

// openUpload opens a file whose upload prints its progress. The returned function closes it.
func (a *app) openUpload(path string) (client.Upload, func(), error) {
	content, err := openRegular(path)
	if err != nil {
		return client.Upload{}, nil, err
	}

	info, err := content.Stat()
	if err != nil {
		return client.Upload{}, nil, errors.Join(err, content.Close())
	}

	reader := &seekingProgress{progress: progress{Reader: content, app: a, name: path, size: info.Size()}, seeker: content}
	return client.Upload{FileName: filepath.Base(path), Content: reader}, func() { _ = content.Close() }, nil
}

func (a *app) testToolCommand() *cobra.Command {
	return &cobra.Command{
		Use: "test FILE [INPUT]", Short: "Call a tool on this machine, without a hub",
		Long: `Loads a tool from its file and calls it with an input, a JSON object, in the same kind of process as an agent does. An
input of - is stdin. Without an input, it prints the description and the schema of the tool. It fails if the call does.`,
		Example: `  agenthost tools test word_count.ts '{"text": "one two three"}'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 && len(args) != 2 {
				return usage("agenthost tools test needs FILE and at most one INPUT")
			}

			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.testTool(cmd.Context(), args) },
	}
}

func (a *app) testTool(ctx context.Context, args []string) error {
	path, err := filepath.Abs(args[0])
	if err != nil {
		return err
	}

	host, err := js.New(js.Config{Logger: slog.New(slog.NewTextHandler(a.stderr, nil))})
	if err != nil {
		return err
	}

	defer func() { _ = host.Close() }()
	loaded, err := host.Load(ctx, agent.CustomTool{Path: path})
	if err != nil {
		return fmt.Errorf("%w: %w", errRejected, err)
	}

	if len(args) == 1 {
		spec := loaded.Spec()
		a.format = "json"
		return a.encode(map[string]any{"name": spec.Name, "description": spec.Description, "inputSchema": spec.InputSchema})
	}

	input := []byte(args[1])
	if args[1] == "-" {
		if input, err = a.readFile("-"); err != nil {
			return err
		}
	}

	var object map[string]any
	if err := json.Unmarshal(input, &object); err != nil {
		return usage("the input is not a JSON object: %w", err)
	}

	result, err := loaded.Call(ctx, tool.Call{ID: "test", Input: input, RunID: "test", SessionID: "test"})
	if err == nil && result.IsError {
		err = errors.New(result.Output)
	}

	if err != nil {
		return fmt.Errorf("call %s: %w", loaded.Spec().Name, err)
	}

	_, err = fmt.Fprintln(a.stdout, result.Output)
	return err
}
