package openai

import (
	"context"
	"iter"
	"net/http"
	"strings"

	"github.com/julienschmidt/httprouter"

	"github.com/seed93082962/agenthost/internal/httpapi"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// chatCompletion is the body of a response without a stream.
type chatCompletion struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"` // chat.completion
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []chatChoice `json:"choices"`
	Usage   chatUsage    `json:"usage"`

	Metadata wire.Metadata `json:"metadata,omitempty"` // labels of the host
}

type chatChoice struct {
	Index        int        `json:"index"`
	Message      chatAnswer `json:"message"`
	LogProbs     *struct{}  `json:"logprobs"` // null
	FinishReason string     `json:"finish_reason"`
}

type chatAnswer struct {
	Role      string     `json:"role"`
	Content   *string    `json:"content"`
	Refusal   *string    `json:"refusal"`
	ToolCalls []chatCall `json:"tool_calls,omitempty"`
}

// chatUsage counts the tokens of a whole run, with those of its subagents.
type chatUsage struct {
	PromptTokens        int64 `json:"prompt_tokens"`
	CompletionTokens    int64 `json:"completion_tokens"`
	TotalTokens         int64 `json:"total_tokens"`
	PromptTokensDetails struct {
		CachedTokens     int64 `json:"cached_tokens"`
		CacheWriteTokens int64 `json:"cache_write_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionTokensDetails struct {
		ReasoningTokens int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
	Estimated bool `json:"estimated,omitempty"` // as in [wire.Usage]
}

func chatUsageOf(u wire.Usage) chatUsage {
	prompt := wire.Usage{InputTokens: u.InputTokens}.
		Add(wire.Usage{InputTokens: u.CacheCreationInputTokens}).
		Add(wire.Usage{InputTokens: u.CacheReadInputTokens})
	total := prompt.Add(wire.Usage{InputTokens: u.OutputTokens})
	out := chatUsage{
		PromptTokens: prompt.InputTokens, CompletionTokens: u.OutputTokens, TotalTokens: total.InputTokens,
		Estimated: u.Estimated,
	}
	out.PromptTokensDetails.CachedTokens = u.CacheReadInputTokens
	out.PromptTokensDetails.CacheWriteTokens = u.CacheCreationInputTokens
	out.CompletionTokensDetails.ReasoningTokens = u.ReasoningTokens
	return out
}

// chat is the response to one request.
type chat struct {
	*exchange

	text strings.Builder // of all messages, without a stream
	out  *chatStream     // nil without a stream
}

// completeChat handles POST /chat/completions.
func (s *server) completeChat(w http.ResponseWriter, r *http.Request, _ httprouter.Params) error {
	memory := &httpapi.Memory{Reserve: s.cfg.Host.Reserve}
	defer memory.Release()
	var req chatRequest
	err := s.readJSON(w, r, memory, &req)
	if err == nil {
		err = req.check()
	}

	if err != nil {
		return err
	}

	run, err := req.run()
	if err != nil {
		return err
	}

	retained := *run.fresh.Store
	if s.cfg.Retains {
		run.fresh.Store = req.Store
	}

	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	c := &chat{exchange: s.newExchange(w, r, memory, req.Model, req.Stream)}
	if req.Stream {
		c.out = &chatStream{chat: c, usage: req.StreamOptions.IncludeUsage, cancel: cancel}
	}

	err = c.execute(ctx, run)
	if retained {
		c.forget(ctx) // the next request has the conversation
	}

	if c.out != nil && c.out.events != nil {
		return c.out.end(err)
	}

	if err != nil {
		return err
	}

	return httpapi.WriteJSON(w, http.StatusOK, c.completion())
}

// execute executes the run. The results of tools continue the session that waits for them. If it
// does not, the run has the whole conversation.
func (c *chat) execute(ctx context.Context, run chatRun) error {
	if run.answering != nil {
		err := c.receive(c.events(ctx, *run.answering, &run), c.handle)
		if c.runID != "" || !isNotWaiting(err) {
			return err
		}
	}

	return c.receive(c.events(ctx, run.fresh, &run), c.handle)
}

// talking is a [Host] that finds the conversation that a client carries, of a user of the client or
// of "".
type talking interface {
	RunTalk(ctx context.Context, agentID string, run wire.RunRequest, talk []wire.Turn, user string) iter.Seq2[wire.Event, error]
}

// events executes a run of a conversation.
func (c *chat) events(ctx context.Context, run wire.RunRequest, of *chatRun) iter.Seq2[wire.Event, error] {
	if host, ok := c.s.cfg.Host.(talking); ok {
		return host.RunTalk(ctx, c.agentID, run, of.talk, of.user)
	}

	return c.s.cfg.Host.Run(ctx, c.agentID, run)
}

func (c *chat) handle(event wire.Event) error {
	switch p := event.Payload.(type) {
	case *wire.System:
		if p.Init != nil && c.out != nil {
			return c.out.begin()
		}
	case *wire.PartialMessage:
		if c.out != nil && p.Partial.Type == wire.PartialText && !c.structured {
			c.out.text(p.Partial.Text)
		}
	case *wire.Assistant:
		if p.ParentToolUseID == nil && !c.structured {
			return c.message(p.Message.Content)
		}
	case *wire.Result:
		if text, refused := outputText(p); c.structured && text != nil && !refused {
			return c.message([]wire.Block{{Type: wire.PartialText, Text: *text}})
		}
	}

	if c.out != nil && !event.More {
		c.out.flush()
	}

	return nil
}

// message handles a complete message.
func (c *chat) message(blocks []wire.Block) error {
	var text strings.Builder
	for i := range blocks {
		text.WriteString(blocks[i].Text)
	}

	switch {
	case c.out != nil:
		c.out.message(text.String())
		return nil
	case text.Len() == 0:
		return nil
	case c.text.Len() > 0:
		c.text.WriteString(paragraph)
	}

	c.text.WriteString(text.String())
	return c.memory.Add(3 * text.Len()) // with its JSON
}

// paragraph separates the texts of messages, between which the agent has called tools.
const paragraph = "\n\n"

func (c *chat) id() string { return "chatcmpl-" + c.runID }

// calls returns the calls of client tools of a run that waits.
func (c *chat) calls(chunk bool) []chatCall {
	var list []chatCall
	for i, p := range c.result.Pending {
		call := chatCall{
			ID: callID(c.session, p.ID), Type: "function",
			Function: chatFunction{Name: p.ToolName, Arguments: string(p.Input)},
		}
		if chunk {
			call.Index = &i
		}

		list = append(list, call)
	}

	return list
}

// finishReason returns the reason for the end of a run.
func (c *chat) finishReason() string {
	switch {
	case c.waits():
		return "tool_calls"
	case c.structured: // it has the output or a refusal
	case c.result.StopReason == stopRefusal:
		return "content_filter"
	case c.result.StopReason == "max_tokens", c.result.StopReason == "model_context_window_exceeded":
		return "length"
	}

	return "stop"
}

// refusal states the calls that the agent was not permitted to make, or nil. Of a run with an
// output schema it is that of the model in place of the output.
func (c *chat) refusal() *string {
	if c.structured {
		if text, refused := outputText(c.result); refused {
			return text
		}

		return nil
	}

	var lines []string
	for _, d := range c.result.PermissionDenials {
		lines = append(lines, d.ToolName+" was not executed: "+d.Reason)
	}

	if len(lines) == 0 {
		return nil
	}

	text := strings.Join(lines, "\n")
	return &text
}

func (c *chat) completion() chatCompletion {
	answer := chatAnswer{Role: runvalue.RoleAssistant, Refusal: c.refusal()}
	if c.waits() {
		answer.ToolCalls = c.calls(false)
	}

	if text := c.text.String(); text != "" || answer.ToolCalls == nil && !c.structured {
		answer.Content = &text
	}

	return chatCompletion{
		ID: c.id(), Object: "chat.completion", Created: c.created, Model: c.agentID,
		Choices: []chatChoice{{Message: answer, FinishReason: c.finishReason()}},
		Usage:   chatUsageOf(c.spent.Usage), Metadata: c.labels,
	}
}
