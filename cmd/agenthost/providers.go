package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/hub/client"
)

var providerColumns = []column[client.Provider]{
	{"id", func(p client.Provider) string { return p.ID }},
	{"name", func(p client.Provider) string { return p.Name }},
	{"protocol", func(p client.Provider) string { return p.Protocol }},
	{"key", func(p client.Provider) string { return p.KeyState }},
	{"url", func(p client.Provider) string { return p.BaseURL }},
}

func (a *app) providersCommand() *cobra.Command {
	return group("providers", "List, add, test and delete model providers",
		"  agenthost providers add Anthropic --protocol anthropic < key.txt\n  agenthost providers probe anthropic",
		a.command(action{
			use: "list", short: "List the providers", example: "  agenthost providers list",
			run: func(ctx context.Context, c *client.Client, _ []string) error {
				return printList(a, c.Providers.List(ctx, ""), providerColumns...)
			},
		}),
		a.command(action{
			use: "get PROVIDER", short: "Show a provider", example: "  agenthost providers get anthropic -o yaml", args: []string{"PROVIDER"}, complete: providerIDs,
			run: func(ctx context.Context, c *client.Client, args []string) error {
				p, err := c.Providers.Get(ctx, args[0])
				if err != nil {
					return err
				}
				return printOne(a, p, append(providerColumns[:len(providerColumns):len(providerColumns)], column[client.Provider]{"models", func(p client.Provider) string {
					var ids []string
					for _, model := range p.Models {
						ids = append(ids, model.ID)
					}
					return strings.Join(ids, ", ")
				}})...)
			},
		}),
		a.addProviderCommand(), a.probeCommand(),
		a.command(action{
			use: "delete PROVIDER", short: "Delete a provider that no agent uses", example: "  agenthost providers delete 0198c0de-0000-7000-8000-000000000000",
			args: []string{"PROVIDER"}, complete: providerIDs,
			run: func(ctx context.Context, c *client.Client, args []string) error {
				if err := c.Providers.Delete(ctx, args[0]); err != nil {
					return err
				}
				return a.result("The provider %s is deleted.", args[0])
			},
		}),
	)
}

func (a *app) addProviderCommand() *cobra.Command {
	var req client.ProviderRequest
	var models []string
	cmd := a.command(action{
		use: "add NAME", short: "Add a provider", args: []string{"NAME"},
		long: `Adds a provider, whose key it reads from the terminal or from a line of stdin. It is never an argument, which other
users of the machine could see. --auth none needs no key.`,
		example: "  agenthost providers add Anthropic --protocol anthropic < key.txt\n" +
			"  agenthost providers add Ollama --protocol openai --url http://127.0.0.1:11434/v1 --auth none",
		run: func(ctx context.Context, c *client.Client, args []string) (err error) {
			req.Name = args[0]
			for _, id := range models {
				req.Models = append(req.Models, client.Model{ID: id})
			}
			if req.AuthStyle != "none" {
				if req.APIKey, err = a.secret("API key"); err != nil {
					return err
				}
				if req.APIKey == "" {
					return usage("stdin has no API key; --auth none needs none")
				}
			}
			p, err := c.Providers.Create(ctx, req)
			if err != nil {
				return err
			}
			return printOne(a, p, providerColumns...)
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
		use: "probe PROVIDER", short: "Test the connection to a provider", args: []string{"PROVIDER"}, complete: providerIDs,
		long:    "Tests the connection to a provider with its stored key. It fails if the test does.",
		example: "  agenthost providers probe anthropic",
		run: func(ctx context.Context, c *client.Client, args []string) error {
			result, err := c.Providers.Probe(ctx, args[0])
			if err != nil {
				return err
			}
			err = printOne(a, result,
				column[client.ProbeResult]{"ok", func(r client.ProbeResult) string { return yes(r.OK) }},
				column[client.ProbeResult]{"message", func(r client.ProbeResult) string { return r.Message }},
				column[client.ProbeResult]{"error", func(r client.ProbeResult) string { return r.ErrorCode }},
				column[client.ProbeResult]{"time", func(r client.ProbeResult) string { return strconv.FormatInt(r.LatencyMS, 10) + " ms" }},
				column[client.ProbeResult]{"models", func(r client.ProbeResult) string { return strconv.Itoa(len(r.Models)) }},
			)
			if err == nil && !result.OK {
				err = fmt.Errorf("probe %s: %s", args[0], oneLine(result.Message))
			}
			return err
		},
	})
}
