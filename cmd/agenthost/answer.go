package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"sync/atomic"
	"time"

	hubwire "github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/runtime/wire"
)

var (
	// errAnswer is the error of an answer that was not completed.
	errAnswer = errors.New("the answer was not completed")
	// errLeft is the cause of the end of a connection after a second Ctrl-C, or if the answer could
	// not be cancelled.
	errLeft = fmt.Errorf("%w: the answer perhaps continues", errInterrupted)
	// errEnded is that of another signal, which ends the program.
	errEnded = fmt.Errorf("%w: the answer continues", errInterrupted)
)

// receive prints the events of an answer. Ctrl-C cancels it: the events then end when the hub has
// stored what there is of it, so that the next message can be sent. A second one, and other
// signals, close the connection: the answer of a closed terminal continues.
func (c *chat) receive(ctx context.Context, events func(context.Context) iter.Seq2[wire.Payload, error]) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var message atomic.Pointer[string]
	go func() {
		for n := 1; ; n++ {
			var received os.Signal
			select {
			case received = <-c.signals:
			case <-ctx.Done():
				return
			}

			if received != os.Interrupt {
				cancel(errEnded)
			}

			if n > 1 {
				cancel(errLeft)
			}

			if context.Cause(ctx) != nil {
				return
			}

			go func() {
				if err := c.cancelAnswer(ctx, &message); err != nil && ctx.Err() == nil {
					c.note("\nThe answer could not be cancelled: %s", c.explain(err))
					cancel(errLeft)
				}
			}()
		}
	}()
	var saved hubwire.Saved
	begun := false
	c.texts = false
	for event, err := range events(ctx) {
		if err != nil {
			if begun && c.format == "table" {
				fmt.Fprintln(c.stdout) // after a part of the answer
			}

			if left := context.Cause(ctx); left != nil {
				state := "continues"
				if left == errLeft { //nolint:errorlint // it is the cause
					state = "perhaps continues"
				}

				c.note("\nThe answer %s. To see it: %s chat %s --session %s --resume", state, c.name, c.agent, c.session)
				return left
			}

			return err
		}

		begun = true
		if first, ok := event.(*hubwire.Begun); ok {
			message.Store(&first.AssistantMessageID)
		}

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
	case "waiting":
		c.pending = saved.Pending
		return waitingFor(saved.Pending)
	}

	if saved.Error != nil && saved.Error.Remedy != "" {
		return fmt.Errorf("%w\n%s", errAnswer, printable(saved.Error.Remedy))
	}

	return errAnswer
}

const (
	cancelWithin = 5 * time.Second
	cancelAgain  = 100 * time.Millisecond
)

// cancelAnswer cancels the answer, or that of the session while its id is not known. One that has
// not begun is in progress soon.
func (c *chat) cancelAnswer(ctx context.Context, message *atomic.Pointer[string]) error {
	ctx, cancel := context.WithTimeout(ctx, cancelWithin)
	defer cancel()
	for {
		id := message.Load()
		var err error
		if id != nil {
			_, err = c.client.Chats.CancelAnswer(ctx, c.agent, c.session, *id)
		} else {
			_, err = c.client.Chats.Cancel(ctx, c.agent, c.session)
		}

		if id != nil || !errors.Is(err, hubwire.Conflict) {
			return err
		}

		select {
		case <-ctx.Done():
			return err
		case <-time.After(cancelAgain):
		}
	}
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
	case *hubwire.Gap:
		c.texts = false
		c.note("\nA part of the answer was not received. It begins again:")
	case *wire.PartialMessage:
		switch event.Partial.Type {
		case wire.PartialText:
			c.texts = true
			_, err := io.WriteString(c.stdout, printable(event.Partial.Text))
			return err
		case wire.PartialThinking:
			if c.thinking {
				fmt.Fprint(c.stderr, printable(event.Partial.Text))
			}
		}
	case *wire.Assistant:
		return c.printMessage(event)
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

// printMessage prints the tool calls of a complete message, and its text if that was not received
// in parts.
func (c *chat) printMessage(event *wire.Assistant) error {
	printed := c.texts || event.ParentToolUseID != nil
	for _, block := range event.Message.Content {
		switch block.Type {
		case wire.PartialToolUse:
			c.note("\n[%s %s]", oneLine(block.Name), cell(string(block.Input)))
		case wire.PartialText:
			if printed {
				continue
			}

			if _, err := io.WriteString(c.stdout, printable(block.Text)); err != nil {
				return err
			}
		}
	}

	if event.ParentToolUseID == nil {
		c.texts = false
	}

	return nil
}

// printResult prints the result of a tool call.
func (c *chat) printResult(event *wire.ToolResult) {
	verb := "returned"
	if event.Result.IsError {
		verb = "failed"
	}

	c.note("[%s %s: %s]", oneLine(event.Result.ToolName), verb, cell(event.Result.Output))
}
