package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	hubwire "github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// errWaiting is the error of an answer that waits for a person.
var errWaiting = errors.New("the answer waits")

// waitingFor returns errWaiting with the ids of what waits.
func waitingFor(pending []wire.Pending) error {
	var text strings.Builder
	for _, p := range pending {
		fmt.Fprintf(&text, "\n  %s  %s", oneLine(p.ID), visible(p.ToolName))
	}

	return fmt.Errorf("%w: agenthost approvals show has what it waits for:%s", errWaiting, text.String())
}

// settled asks the user for what an answer waits for, and continues it, until it has ended. It asks
// again if the hub rejects the answers. Without a terminal, it returns err.
func (c *chat) settled(ctx context.Context, err error) error {
	for errors.Is(err, errWaiting) && isTerminal(c.stdin) {
		pending := c.pending
		answers, asked := c.askAll(ctx)
		if asked != nil {
			return asked
		}

		err = c.receive(ctx, func(ctx context.Context) iter.Seq2[wire.Payload, error] {
			return c.client.Chats.Send(ctx, c.agent, c.session, hubwire.ChatMessageRequest{
				Answers: answers, OnDisconnect: "continue", // with the inputs and tools of the message
			})
		})
		if errors.Is(err, hubwire.InvalidRequest) || errors.Is(err, hubwire.ValidationFailed) {
			c.note("%s", c.explain(err))
			c.pending, err = pending, errWaiting
		}
	}

	return err
}

// askAll asks the user for the answers of all that waits. It fails with errWaiting if another user
// approves, or the user does not answer.
func (c *chat) askAll(ctx context.Context) ([]wire.Answer, error) {
	var answers []wire.Answer
	for _, p := range c.pending {
		if p.Kind == runvalue.InputClientTool {
			return nil, waitingFor(c.pending) // another program calls it
		}

		w, err := c.client.Approvals.Get(ctx, p.ID)
		if err != nil {
			return nil, err
		}

		if w.Approvers != "owner" {
			c.note("%sUsers with the role %s or a higher one approve this.", card(w, columns(c.stderr)), w.Approvers)
			return nil, waitingFor(c.pending)
		}

		fmt.Fprint(c.stderr, card(w, columns(c.stderr)))
		answer := wire.Answer{ID: p.ID}
		if p.Kind == runvalue.InputQuestion {
			err = c.askQuestion(w, &answer)
		} else {
			err = c.askApproval(w, &answer)
		}

		if errors.Is(err, errInterrupted) {
			return nil, err
		}

		if err != nil { // the end of the input
			return nil, waitingFor(c.pending)
		}

		answers = append(answers, answer)
	}

	return answers, nil
}

// question asks until accept returns true for the reply. What was typed before the prompt is no
// reply.
func (c *chat) question(prompt string, accept func(reply string) bool) error {
	for {
		c.forget()
		fmt.Fprint(c.stderr, prompt+" ")
		reply, err := c.read()
		if err != nil || accept(strings.TrimSpace(reply)) {
			return err
		}
	}
}

// askApproval asks y, n or e.
func (c *chat) askApproval(w hubwire.Approval, answer *wire.Answer) error {
	edit := false
	err := c.question("Approve it? [y/n/e]", func(reply string) bool {
		switch strings.ToLower(reply) {
		case "y", "yes":
			answer.Decision = runvalue.DecisionApprove
		case "n", "no":
			answer.Decision = runvalue.DecisionReject
		case "e", "edit":
			answer.Decision, edit = runvalue.DecisionApprove, true
		default:
			return false
		}

		return true
	})
	if err != nil {
		return err
	}

	if edit {
		return c.question("Input, which was "+visible(string(w.Input))+":", func(reply string) bool {
			answer.Input = json.RawMessage(reply)
			return strings.HasPrefix(reply, "{") && json.Valid(answer.Input)
		})
	}

	if answer.Decision == runvalue.DecisionReject {
		return c.question("Reason, for the model:", func(reply string) bool {
			answer.Reason = reply
			return true
		})
	}

	return nil
}

// askQuestion asks for the values of a schema, which are texts, numbers and truths.
func (c *chat) askQuestion(w hubwire.Approval, answer *wire.Answer) error {
	err := c.question("Answer it? [y/n]", func(reply string) bool {
		switch strings.ToLower(reply) {
		case "y", "yes":
			answer.Action = runvalue.ActionAccept
		case "n", "no":
			answer.Action = runvalue.ActionDecline
		default:
			return false
		}

		return true
	})
	if err != nil || answer.Action != runvalue.ActionAccept || len(w.Schema) == 0 {
		return err
	}

	properties, err := propertiesOf(w.Schema)
	if err != nil {
		return err
	}

	content := map[string]any{}
	for _, p := range properties {
		err := c.question(p.prompt(), func(reply string) bool {
			if reply == "" && !p.required {
				return true
			}

			value, ok := p.value(reply)
			if ok {
				content[p.name] = value
			}

			return ok
		})
		if err != nil {
			return err
		}
	}

	answer.Content, err = json.Marshal(content)
	return err
}

// propertiesOf returns the properties of the schema of a question, in their order.
func propertiesOf(data json.RawMessage) ([]property, error) {
	var schema struct {
		Properties json.RawMessage `json:"properties"`
		Required   []string        `json:"required"`
	}
	if err := jsonlimit.Unmarshal(data, &schema); err != nil {
		return nil, fmt.Errorf("read the schema of the question: %w", err)
	}

	if len(schema.Properties) == 0 {
		return nil, nil
	}

	var all []property
	properties := json.NewDecoder(bytes.NewReader(schema.Properties))
	begin, err := properties.Token()
	for err == nil && begin == json.Delim('{') && properties.More() {
		var name json.Token
		if name, err = properties.Token(); err != nil {
			break
		}

		p := property{name: fmt.Sprint(name)}
		p.required = slices.Contains(schema.Required, p.name)
		all = append(all, p)
		err = properties.Decode(&all[len(all)-1])
	}

	if err != nil {
		return nil, fmt.Errorf("read the schema of the question: %w", err)
	}

	return all, nil
}

// property is a value of a simple type in the schema of a question.
type property struct {
	name     string
	required bool

	Type        string `json:"type"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Enum        []any  `json:"enum"`
}

func (p property) prompt() string {
	if p.Type == "boolean" {
		return p.describe() + " [y/n]:"
	}

	return p.describe() + ":"
}

// describe returns the name, the title, the description and the values.
func (p property) describe() string {
	text := visible(p.name)
	if p.Title != "" {
		text += ", " + visible(p.Title)
	}

	if p.Description != "" {
		text += ", " + visible(p.Description)
	}

	for i, value := range p.Enum {
		sep := ", "
		if i == 0 {
			sep = ": one of "
		}

		text += sep + visible(fmt.Sprint(value))
	}

	return text
}

// value returns the value of a reply.
func (p property) value(reply string) (any, bool) {
	if len(p.Enum) > 0 {
		n := slices.IndexFunc(p.Enum, func(value any) bool { return fmt.Sprint(value) == reply })
		if n < 0 {
			return nil, false
		}

		return p.Enum[n], true
	}

	switch p.Type {
	case "integer":
		n, err := strconv.ParseInt(reply, 10, 64)
		return n, err == nil
	case "number":
		n, err := strconv.ParseFloat(reply, 64)
		return n, err == nil
	case "boolean":
		yes := slices.Contains([]string{"y", "yes", "true"}, strings.ToLower(reply))
		return yes, yes || slices.Contains([]string{"n", "no", "false"}, strings.ToLower(reply))
	case "string", "":
		return reply, reply != ""
	}

	return json.RawMessage(reply), json.Valid([]byte(reply))
}
