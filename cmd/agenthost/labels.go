package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/hub/client"
	"github.com/seed93082962/agenthost/hub/wire"
)

func labelColumns(l wire.AIGCSettings) []field {
	return []field{
		{"enabled", l.Enabled},
		{"company", l.CompanyName},
		{"producer", l.ContentProducer},
		{"propagator", l.Propagator},
		{"text", strings.TrimSpace(l.Explicit.Mode + " " + l.Explicit.Text)},
		{"signed", l.Signing.Enabled},
		{"key", l.Signing.ActiveKID},
		{"updated", l.UpdatedAt},
	}
}

func (a *app) labelsCommand() *cobra.Command {
	return group("labels", "Configure, sign and verify the labels of generated content",
		"  agenthost labels get -o yaml > labels.yaml\n  agenthost labels apply -f labels.yaml",
		a.command(action{
			use: "get", short: "Show the settings of labels", example: "  agenthost labels get -o yaml",
			run: func(ctx context.Context, c *client.Client, _ []string) error {
				settings, err := c.Labels.Get(ctx)
				if err != nil {
					return err
				}

				return a.printOne(settings, labelColumns(settings)...)
			},
		}),
		a.applyLabelsCommand(),
		a.command(action{
			use: "rotate-key", short: "Replace the key that signs labels", example: "  agenthost labels rotate-key",
			long: "Replaces the key that signs labels. The former keys remain, to verify the labels that they have signed.",
			run: func(ctx context.Context, c *client.Client, _ []string) error {
				rotated, err := c.Labels.RotateKey(ctx)
				if err != nil {
					return err
				}

				return a.printOne(rotated,
					field{"key", rotated.KID},
					field{"former key", rotated.PreviousKID},
				)
			},
		}),
		a.verifyLabelCommand(),
		a.command(action{
			use: "delete", short: "Delete the settings of labels", example: "  agenthost labels delete",
			long: "Deletes the settings of labels: answers have none from now on. The keys remain, to verify labels.",
			goes: func(context.Context, *client.Client, []string) (string, error) {
				return "The settings of labels will be deleted: answers have none from now on.", nil
			},
			run: func(ctx context.Context, c *client.Client, _ []string) error {
				if err := c.Labels.Delete(ctx); err != nil {
					return err
				}

				return a.result("The settings of labels are deleted.")
			},
		}),
	)
}

func (a *app) applyLabelsCommand() *cobra.Command {
	var path string
	cmd := a.command(action{
		use: "apply", short: "Replace the settings of labels by those of a file",
		long:    "Replaces the settings of labels by those of a file in YAML or JSON, with the fields that agenthost labels get prints.",
		example: "  agenthost labels apply -f labels.yaml",
		run: func(ctx context.Context, c *client.Client, _ []string) error {
			objects, err := a.readObjects(path)
			if err != nil {
				return err
			}

			if len(objects) != 1 {
				return usage("%s has several objects", path)
			}

			if signing, ok := objects[0]["signing"].(map[string]any); ok {
				delete(signing, "keys") // only in responses
				delete(signing, "activeKid")
			}

			var req wire.AIGCRequest
			if err := decodeObject(objects[0], &req); err != nil {
				return usage("%s: %w", path, err)
			}

			settings, err := c.Labels.Set(ctx, req)
			if err != nil {
				return err
			}

			return a.printOne(settings, labelColumns(settings)...)
		},
	})
	fileFlag(cmd, &path, "the settings")
	return cmd
}

func (a *app) verifyLabelCommand() *cobra.Command {
	var path string
	cmd := a.command(action{
		use: "verify", short: "Verify the signature of a label",
		long:    "Verifies the signature of a label: JSON as it was received, byte by byte. The exit code is 8 if it is not valid.",
		example: "  agenthost labels verify -f label.json",
		run: func(ctx context.Context, c *client.Client, _ []string) error {
			label, err := a.readFile(path)
			if err != nil {
				return err
			}

			if !json.Valid(label) {
				return usage("%s is not JSON", path)
			}

			check, err := c.Labels.Verify(ctx, label)
			if err != nil {
				return err
			}

			err = a.printOne(check,
				field{"valid", check.Valid},
				field{"reason", check.Reason},
				field{"key", check.KID},
			)
			if err == nil && !check.Valid {
				err = fmt.Errorf("%w: the label is not valid: %s", errDifferent, check.Reason)
			}

			return err
		},
	})
	fileFlag(cmd, &path, "a label")
	return cmd
}
