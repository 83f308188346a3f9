package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// chatRequest is the body of POST /chat/completions, without the fields that are ignored.
type chatRequest struct {
	Model         string        `json:"model"`
	Messages      []chatMessage `json:"messages"`
	Stream        bool          `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Metadata       wire.Metadata `json:"metadata"`
	Store          *bool         `json:"store"` // see Config.Retains
	Tools          []chatTool    `json:"tools"`
	ToolChoice     toolChoice    `json:"tool_choice"`
	ResponseFormat chatFormat    `json:"response_format"`

	// Of the user of the client, whose conversations are not those of another one. Of any type.
	User             json.RawMessage `json:"user"`
	SafetyIdentifier json.RawMessage `json:"safety_identifier"`

	// Rejected, unless they have their default.
	N                *int            `json:"n"`
	LogProbs         bool            `json:"logprobs"`
	Modalities       []string        `json:"modalities"`
	Stop             json.RawMessage `json:"stop"`
	Functions        json.RawMessage `json:"functions"`
	Audio            json.RawMessage `json:"audio"`
	WebSearchOptions json.RawMessage `json:"web_search_options"`
}

type chatMessage struct {
	Role       string     `json:"role"`
	Content    content    `json:"content"`
	Refusal    string     `json:"refusal"`
	ToolCalls  []chatCall `json:"tool_calls"`
	ToolCallID string     `json:"tool_call_id"`
}

// chatCall is a call of a client tool, in requests and responses.
type chatCall struct {
	Index    *int         `json:"index,omitempty"` // only in a chunk
	ID       string       `json:"id"`
	Type     string       `json:"type"` // function
	Function chatFunction `json:"function"`
}

type chatFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"` // JSON
}

type chatTool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	} `json:"function"`
}

// toolChoice is the choice of client tools. Only its mode is used.
type toolChoice string

// UnmarshalJSON decodes the name of a mode. An object requires a call.
func (c *toolChoice) UnmarshalJSON(data []byte) error {
	if data[0] == '{' {
		*c = "required"
		return nil
	}

	return jsonlimit.Unmarshal(data, (*string)(c))
}

// check rejects what a client may not set: values with which the response would have another form.
func (req *chatRequest) check() error {
	switch {
	case req.Model == "":
		return invalid("model", "is required: the id of an agent")
	case len(req.Messages) == 0:
		return invalid("messages", "must not be empty")
	case req.N != nil && *req.N != 1:
		return unsupported("n", "a run has one response")
	case req.LogProbs:
		return unsupported("logprobs", "runs have none")
	case len(req.Modalities) > 0 && !slices.Equal(req.Modalities, []string{"text"}):
		return unsupported("modalities", "a response has text")
	case given(req.Stop) && string(req.Stop) != "[]":
		return unsupported("stop", "the agent decides where a response ends")
	case given(req.Functions) && string(req.Functions) != "[]":
		return unsupported("functions", "use tools")
	case given(req.Audio):
		return unsupported("audio", "a response has text")
	case given(req.WebSearchOptions):
		return unsupported("web_search_options", "the tools are those of the agent")
	}

	return req.ToolChoice.check()
}

func (c toolChoice) check() error {
	switch c {
	case "", "auto", "none":
		return nil
	}

	return unsupported("tool_choice", "it must be auto or none, the model decides which tools it calls")
}

// clientTools returns the tools of the request as those of a run.
func (req *chatRequest) clientTools() ([]wire.ClientTool, error) {
	if req.ToolChoice == "none" {
		return nil, nil
	}

	var list []wire.ClientTool
	for i, t := range req.Tools {
		if t.Type != "function" {
			return nil, unsupported(fmt.Sprintf("tools[%d]", i), "its type must be function")
		}

		tool := wire.ClientTool{Name: t.Function.Name, Description: t.Function.Description}
		if given(t.Function.Parameters) {
			tool.InputSchema = t.Function.Parameters
		}

		list = append(list, tool)
	}

	return list, nil
}

// chatRun is a request as a run.
type chatRun struct {
	// fresh executes the whole conversation of the request, in a session of its own.
	fresh wire.RunRequest

	// answering continues the session that waits for the results at the end of the conversation. It is
	// nil if there are none.
	answering *wire.RunRequest

	talk conversation // of the request
	user string       // of the client, or ""
}

// run returns the run of a valid request.
func (req *chatRequest) run() (chatRun, error) {
	tools, err := req.clientTools()
	if err != nil {
		return chatRun{}, err
	}

	schema, err := req.ResponseFormat.outputSchema()
	if err != nil {
		return chatRun{}, err
	}

	var talk conversation
	names := map[string]string{} // of tools by the id of a call
	for i := range req.Messages {
		if err := req.Messages[i].appendTo(&talk, names); err != nil {
			return chatRun{}, invalid(fmt.Sprintf("messages[%d]", i), err.Error())
		}
	}

	history, last, err := talk.split("messages")
	if err != nil {
		return chatRun{}, err
	}

	stored := len(tools) > 0
	run := wire.RunRequest{
		Message: last.Content, Content: last.Parts, History: history, Store: &stored, Stream: wire.StreamOff, Metadata: req.Metadata,
		OutputSchema: schema,
	}
	if req.Stream {
		run.Stream = wire.StreamRaw
	}

	if stored {
		run.Inputs, run.ClientTools = []string{runvalue.InputClientTool}, tools
	}

	out := chatRun{fresh: run, talk: talk, user: req.endUser()}
	if session, answers := req.answers(); len(answers) > 0 {
		out.answering = &wire.RunRequest{
			SessionID: &session, Answers: answers, Stream: run.Stream, Metadata: run.Metadata, Inputs: run.Inputs, ClientTools: run.ClientTools,
			OutputSchema: schema,
		}
	}

	return out, nil
}

// endUser returns what identifies the user of the client, or "".
func (req *chatRequest) endUser() string {
	if !given(req.User) && !given(req.SafetyIdentifier) {
		return ""
	}

	user, _ := json.Marshal([]json.RawMessage{req.User, req.SafetyIdentifier}) // they were JSON
	return string(user)
}

// appendTo appends the message to a conversation.
func (m *chatMessage) appendTo(talk *conversation, names map[string]string) error {
	if m.Role == runvalue.RoleUser {
		talk.add(runvalue.RoleUser, m.Content.text, m.Content.parts...)
		return nil
	}

	text, err := m.Content.textOnly()
	if err != nil {
		return fmt.Errorf("has the role %q, whose content %w", m.Role, err)
	}

	switch m.Role {
	case "system", "developer":
		if text != "" {
			text = instructions + text
		}

		talk.add(runvalue.RoleUser, text)
	case runvalue.RoleAssistant:
		if text == "" { // otherwise, a refusal states what the agent may not do
			text = m.Refusal
		}

		talk.add(runvalue.RoleAssistant, text)
		for _, call := range m.ToolCalls {
			if call.Type != "function" && call.Type != "" {
				return fmt.Errorf("has a call of the type %q", call.Type)
			}

			names[call.ID] = call.Function.Name
			talk.addCall(call.Function.Name, call.Function.Arguments)
		}
	case "tool":
		name, ok := names[m.ToolCallID]
		if !ok {
			return errors.New("has the result of a call that is not in the messages before it")
		}

		talk.addOutput(name, text)
	default:
		return fmt.Errorf("has the role %q", m.Role)
	}

	return nil
}

// answers returns the results at the end of the messages, if all of them are those of one session.
func (req *chatRequest) answers() (sessionID string, answers []wire.Answer) {
	for i := len(req.Messages) - 1; i >= 0 && req.Messages[i].Role == "tool"; i-- {
		session, id := parseCallID(req.Messages[i].ToolCallID)
		if session == "" || len(answers) > 0 && session != sessionID {
			return "", nil
		}

		output := req.Messages[i].Content.text
		sessionID = session
		answers = append(answers, wire.Answer{ID: id, Output: &output})
	}

	return sessionID, answers
}
