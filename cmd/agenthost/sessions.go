package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/hub/client"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/jsonlimit"
)

func sessionColumns(s wire.ChatSession) []field {
	return []field{
		{"session", reference(s.ID)},
		{"agent", s.AgentName},
		{"user", s.UserName},
		{"messages", s.MessageCount},
		{"updated", s.UpdatedAt},
		{"title", s.Title},
	}
}

func (a *app) sessionsCommand() *cobra.Command {
	var filter client.HistoryFilter
	var part part
	var user string
	list := a.command(action{
		use: "list", short: "List conversations, the latest first",
		long:    "Lists conversations, the latest first: the own ones of a member, and all of the organization for admins and maintainers.",
		example: "  agenthost sessions list --agent helper\n  agenthost sessions list --limit 20 --page 2",
		run: func(ctx context.Context, c *client.Client, _ []string) error {
			return printList(a, pageOf(a, part, c.History.List(ctx, filter)), sessionColumns)
		},
	})
	part.flags(list, "conversations")
	list.Flags().StringVar(&filter.Agent, "agent", "", "only of this `agent`")
	list.Flags().StringVar(&filter.User, "user", "", "only of users whose id or name contains this `text`")
	list.Flags().StringVar(&filter.Source, "source", "", "hub, push or api")
	_ = list.RegisterFlagCompletionFunc("agent", a.completeFlag(agentNames))
	show := a.command(action{
		use: "show SESSION", short: "Print the messages of a conversation", example: "  agenthost sessions show 5f3a91c2",
		args: []string{"SESSION"}, complete: sessionIDs,
		run: func(ctx context.Context, c *client.Client, args []string) error {
			session, err := findSession(ctx, c, args[0], user)
			if err != nil {
				return err
			}

			messages := c.History.Messages(ctx, session.ID, ownerOf(session, user))
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

				text := message.Text
				for _, attached := range attachmentsOf(message) {
					text += "\n" + attached.String() + " " + attached.UploadID
				}

				if _, err := fmt.Fprintf(a.stdout, "%s  %s  %s\n%s\n\n", day(message.CreatedAt.Time), message.Role, message.Status, printable(text)); err != nil {
					return err
				}
			}

			return nil
		},
	})
	file := a.command(action{
		use: "file SESSION ID", short: "Print an image or a file of a conversation", args: []string{"SESSION", "ID"}, complete: sessionIDs,
		long:    "Writes an image or a file of a message to stdout. The ids are those that sessions show prints.",
		example: "  agenthost sessions file 5f3a91c2 0e1ac51be48ba705346ae806fcdb27b5db52ac5393f4ebd8bfd624c20b99bc6d > screen.png",
		run: func(ctx context.Context, c *client.Client, args []string) (err error) {
			session, err := findSession(ctx, c, args[0], user)
			if err != nil {
				return err
			}

			content, err := c.History.File(ctx, session.ID, ownerOf(session, user), args[1])
			if err != nil {
				return err
			}

			_, err = io.Copy(a.stdout, content)
			return errors.Join(err, content.Close())
		},
	})
	remove := a.command(action{
		use: "delete SESSION", short: "Delete a conversation", example: "  agenthost sessions delete 5f3a91c2",
		args: []string{"SESSION"}, complete: sessionIDs,
		goes: func(ctx context.Context, c *client.Client, args []string) (string, error) {
			session, err := findSession(ctx, c, args[0], user)
			return fmt.Sprintf("The conversation %q of %s with %s will be deleted: %d messages.", session.Title, session.UserName, session.AgentName, session.MessageCount), err
		},
		run: func(ctx context.Context, c *client.Client, args []string) error {
			session, err := findSession(ctx, c, args[0], user)
			if err != nil {
				return err
			}

			if err := c.History.Delete(ctx, session.ID, ownerOf(session, user)); err != nil {
				return err
			}

			return a.result("The conversation %q is deleted.", session.Title)
		},
	})
	transcript := a.command(action{
		use: "transcript SESSION", short: "Print what happened in a conversation", args: []string{"SESSION"}, complete: sessionIDs,
		long:    "Prints what happened in a conversation, as its runtime stored it: models, tool calls, denials and the ends of runs, as lines of JSON.",
		example: "  agenthost sessions transcript 5f3a91c2 | jq -r .type",
		run: func(ctx context.Context, c *client.Client, args []string) error {
			session, err := findSession(ctx, c, args[0], user)
			if err != nil {
				return err
			}

			for entry, err := range c.History.Transcript(ctx, session.ID, ownerOf(session, user)) {
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
		example: "  agenthost sessions cancel 5f3a91c2",
		run: func(ctx context.Context, c *client.Client, args []string) error {
			session, err := findSession(ctx, c, args[0], "")
			if err != nil {
				return err
			}

			if _, err := c.Chats.Cancel(ctx, session.AgentName, session.ID); err != nil {
				return err
			}

			return a.result("The answer of %s is cancelled.", session.AgentName)
		},
	})
	for _, cmd := range []*cobra.Command{show, file, remove, transcript} {
		cmd.Flags().StringVar(&user, "user", "", "`name` of the owner, if several users have pushed a session with the same id")
	}

	return group("sessions", "List, print, cancel and delete conversations", "  agenthost sessions list --agent helper", list, show, file, transcript, cancel, remove)
}

// ownerOf returns the id of the owner of a session if the user has named the owner.
func ownerOf(session wire.ChatSession, user string) string {
	if user == "" {
		return ""
	}

	return session.UserID
}

func sessionIDs(ctx context.Context, c *client.Client) ([]string, error) {
	return collect(c.History.List(ctx, client.HistoryFilter{}), func(s wire.ChatSession) string { return reference(s.ID).String() + "\t" + oneLine(s.Title) })
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
