package openai

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// Types of items.
const (
	typeMessage    = "message"
	typeReasoning  = "reasoning"
	typeFunction   = "function_call"
	typeCall       = "mcp_call"
	typeApproval   = "mcp_approval_request"
	typeCompaction = "compaction"
)

// item is one item of the output of a response. Its type says which fields it has.
type item struct {
	Type        string     `json:"type"`
	ID          string     `json:"id"`
	Status      string     `json:"status,omitempty"`
	Role        string     `json:"role,omitempty"`
	Summary     []itemPart `json:"summary,omitzero"`
	Content     []itemPart `json:"content,omitzero"`
	CallID      string     `json:"call_id,omitempty"`
	ServerLabel string     `json:"server_label,omitempty"`
	Name        string     `json:"name,omitempty"`
	Arguments   *string    `json:"arguments,omitempty"` // JSON
	Output      *string    `json:"output,omitempty"`
	Error       *string    `json:"error,omitempty"`

	EncryptedContent string `json:"encrypted_content,omitempty"`
}

type itemPart struct {
	Type        string     `json:"type"`
	Text        *string    `json:"text,omitempty"`
	Refusal     *string    `json:"refusal,omitempty"` // of a refusal, in place of the text
	Annotations []struct{} `json:"annotations,omitzero"`
	LogProbs    []struct{} `json:"logprobs,omitzero"`
}

// said returns the text or the refusal of a message.
func (i *item) said() string { return *cmp.Or(i.Content[0].Text, i.Content[0].Refusal) }

// part returns the part of a message or of reasoning.
func (i *item) part(text string) itemPart {
	if i.Type == typeReasoning {
		return itemPart{Type: "reasoning_text", Text: &text}
	}

	return itemPart{Type: "output_text", Text: &text, Annotations: []struct{}{}, LogProbs: []struct{}{}}
}

const (
	inProgress = "in_progress"
	completed  = "completed"
)

// output makes the items of a response from the messages of a run. With a stream, it sends their
// events.
type output struct {
	responseStream

	label string // of the server of the agent's own tools
	of    responseID
	items []item
	calls map[string]wire.Block // of the agent, by the id of a call

	open  bool            // the last item is not complete
	begun bool            // the present message has an item
	text  strings.Builder // of the open item
	bytes int             // of the items, since the last call of grown
}

// grown returns the bytes of the items since the last call, or 0 if they are few.
func (o *output) grown() int {
	const step = 16 << 10
	if o.bytes < step {
		return 0
	}

	n := o.bytes
	o.bytes = 0
	return n
}

// nextID returns the id of the next item. It has the response, so that a request can refer to it,
// and is short, because each token is sent with it.
func (o *output) nextID(prefix string) string {
	return prefix + shortID(o.of.run) + strconv.Itoa(len(o.items)) + "_" + shortID(o.of.session)
}

// increment adds a text of a kind of partial messages to the present message.
func (o *output) increment(kind, text string) {
	if text == "" {
		return
	}

	want := typeMessage
	if kind == wire.PartialThinking {
		want = typeReasoning
	}

	if o.open && o.items[len(o.items)-1].Type != want {
		o.close()
	}

	if !o.open {
		o.begin(want)
	}

	o.bytes += len(text)
	o.text.WriteString(text)
	o.delta(text)
}

// begin adds an item whose text follows.
func (o *output) begin(kind string) {
	next := item{Type: kind, ID: o.nextID("rs_"), Summary: []itemPart{}, Content: []itemPart{}}
	if kind == typeMessage {
		next = item{Type: kind, ID: o.nextID("msg_"), Status: inProgress, Role: runvalue.RoleAssistant, Content: []itemPart{}}
	}

	o.open, o.begun = true, true
	o.items = append(o.items, next)
	o.added(&next)
}

// close completes the open item.
func (o *output) close() {
	if !o.open {
		return
	}

	last := &o.items[len(o.items)-1]
	last.Content = []itemPart{last.part(o.text.String())}
	if last.Type == typeMessage {
		last.Status = completed
	}

	o.open = false
	o.text.Reset()
	o.done(last)
}

// message handles a complete message of the agent.
func (o *output) message(blocks []wire.Block) {
	for i := range blocks {
		b := &blocks[i]
		switch {
		case b.Type == wire.PartialToolUse:
			if o.calls == nil {
				o.calls = map[string]wire.Block{}
			}

			o.calls[b.ID] = *b
		case !o.begun || !o.streams():
			o.increment(b.Type, b.Text+b.Thinking)
		}
	}

	o.close()
	o.begun = false
}

// called handles the result of a call that the runtime has executed.
func (o *output) called(r *wire.ToolResultDetail) {
	arguments := "{}"
	if call := o.calls[r.ToolUseID]; len(call.Input) > 0 {
		arguments = string(call.Input)
	}

	next := item{Type: typeCall, ID: o.nextID("mcp_"), Status: completed, Arguments: &arguments, Output: &r.Output}
	next.ServerLabel, next.Name = o.server(r.ToolName)
	if r.IsError {
		next.Status, next.Output, next.Error = "failed", nil, &r.Output
	}

	o.whole(next)
}

// server returns the server of a tool, and its name there.
func (o *output) server(tool string) (string, string) {
	if rest, ok := strings.CutPrefix(tool, "mcp__"); ok {
		if server, name, ok := strings.Cut(rest, "__"); ok {
			return server, name
		}
	}

	return o.label, tool
}

// wait adds what the run waits for.
func (o *output) wait(session string, list []wire.Pending) {
	for i := range list {
		p := &list[i]
		arguments := string(p.Input)
		if p.Kind == runvalue.InputClientTool {
			id := callID(session, p.ID)
			o.whole(item{Type: typeFunction, ID: o.nextID("fc_"), Status: completed, CallID: id, Name: p.ToolName, Arguments: &arguments})
			continue
		}

		next := item{Type: typeApproval, ID: callID(session, p.ID), Arguments: &arguments}
		next.ServerLabel, next.Name = o.server(p.ToolName)
		o.whole(next)
	}
}

// whole adds an item that is complete.
func (o *output) whole(next item) {
	o.items = append(o.items, next)
	o.bytes += len(*next.Arguments)
	if next.Output != nil {
		o.bytes += len(*next.Output)
	}

	begun := next
	if next.Type == typeFunction {
		begun.Status, begun.Arguments = inProgress, new(string)
	}

	o.added(&begun)
	o.done(&next)
}

// said returns the texts of the messages.
func (o *output) said() string {
	var texts []string
	for i := range o.items {
		if o.items[i].Type == typeMessage {
			texts = append(texts, o.items[i].said())
		}
	}

	return strings.Join(texts, paragraph)
}

// appendTo appends the item to a conversation, as texts.
func (i *item) appendTo(talk *conversation) {
	switch i.Type {
	case typeMessage:
		talk.add(runvalue.RoleAssistant, i.said())
	case typeFunction, typeApproval:
		talk.addCall(i.Name, *i.Arguments)
	case typeCall:
		talk.addCall(i.Name, *i.Arguments)
		output := i.Output
		if i.Error != nil {
			output = i.Error
		}

		talk.addOutput(i.Name, *output)
	}
}

// resource is a response, in a body or in an event.
type resource struct {
	ID                 string          `json:"id"`
	Object             string          `json:"object"` // response
	CreatedAt          int64           `json:"created_at"`
	CompletedAt        *int64          `json:"completed_at"`
	Status             string          `json:"status"`
	IncompleteDetails  *incomplete     `json:"incomplete_details"`
	Model              string          `json:"model"`
	PreviousResponseID *string         `json:"previous_response_id"`
	Instructions       *string         `json:"instructions"`
	Output             []item          `json:"output"`
	Error              *responseError  `json:"error"`
	Tools              []responsesTool `json:"tools"`
	ToolChoice         string          `json:"tool_choice"`
	Usage              *responseUsage  `json:"usage"`
	Store              bool            `json:"store"`
	Metadata           wire.Metadata   `json:"metadata"`

	unused
}

// unused are the fields that have no effect, with their defaults.
type unused struct {
	Truncation        string          `json:"truncation"`
	ParallelToolCalls bool            `json:"parallel_tool_calls"`
	Text              json.RawMessage `json:"text"`
	TopP              float64         `json:"top_p"`
	PresencePenalty   float64         `json:"presence_penalty"`
	FrequencyPenalty  float64         `json:"frequency_penalty"`
	TopLogProbs       int             `json:"top_logprobs"`
	Temperature       float64         `json:"temperature"`
	Reasoning         *struct{}       `json:"reasoning"`
	MaxOutputTokens   *int64          `json:"max_output_tokens"`
	MaxToolCalls      *int64          `json:"max_tool_calls"`
	Background        bool            `json:"background"`
	ServiceTier       string          `json:"service_tier"`
	SafetyIdentifier  *string         `json:"safety_identifier"`
	PromptCacheKey    *string         `json:"prompt_cache_key"`
}

var defaults = unused{
	Truncation: "disabled", ParallelToolCalls: true, Text: json.RawMessage(`{"format":{"type":"text"}}`),
	TopP: 1, Temperature: 1, ServiceTier: "default",
}

type incomplete struct {
	Reason string `json:"reason"`
}

type responseError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// responseUsage counts the tokens of a whole run, with those of its subagents.
type responseUsage struct {
	InputTokens        int64 `json:"input_tokens"`
	OutputTokens       int64 `json:"output_tokens"`
	TotalTokens        int64 `json:"total_tokens"`
	InputTokensDetails struct {
		CachedTokens     int64 `json:"cached_tokens"`
		CacheWriteTokens int64 `json:"cache_write_tokens"`
	} `json:"input_tokens_details"`
	OutputTokensDetails struct {
		ReasoningTokens int64 `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
	Estimated bool `json:"estimated,omitempty"` // as in [wire.Usage]
}

func responseUsageOf(u wire.Usage) *responseUsage {
	chat := chatUsageOf(u)
	return &responseUsage{
		InputTokens: chat.PromptTokens, OutputTokens: chat.CompletionTokens, TotalTokens: chat.TotalTokens,
		InputTokensDetails: chat.PromptTokensDetails, OutputTokensDetails: chat.CompletionTokensDetails, Estimated: chat.Estimated,
	}
}

// complete sets lists and objects that the request does not have.
func (r *resource) complete() {
	if r.Output == nil {
		r.Output = []item{}
	}

	if r.Tools == nil {
		r.Tools = []responsesTool{}
	}

	for i := range r.Tools {
		if len(r.Tools[i].Parameters) == 0 {
			r.Tools[i].Parameters = json.RawMessage("null")
		}
	}

	if r.Metadata == nil {
		r.Metadata = wire.Metadata{}
	}
}

// finish sets the end of a run, which has an output schema if structured is set.
func (r *resource) finish(at int64, result *wire.Result, structured bool) {
	r.Status, r.CompletedAt, r.Usage = completed, &at, responseUsageOf(result.Usage)
	if structured {
		return // the output or the refusal is complete
	}

	switch result.StopReason {
	case "max_tokens", "model_context_window_exceeded":
		r.Status, r.CompletedAt, r.IncompleteDetails = "incomplete", nil, &incomplete{"max_output_tokens"}
	case stopRefusal:
		r.Status, r.CompletedAt, r.IncompleteDetails = "incomplete", nil, &incomplete{"content_filter"}
	}
}

// fail sets the failure of a run.
func (r *resource) fail(f *failure) {
	r.Status, r.Error = "failed", &responseError{Code: f.code, Message: f.message}
	if f.code == "" {
		r.Error.Code = "server_error"
	}
}
