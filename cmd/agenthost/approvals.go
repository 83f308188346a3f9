package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/hub/client"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/runvalue"
)

// approvalNoun names what waits.
var approvalNoun = noun{group: "approvals", one: "approval", names: func(ctx context.Context, c *client.Client) ([]string, error) {
	return collect(c.Approvals.List(ctx), func(w wire.Approval) string {
		return reference(w.ID).String() + "\t" + oneLine(w.AgentName+", "+w.UserName+": "+w.ToolName)
	})
}}

func (a *app) approvalsCommand() *cobra.Command {
	list := listCommand(a, approvalNoun, func(ctx context.Context, c *client.Client) iter.Seq2[wire.Approval, error] {
		return c.Approvals.List(ctx)
	}, func(w wire.Approval) []field {
		return []field{
			{"approval", reference(w.ID)},
			{"kind", w.Kind},
			{"agent", w.AgentName},
			{"user", w.UserName},
			{"tool", w.ToolName},
			{"waits for", visible(cmp.Or(w.Executed, w.Reason))},
			{"since", w.CreatedAt},
		}
	})
	list.Short = "List the calls and questions that wait for you"
	show := a.command(action{
		use: "show APPROVAL", short: "Show a call or a question that waits", args: []string{"APPROVAL"}, complete: approvalNoun.names,
		example: "  agenthost approvals show 5f3a91c2",
		run: func(ctx context.Context, c *client.Client, args []string) error {
			w, err := findApproval(ctx, c, args[0])
			if err != nil {
				return err
			}

			if a.format != "table" || a.quiet {
				return a.printOne(w, field{"id", w.ID})
			}

			_, err = fmt.Fprint(a.stdout, card(w, columns(a.stdout)))
			return err
		},
	})
	return group("approvals", "List and answer the calls and questions that wait for you", "  agenthost approvals list\n  agenthost approvals approve 5f3a91c2",
		list, show, a.approveCommand(), a.rejectCommand())
}

func (a *app) approveCommand() *cobra.Command {
	var input, content string
	cmd := a.command(action{
		use: "approve APPROVAL", short: "Approve a call, or answer a question", args: []string{"APPROVAL"}, complete: approvalNoun.names,
		long:    "Approves a call, after it has shown exactly what is executed, or answers a question with --content.",
		example: "  agenthost approvals approve 5f3a91c2\n  agenthost approvals approve 5f3a91c2 --input '{\"command\":\"git push\"}'",
		goes: func(ctx context.Context, c *client.Client, args []string) (string, error) {
			w, err := findApproval(ctx, c, args[0])
			return card(w, columns(a.stderr)), err
		},
		run: func(ctx context.Context, c *client.Client, args []string) error {
			w, err := findApproval(ctx, c, args[0])
			if err != nil {
				return err
			}

			answer := wire.ApprovalAnswer{Decision: runvalue.DecisionApprove, Input: object(input)}
			if w.Kind == runvalue.InputQuestion {
				answer = wire.ApprovalAnswer{Action: runvalue.ActionAccept, Content: object(content)}
			}

			return a.answerApproval(ctx, c, w, answer, "approved")
		},
	})
	cmd.Flags().StringVar(&input, "input", "", "`JSON` that replaces the input of the call")
	cmd.Flags().StringVar(&content, "content", "", "`JSON` with the values of a question")
	return cmd
}

func (a *app) rejectCommand() *cobra.Command {
	var reason string
	cmd := a.command(action{
		use: "reject APPROVAL", short: "Reject a call, or decline a question", args: []string{"APPROVAL"}, complete: approvalNoun.names,
		example: "  agenthost approvals reject 5f3a91c2 --reason \"Not on a Friday.\"",
		run: func(ctx context.Context, c *client.Client, args []string) error {
			w, err := findApproval(ctx, c, args[0])
			if err != nil {
				return err
			}

			answer := wire.ApprovalAnswer{Decision: runvalue.DecisionReject, Reason: reason}
			if w.Kind == runvalue.InputQuestion {
				answer = wire.ApprovalAnswer{Action: runvalue.ActionDecline}
			}

			return a.answerApproval(ctx, c, w, answer, "rejected")
		},
	})
	cmd.Flags().StringVar(&reason, "reason", "", "`text` that the model receives")
	return cmd
}

func (a *app) answerApproval(ctx context.Context, c *client.Client, w wire.Approval, answer wire.ApprovalAnswer, done string) error {
	result, err := c.Approvals.Answer(ctx, w.ID, answer)
	if err != nil {
		return err
	}

	if result.RunID == "" {
		return a.result("%s of %s is %s. The answer waits for others.", oneLine(w.ToolName), w.AgentName, done)
	}

	return a.result("%s of %s is %s, and the answer continues.", oneLine(w.ToolName), w.AgentName, done)
}

// object returns JSON of a flag, or nil.
func object(text string) json.RawMessage {
	if text == "" {
		return nil
	}

	return json.RawMessage(text)
}

// findApproval returns what waits with its id, or the end of the id that the list has.
func findApproval(ctx context.Context, c *client.Client, text string) (wire.Approval, error) {
	if uuid.MatchString(text) {
		return c.Approvals.Get(ctx, text)
	}

	found, err := find(approvalNoun, c.Approvals.List(ctx), text, func(w wire.Approval) identity { return identity{id: reference(w.ID)} })
	if err != nil {
		return found, err
	}

	return c.Approvals.Get(ctx, found.ID)
}

// card returns what a person reads before the answer. Lines of others have a margin, so that they
// are not mistaken for those of the program. One that is longer than a terminal of some columns
// continues on a line with another margin; 0 columns have no such lines.
func card(w wire.Approval, columns int) string {
	var text strings.Builder
	asks := "wants to call " + visible(w.ToolName)
	if w.Kind == runvalue.InputQuestion {
		asks = "asks, for the tool server " + visible(w.Server)
	}

	fmt.Fprintf(&text, "%s %s, in a chat of %s:\n", w.AgentName, asks, visible(w.UserName))
	for _, part := range []struct{ name, text string }{{"", w.Executed}, {"Why", w.Reason}, {"Visit", w.URL}} {
		if part.text == "" {
			continue
		}

		if part.name != "" {
			fmt.Fprintf(&text, "%s:\n", part.name)
		}

		for line := range strings.SplitSeq(strings.TrimSuffix(part.text, "\n"), "\n") {
			writeQuoted(&text, visible(line), columns)
		}
	}

	properties, err := propertiesOf(w.Schema)
	if err != nil || len(properties) == 0 {
		return text.String()
	}

	text.WriteString("Content, a JSON object:\n")
	for _, p := range properties {
		kind := cmp.Or(visible(p.Type), "any")
		if p.required {
			kind += ", required"
		}

		writeQuoted(&text, fmt.Sprintf("%s (%s)", p.describe(), kind), columns)
	}

	return text.String()
}

// writeQuoted writes a line of a card. A character that is not ASCII takes at most two columns.
func writeQuoted(text *strings.Builder, line string, columns int) {
	text.WriteString("  | ")
	used := len("  | ")
	for _, r := range line {
		width := 1
		if r >= utf8.RuneSelf {
			width = 2
		}

		if used += width; columns > 0 && used > columns {
			text.WriteString("\n  : ")
			used = len("  : ") + width
		}

		text.WriteRune(r)
	}

	text.WriteByte('\n')
}
