package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/hub/client"
	hubwire "github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/runvalue"
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
	attach   []string // files of the next message
	thinking bool
	resume   bool
	texts    bool     // a text of the current message was printed
	budgets  []string // kinds of those that were printed
	signals  chan os.Signal
	pending  []wire.Pending         // of the last answer
	read     func() (string, error) // a line of the user
	forget   func()                 // what the user has typed
}

func (a *app) chatCommand() *cobra.Command {
	c := &chat{app: a}
	cmd := &cobra.Command{
		Use:   "chat AGENT",
		Short: "Chat with a deployed agent",
		Long: `Sends messages to a deployed agent and prints its answers as they arrive. Tool calls are printed to stderr.

--attach adds an image or a file to the first message: PNG, JPEG, GIF and WebP of at most 5 MiB, PDF and text of at most 10 MiB.

With -m it sends one message; with -m - or without a terminal, the message is stdin. Otherwise it reads a message
from each line, until the end of input. Ctrl-C cancels the answer in progress, and between answers ends the program.

The answer does not need the program: it continues if the terminal is closed, the program is ended, or the connection
is lost, which the program makes again. --resume shows the last answer of a chat and follows it.

A call that needs an approval, or a question of a tool server, waits for you: the program shows exactly what is executed, and asks.
Without a terminal it prints the ids of what waits, and its exit code is 9.

With -o json, each event is a line of JSON.`,
		Example: `  agenthost chat helper
  agenthost chat helper -m "Summarize the log." --session 5f3a91c2
  agenthost chat helper -m "What is wrong here?" --attach screen.png --attach app.log
  agenthost chat helper --resume
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
	cmd.Flags().StringArrayVar(&c.attach, "attach", nil, "image or `file` of the first message; several times for more, at most 8")
	cmd.Flags().BoolVar(&c.resume, "resume", false, "show the last answer, follow it, and continue the latest chat, or that of --session")
	cmd.Flags().BoolVar(&c.thinking, "thinking", false, "print what the model thinks, to stderr")
	return cmd
}

func (c *chat) run(ctx context.Context) error {
	var err error
	if c.client, err = c.connect(); err != nil {
		return err
	}

	c.signals, c.read, c.forget = c.notify(), c.line, c.flush
	ctx = context.WithoutCancel(ctx) // a signal cancels only the answer
	if c.session == "" && c.resume {
		if err := c.findLatest(ctx); err != nil {
			return err
		}
	}

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

	if c.resume {
		err := c.showLast(ctx)
		if c.message == "" && !isTerminal(c.stdin) || exitCode(err) == exitSignedOut {
			return err
		}

		if err != nil {
			fmt.Fprintln(c.stderr, c.explain(err))
		}
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

// findLatest selects the latest chat with the agent.
func (c *chat) findLatest(ctx context.Context) error {
	for session, err := range c.client.Chats.List(ctx, c.agent) {
		c.session = session.ID
		return err
	}

	return fmt.Errorf("there is no chat with %s to resume: start one without --resume", c.agent)
}

// showLast prints the last message and its answer, which may be in progress.
func (c *chat) showLast(ctx context.Context) error {
	var question, answer hubwire.ChatMessage
	for message, err := range c.client.Chats.Messages(ctx, c.agent, c.session) {
		if err != nil {
			return err
		}

		if message.Role == "assistant" {
			answer = message
		} else {
			question, answer = message, hubwire.ChatMessage{}
		}
	}

	c.note("> %s", printable(question.Text))
	for _, attached := range attachmentsOf(question) {
		c.note("> %s", printable(attached.String()))
	}

	if answer.RunID == "" { // without an answer, or of another program
		return nil
	}

	return c.settled(ctx, c.receive(ctx, func(ctx context.Context) iter.Seq2[wire.Payload, error] {
		return c.client.Chats.Events(ctx, c.agent, c.session, answer.ID)
	}))
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
	c.read = func() (string, error) {
		select {
		case <-c.signals:
			return "", errInterrupted
		case line, more := <-lines:
			if !more {
				return "", io.EOF
			}

			return line, nil
		}
	}
	c.forget = func() {
		c.flush()
		select {
		case <-lines: // a read of a terminal returns one line
		default:
		}
	}
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

				if errors.Is(err, errEnded) {
					return err
				}

				if err == errInterrupted { //nolint:errorlint // others wrap it
					err = errors.New("the answer is cancelled")
				}

				fmt.Fprintln(c.stderr, c.explain(err)) // the conversation continues
			}
		}
	}
}

// send sends a message and prints the answer. A conversation that this program began is begun again
// if the user has no access to it any more: the account of agenthost dev becomes the one that
// registers.
func (c *chat) send(ctx context.Context, message string) error {
	err := c.settled(ctx, c.answer(ctx, message))
	if err == nil {
		c.attach = nil
	}

	if !c.own || !errors.Is(err, hubwire.NotFound) {
		return err
	}

	session, failed := c.client.Chats.Create(ctx, c.agent, "")
	if failed != nil {
		return errors.Join(err, failed)
	}

	c.session = session.ID
	c.note("The conversation belongs to another account: a new one begins.")
	return c.settled(ctx, c.answer(ctx, message))
}

// answer sends a message and prints the answer, which continues if the connection is lost.
func (c *chat) answer(ctx context.Context, message string) error {
	parts, err := c.upload(ctx)
	if err != nil {
		return err
	}

	return c.receive(ctx, func(ctx context.Context) iter.Seq2[wire.Payload, error] {
		return c.client.Chats.Send(ctx, c.agent, c.session, hubwire.ChatMessageRequest{
			Message: message, Content: parts, OnDisconnect: "continue", ClientMessageID: rand.Text(), Inputs: []string{runvalue.InputApproval, runvalue.InputQuestion},
		})
	})
}
