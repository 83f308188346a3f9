package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/hub/client"
	hubwire "github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// chat is a conversation in the terminal.
type chat struct {
	*app
	client   *client.Client
	agent    string
	session  string
	own      bool // the session was begun by this program
	message  string
	thinking bool
	budgets  []string // kinds of those that were printed
	signals  chan os.Signal
}

func (a *app) chatCommand() *cobra.Command {
	c := &chat{app: a}
	cmd := &cobra.Command{
		Use:   "chat AGENT",
		Short: "Chat with a deployed agent",
		Long: `Sends messages to a deployed agent and prints its answers as they arrive. Tool calls are printed to stderr.

With -m it sends one message; with -m - or without a terminal, the message is stdin. Otherwise it reads a message
from each line, until the end of input. Ctrl-C cancels the answer in progress, and between answers ends the program.

With -o json, each event is a line of JSON.`,
		Example: `  agenthost chat helper
  agenthost chat helper -m "Summarize the log." --session 5f3a91c2
  git diff | agenthost chat reviewer -m -`,
		Args:              exactly("AGENT"),
		ValidArgsFunction: a.completeArgs(agentNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.agent = args[0]
			return c.run(cmd.Context())
		},
	}
	cmd.Flags().StringVarP(&c.message, "message", "m", "", "one `message`, or - for stdin")
	cmd.Flags().StringVar(&c.session, "session", "", "`session` to continue: its title, or the first column of agenthost sessions list")
	cmd.Flags().BoolVar(&c.thinking, "thinking", false, "print what the model thinks, to stderr")
	return cmd
}

func (c *chat) run(ctx context.Context) error {
	var err error
	if c.client, err = c.connect(); err != nil {
		return err
	}

	c.signals = c.notify()
	ctx = context.WithoutCancel(ctx) // a signal cancels only the answer
	if c.session == "" {
		session, err := c.client.Chats.Create(ctx, c.agent, "")
		if err != nil {
			return err
		}

		c.session, c.own = session.ID, true
	}

	if !uuid.MatchString(c.session) {
		session, err := findSession(ctx, c.client, c.session, "")
		if err != nil {
			return err
		}

		c.session = session.ID
	}

	if c.message == "-" || c.message == "" && !isTerminal(c.stdin) {
		if c.message, err = c.rest(); err != nil {
			return err
		}

		if strings.TrimSpace(c.message) == "" {
			return usage("stdin has no message")
		}
	}

	if c.message != "" {
		return c.send(ctx, c.message)
	}

	return c.converse(ctx)
}

// converse reads a message from each line until the end of input or a signal.
func (c *chat) converse(ctx context.Context) error {
	c.note("Session %s. Ctrl-C cancels an answer, Ctrl-D ends.", reference(c.session))
	lines := make(chan string)
	go func() { // it ends with the process: a read of a terminal cannot be cancelled
		defer close(lines)
		scanner := bufio.NewScanner(c.stdin)
		scanner.Buffer(nil, maxLine)
		for scanner.Scan() {
			lines <- scanner.Text()
		}
	}()
	for {
		fmt.Fprint(c.stderr, "> ")
		select {
		case <-c.signals:
			fmt.Fprintln(c.stderr)
			return nil
		case line, more := <-lines:
			if !more {
				fmt.Fprintln(c.stderr)
				return nil
			}

			if strings.TrimSpace(line) == "" {
				continue
			}

			if err := c.send(ctx, line); err != nil {
				if exitCode(err) == exitSignedOut {
					return err
				}

				if errors.Is(err, errInterrupted) {
					err = errors.New("the answer is cancelled")
				}

				fmt.Fprintln(c.stderr, explain(err)) // the conversation continues
			}
		}
	}
}

// errAnswer is the error of an answer that was not completed.
var errAnswer = errors.New("the answer was not completed")

// send sends a message and prints the answer. A conversation that this program began is begun again
// if the user has no access to it any more: the account of agenthost dev becomes the one that
// registers.
func (c *chat) send(ctx context.Context, message string) error {
	err := c.answer(ctx, message)
	if !c.own || !errors.Is(err, hubwire.NotFound) {
		return err
	}

	session, failed := c.client.Chats.Create(ctx, c.agent, "")
	if failed != nil {
		return errors.Join(err, failed)
	}

	c.session = session.ID
	c.note("The conversation belongs to another account: a new one begins.")
	return c.answer(ctx, message)
}

// answer sends a message and prints the answer. A signal cancels it: the events then end when the
// hub has stored what there is of it, so that the next message can be sent. A second signal closes
// the connection.
func (c *chat) answer(ctx context.Context, message string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		for n := 1; ; n++ {
			select {
			case <-c.signals:
			case <-ctx.Done():
				return
			}

			if n == 1 {
				if _, err := c.client.Chats.Cancel(ctx, c.agent, c.session); err == nil {
					continue
				}
			}

			cancel(errInterrupted)
		}
	}()
	var saved hubwire.Saved
	begun := false
	for event, err := range c.client.Chats.Send(ctx, c.agent, c.session, hubwire.ChatMessageRequest{Message: message}) {
		if err != nil {
			if begun && c.format == "table" {
				fmt.Fprintln(c.stdout) // after a part of the answer
			}

			return err
		}

		begun = true
		if last, ok := event.(*hubwire.Saved); ok {
			saved = *last
		}

		if err := c.print(event); err != nil {
			return err
		}
	}

	switch saved.Status {
	case "completed":
		return nil
	case "cancelled":
		return errInterrupted
	}

	err := fmt.Errorf("%w: it is %s", errAnswer, saved.Status)
	if saved.Error != nil && saved.Error.Remedy != "" {
		err = fmt.Errorf("%w\n%s", err, printable(saved.Error.Remedy))
	}

	return err
}

// noteBudget prints a budget that is used up to its soft limit, once in a conversation.
func (c *chat) noteBudget(b hubwire.Budget) {
	text := budgetText(b)
	if !slices.Contains(c.budgets, b.Kind) {
		c.budgets = append(c.budgets, b.Kind)
		c.note("\n%s", text)
	}
}

// print prints an event.
func (c *chat) print(event wire.Payload) error {
	if c.format != "table" {
		return c.printJSON(event)
	}

	switch event := event.(type) {
	case *hubwire.Begun:
		if event.AIGCNotice != "" {
			c.note("%s", printable(event.AIGCNotice))
		}
	case *wire.PartialMessage:
		switch event.Partial.Type {
		case wire.PartialText:
			_, err := io.WriteString(c.stdout, printable(event.Partial.Text))
			return err
		case wire.PartialThinking:
			if c.thinking {
				fmt.Fprint(c.stderr, printable(event.Partial.Text))
			}
		}
	case *wire.Assistant:
		for _, block := range event.Message.Content {
			if block.Type == "tool_use" {
				c.note("\n[%s %s]", oneLine(block.Name), cell(string(block.Input)))
			}
		}
	case *wire.ToolResult:
		c.printResult(event)
	case *hubwire.Notice:
		_, err := io.WriteString(c.stdout, printable(event.Text))
		return err
	case *hubwire.Saved:
		for _, budget := range event.Budgets {
			c.noteBudget(budget)
		}
	case *wire.Result:
		for _, text := range event.Errors {
			c.note("\n%s", printable(text))
		}
	case *wire.Done:
		_, err := fmt.Fprintln(c.stdout)
		return err
	}

	return nil
}

func (c *chat) printJSON(event wire.Payload) error {
	var shown any = event
	if unknown, ok := event.(*wire.Unknown); ok && !json.Valid(unknown.Data) {
		shown = string(unknown.Data)
	} else if ok {
		shown = unknown.Data
	}

	data, err := json.Marshal(map[string]any{"event": event.EventName(), "data": shown})
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}

	_, err = fmt.Fprintln(c.stdout, string(data))
	return err
}

// printResult prints the result of a tool call.
func (c *chat) printResult(event *wire.ToolResult) {
	verb := "returned"
	if event.Result.IsError {
		verb = "failed"
	}

	c.note("[%s %s: %s]", oneLine(event.Result.ToolName), verb, cell(event.Result.Output))
}
