package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/hub/client"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/jsonlimit"
)

func sessionColumns(s wire.ChatSession) []field {
	return []field{
		{"id", s.ID},
		{"agent", s.AgentName},
		{"user", s.UserName},
		{"messages", s.MessageCount},
		{"updated", s.UpdatedAt},
		{"title", s.Title},
	}
}

func (a *app) sessionsCommand() *cobra.Command {
	var filter client.HistoryFilter
	var user string
	list := a.command(action{
		use: "list", short: "List conversations, the latest first",
		long:    "Lists conversations, the latest first: the own ones of a member, and all of the organization for admins and maintainers.",
		example: "  agenthost sessions list --agent helper",
		run: func(ctx context.Context, c *client.Client, _ []string) error {
			return printList(a, c.History.List(ctx, filter), sessionColumns)
		},
	})
	list.Flags().StringVar(&filter.Agent, "agent", "", "only of this `agent`")
	list.Flags().StringVar(&filter.User, "user", "", "only of users whose id or name contains this `text`")
	list.Flags().StringVar(&filter.Source, "source", "", "hub or push")
	_ = list.RegisterFlagCompletionFunc("agent", a.completeFlag(agentNames))
	show := a.command(action{
		use: "show SESSION", short: "Print the messages of a conversation", example: "  agenthost sessions show 0198c0de-0000-7000-8000-000000000000",
		args: []string{"SESSION"}, complete: sessionIDs,
		run: func(ctx context.Context, c *client.Client, args []string) error {
			messages := c.History.Messages(ctx, args[0], user)
			if a.format != "table" || a.quiet {
				return printList(a, messages, func(m wire.ChatMessage) []field {
					return []field{
						{"id", m.ID},
					}
				})
			}

			for message, err := range messages {
				if err != nil {
					return err
				}

				if _, err := fmt.Fprintf(a.stdout, "%s  %s  %s\n%s\n\n", day(message.CreatedAt.Time), message.Role, message.Status, printable(message.Text)); err != nil {
					return err
				}
			}

			return nil
		},
	})
	remove := a.command(action{
		use: "delete SESSION", short: "Delete a conversation", example: "  agenthost sessions delete 0198c0de-0000-7000-8000-000000000000",
		args: []string{"SESSION"}, complete: sessionIDs,
		run: func(ctx context.Context, c *client.Client, args []string) error {
			if err := c.History.Delete(ctx, args[0], user); err != nil {
				return err
			}

			return a.result("The session %s is deleted.", args[0])
		},
	})
	transcript := a.command(action{
		use: "transcript SESSION", short: "Print what happened in a conversation", args: []string{"SESSION"}, complete: sessionIDs,
		long:    "Prints what happened in a conversation, as its runtime stored it: models, tool calls, denials and the ends of runs, as lines of JSON.",
		example: "  agenthost sessions transcript 0198c0de-0000-7000-8000-000000000000 | jq -r .type",
		run: func(ctx context.Context, c *client.Client, args []string) error {
			for entry, err := range c.History.Transcript(ctx, args[0], user) {
				if err != nil {
					return err
				}

				if err := json.NewEncoder(a.stdout).Encode(entry); err != nil {
					return err
				}
			}

			return nil
		},
	})
	cancel := a.command(action{
		use: "cancel SESSION", short: "Cancel the answer in progress of an own conversation", args: []string{"SESSION"}, complete: sessionIDs,
		example: "  agenthost sessions cancel 0198c0de-0000-7000-8000-000000000000",
		run: func(ctx context.Context, c *client.Client, args []string) error {
			session, err := c.History.Get(ctx, args[0], "")
			if err != nil {
				return err
			}

			run, err := c.Chats.Cancel(ctx, session.AgentName, session.ID)
			if err != nil {
				return err
			}

			return a.result("The run %s is cancelled.", run)
		},
	})
	for _, cmd := range []*cobra.Command{show, remove, transcript} {
		cmd.Flags().StringVar(&user, "user", "", "`id` of the owner, if several users have pushed a session with the same id")
	}

	return group("sessions", "List, print, cancel and delete conversations", "  agenthost sessions list --agent helper", list, show, transcript, cancel, remove)
}

func sessionIDs(ctx context.Context, c *client.Client) ([]string, error) {
	return collect(c.History.List(ctx, client.HistoryFilter{}), func(s wire.ChatSession) string { return s.ID + "\t" + oneLine(s.Title) })
}

func (a *app) pushCommand() *cobra.Command {
	var path string
	cmd := a.command(action{
		use: "push", short: "Upload conversations of another program",
		long: `Uploads conversations of another program: JSON with sessions, at most 50, as POST /api/v1/chat/push has them. The exit
code is 6 if a session is invalid.`,
		example: "  agenthost push -f chats.json\n  export-chats | agenthost push -f -",
		run: func(ctx context.Context, c *client.Client, _ []string) error {
			text, err := a.readFile(path)
			if err != nil {
				return err
			}

			var req wire.ChatPushRequest
			if err := jsonlimit.Unmarshal(text, &req); err != nil {
				return usage("%s is not JSON with sessions: %w", path, err)
			}

			pushed, err := c.Push(ctx, req)
			if err != nil {
				return err
			}

			if a.format != "table" {
				err = a.encode(pushed)
			} else {
				err = a.result("%d created, %d updated, %d unchanged, %d invalid.", pushed.Accepted, pushed.Updated, pushed.Skipped, pushed.Failed)
			}

			for _, outcome := range pushed.Results {
				if outcome.Error != "" {
					a.note("%s: %s", oneLine(outcome.ID), oneLine(outcome.Error))
				}
			}

			if err == nil && pushed.Failed > 0 {
				err = fmt.Errorf("%w: %d sessions are invalid", errRejected, pushed.Failed)
			}

			return err
		},
	})
	fileFlag(cmd, &path, "sessions")
	return cmd
}
