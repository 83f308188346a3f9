package main

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/hub/client"
	"github.com/seed93082962/agenthost/hub/wire"
)

func providerColumns(p wire.Provider) []field {
	return []field{
		{"name", p.Name},
		{"protocol", p.Protocol},
		{"key", p.KeyState},
		{"url", p.BaseURL},
	}
}

var providerKind = noun{group: "providers", one: "provider", example: "Anthropic", names: providerNames}

func providerDetails(p wire.Provider) []field {
	return append(providerColumns(p),
		field{"enabled", p.Enabled},
		field{"models", func() string {
			var ids []string
			for _, model := range p.Models {
				ids = append(ids, model.ID)
			}

			return strings.Join(ids, ", ")
		}()},
	)
}

func (a *app) providersCommand() *cobra.Command {
	return group("providers", "List, add, change, test and delete model providers",
		"  agenthost providers set Anthropic --key < key.txt\n  agenthost providers probe Anthropic",
		listCommand(a, providerKind, func(ctx context.Context, c *client.Client) iter.Seq2[wire.Provider, error] {
			return c.Providers.List(ctx, "")
		}, providerColumns),
		getCommand(a, providerKind, findProvider, providerDetails),
		a.addProviderCommand(), a.setProviderCommand(), a.probeCommand(),
		a.command(action{
			use: "reveal-key PROVIDER", short: "Print the key of a provider", args: []string{"PROVIDER"}, complete: providerNames,
			long:    "Prints the key of a provider. The audit log records it.",
			example: "  agenthost providers reveal-key Anthropic",
			run: func(ctx context.Context, c *client.Client, args []string) error {
				p, err := findProvider(ctx, c, args[0])
				if err != nil {
					return err
				}

				key, err := c.Providers.RevealKey(ctx, p.ID)
				if err != nil {
					return err
				}

				_, err = fmt.Fprintln(a.stdout, key)
				return err
			},
		}),
		a.deleteCommand(providerKind, " that no agent uses", func(ctx context.Context, c *client.Client, name string) (string, error) {
			p, err := findProvider(ctx, c, name)
			if err != nil {
				return "", err
			}

			return usersOf(ctx, c, func(agent wire.Agent) bool { return agent.ProviderID == p.ID })
		}, func(ctx context.Context, c *client.Client, name string) error {
			p, err := findProvider(ctx, c, name)
			if err != nil {
				return err
			}

			return c.Providers.Delete(ctx, p.ID)
		}),
	)
}

func (a *app) setProviderCommand() *cobra.Command {
	var name, url string
	var enabled, key, removeKey bool
	var models []string
	var cmd *cobra.Command
	cmd = a.command(action{
		use: "set PROVIDER", short: "Change a provider or its key", args: []string{"PROVIDER"}, complete: providerNames,
		long: "Changes the settings of a provider that have flags. With --key, it reads a new key from the terminal or from a line of stdin.\n\n" +
			"Of a built-in provider, only the key can be changed: it belongs to the organization.",
		example: "  agenthost providers set Anthropic --key < key.txt\n  agenthost providers set Ollama --model gpt-oss:20b",
		goes: func(ctx context.Context, c *client.Client, args []string) (string, error) {
			if !removeKey {
				return "", nil
			}

			p, err := findProvider(ctx, c, args[0])
			if err != nil {
				return "", err
			}

			users, err := usersOf(ctx, c, func(agent wire.Agent) bool { return agent.ProviderID == p.ID })
			return fmt.Sprintf("The key of the provider %s will be removed: nobody can read it later. %s", p.Name, users), err
		},
		run: func(ctx context.Context, c *client.Client, args []string) error {
			stored, err := findProvider(ctx, c, args[0])
			if err != nil {
				return err
			}

			changed := cmd.Flags().Changed
			others := changed("name") || changed("url") || changed("model") || changed("enabled")
			if !others {
				return a.changeKey(ctx, c, stored.ID, key)
			}

			var req wire.ProviderRequest
			if err := convert(stored, &req); err != nil {
				return err
			}

			if changed("name") {
				req.Name = name
			}

			if changed("url") {
				req.BaseURL = url
			}

			if changed("model") {
				req.Models = modelsOf(models)
			}

			if changed("enabled") {
				req.Enabled = &enabled
			}

			req.APIKey.Remove = removeKey
			if key {
				if req.APIKey.Value, err = a.apiKey(); err != nil {
					return err
				}
			}

			p, err := c.Providers.Update(ctx, stored.ID, stored.Version, req)
			if err != nil {
				return err
			}

			return a.printOne(p, providerDetails(p)...)
		},
	})
	cmd.Flags().StringVar(&name, "name", "", "`name`")
	cmd.Flags().StringVar(&url, "url", "", "base `address`")
	cmd.Flags().BoolVar(&key, "key", false, "read a new key")
	cmd.Flags().BoolVar(&removeKey, "remove-key", false, "remove the key")
	cmd.Flags().BoolVar(&enabled, "enabled", true, "offer the provider to agents")
	cmd.Flags().StringArrayVar(&models, "model", nil, "`id` of a model that is suggested; repeat it for several")
	cmd.MarkFlagsOneRequired("name", "url", "key", "remove-key", "enabled", "model")
	cmd.MarkFlagsMutuallyExclusive("key", "remove-key")
	return cmd
}

// changeKey replaces the key of a provider with one that it reads, or removes it.
func (a *app) changeKey(ctx context.Context, c *client.Client, id string, replace bool) error {
	if !replace {
		return c.Providers.RemoveKey(ctx, id)
	}

	key, err := a.apiKey()
	if err != nil {
		return err
	}

	p, err := c.Providers.SetKey(ctx, id, key)
	if err != nil {
		return err
	}

	return a.printOne(p, providerDetails(p)...)
}

// apiKey reads the key of a provider.
func (a *app) apiKey() (string, error) {
	key, err := a.secret("API key")
	if err == nil && key == "" {
		err = usage("stdin has no API key; --auth none needs none")
	}

	return key, err
}

func modelsOf(ids []string) []wire.Model {
	var models []wire.Model
	for _, id := range ids {
		models = append(models, wire.Model{ID: id})
	}

	return models
}

func (a *app) addProviderCommand() *cobra.Command {
	var req wire.ProviderRequest
	var models []string
	cmd := a.command(action{
		use: "add NAME", short: "Add a provider", args: []string{"NAME"},
		long: `Adds a provider, whose key it reads from the terminal or from a line of stdin. It is never an argument, which other
users of the machine could see. --auth none needs no key.`,
		example: "  agenthost providers add Mistral --protocol openai --url https://api.mistral.ai/v1 < key.txt\n" +
			"  agenthost providers add Ollama --protocol openai --url http://127.0.0.1:11434/v1 --auth none",
		run: func(ctx context.Context, c *client.Client, args []string) (err error) {
			req.Name = args[0]
			req.Models = modelsOf(models)
			if req.AuthStyle != "none" {
				if req.APIKey.Value, err = a.apiKey(); err != nil {
					return err
				}
			}

			p, err := c.Providers.Create(ctx, req)
			if err != nil {
				return err
			}

			return a.printOne(p, providerColumns(p)...)
		},
	})
	cmd.Flags().StringVar(&req.Protocol, "protocol", "", "wire `format`: anthropic or openai (required)")
	cmd.Flags().StringVar(&req.BaseURL, "url", "", "base `address` (default that of the vendor)")
	cmd.Flags().StringVar(&req.AuthStyle, "auth", "", "how the key is sent: api_key, bearer or none")
	cmd.Flags().StringVar(&req.APIKeyHeader, "key-header", "", "`header` of the key, such as api-key for Azure")
	cmd.Flags().StringArrayVar(&models, "model", nil, "`id` of a model that is suggested; repeat it for several")
	_ = cmd.MarkFlagRequired("protocol")
	_ = cmd.RegisterFlagCompletionFunc("protocol", cobra.FixedCompletions([]string{"anthropic", "openai"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("auth", cobra.FixedCompletions([]string{"api_key", "bearer", "none"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (a *app) probeCommand() *cobra.Command {
	return a.command(action{
		use: "probe PROVIDER", short: "Test the connection to a provider", args: []string{"PROVIDER"}, complete: providerNames,
		long:    "Tests the connection to a provider with its stored key. It fails if the test does.",
		example: "  agenthost providers probe Anthropic",
		run: func(ctx context.Context, c *client.Client, args []string) error {
			p, err := findProvider(ctx, c, args[0])
			if err != nil {
				return err
			}

			result, err := c.Providers.Probe(ctx, p.ID)
			if err != nil {
				return err
			}

			err = a.printOne(result,
				field{"ok", result.OK},
				field{"message", result.Message},
				field{"error", result.ErrorCode},
				field{"time", strconv.FormatInt(result.LatencyMS, 10) + " ms"},
				field{"models", len(result.Models)},
			)
			if err == nil && !result.OK {
				err = fmt.Errorf("probe %s: %s", args[0], oneLine(result.Message))
			}

			return err
		},
	})
}
