package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/internal/httpapi"
	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// inputItems is the input of a response: a text of the user, or items.
type inputItems []inputItem

// inputItem is one item. Its type says which fields it has.
type inputItem struct {
	Type    string  `json:"type"`
	ID      string  `json:"id"`
	Role    string  `json:"role"`
	Content content `json:"content"`

	CallID    string  `json:"call_id"`
	Name      string  `json:"name"`
	Arguments string  `json:"arguments"`
	Output    content `json:"output"`

	ApprovalRequestID string `json:"approval_request_id"`
	Approve           bool   `json:"approve"`
	Reason            string `json:"reason"`

	EncryptedContent string `json:"encrypted_content"`
}

// UnmarshalJSON decodes a string or an array of items.
func (in *inputItems) UnmarshalJSON(data []byte) error {
	if data[0] != '"' {
		return jsonlimit.Unmarshal(data, (*[]inputItem)(in))
	}

	var text string
	err := json.Unmarshal(data, &text)
	*in = inputItems{{Type: "message", Role: runvalue.RoleUser, Content: content{text: text}}}
	return err
}

// typeReference is the type of an item that stands for one of a stored response.
const typeReference = "item_reference"

// resolve replaces references by the items that they name, of stored responses.
func (s *server) resolve(ctx context.Context, req *responsesRequest, memory *httpapi.Memory) error {
	responses := map[responseID]*resource{}
	for i := range req.Input {
		if req.Input[i].Type != typeReference {
			continue
		}

		id, ok := parseItemID(req.Input[i].ID)
		if !ok {
			return noItem(i)
		}

		if responses[id] == nil {
			found, err := s.load(ctx, id, memory)
			if errors.Is(err, errNoResponse) {
				return noItem(i)
			}

			if err != nil {
				return err
			}

			responses[id] = found
		}

		j := slices.IndexFunc(responses[id].Output, func(o item) bool { return o.ID == req.Input[i].ID })
		if j < 0 {
			return noItem(i)
		}

		req.Input[i] = responses[id].Output[j].asInput()
	}

	return nil
}

func noItem(i int) error {
	return invalid(fmt.Sprintf("input[%d]", i), "has the id of an item that is not stored")
}

// parseItemID returns the response of an item, by the id that nextID has made.
func parseItemID(text string) (responseID, bool) {
	_, rest, _ := strings.Cut(text, "_")
	if len(rest) <= shortDigits {
		return responseID{}, false
	}

	_, session, _ := strings.Cut(rest[shortDigits:], "_")
	id := responseID{run: parseShortID(rest[:shortDigits]), session: parseShortID(session)}
	return id, id.run != "" && id.session != ""
}

// asInput returns the item as one of a request.
func (i *item) asInput() inputItem {
	in := inputItem{Type: i.Type, Role: i.Role, CallID: i.CallID, Name: i.Name}
	if i.Type == typeMessage {
		in.Content.text = i.said()
	}

	if i.Arguments != nil {
		in.Arguments = *i.Arguments
	}

	return in
}

// input is what a request adds to a conversation.
type input struct {
	talk  conversation // everything
	said  conversation // what the user says after the last item of the assistant: one turn, or none
	mixed bool         // it has items of the assistant

	// Results and decisions after the last item of the assistant, and the session that waits for them.
	// There are none if they are not those of one session.
	session string
	answers []wire.Answer
	foreign bool

	orphan string // the id of a call that is not in the input, and whose output is
}

// read returns the input of a valid request.
func (req *responsesRequest) read() (input, error) {
	var in input
	if req.Instructions != "" {
		in.say(instructions + req.Instructions)
	}

	names := map[string]string{} // of tools by the id of a call
	for i := range req.Input {
		if err := in.add(&req.Input[i], names); err != nil {
			return in, invalid(fmt.Sprintf("input[%d]", i), err.Error())
		}
	}

	if in.foreign {
		in.answers = nil
	}

	return in, nil
}

// say adds a message of the user.
func (in *input) say(text string, parts ...wire.ContentPart) {
	in.talk.add(runvalue.RoleUser, text, parts...)
	in.said.add(runvalue.RoleUser, text, parts...)
}

// respond begins an item of the assistant.
func (in *input) respond() {
	in.said, in.session, in.answers = nil, "", nil
	in.mixed, in.foreign = true, false
}

func (in *input) add(item *inputItem, names map[string]string) error {
	switch item.Type {
	case "message", "":
		return in.addMessage(item)
	case typeFunction:
		in.respond()
		names[item.CallID] = item.Name
		in.talk.addCall(item.Name, item.Arguments)
	case "function_call_output":
		output, err := item.Output.textOnly()
		if err != nil {
			return fmt.Errorf("has an output that %w", err)
		}

		in.answer(item.CallID, wire.Answer{Output: &output})
		name, known := names[item.CallID]
		if !known {
			name, in.orphan = item.CallID, item.CallID
		}

		in.talk.addOutput(name, output)
	case "mcp_approval_response":
		in.decide(item)
	case "mcp_call", "mcp_approval_request":
		in.respond()
	case typeCompaction:
		text, err := parseCompaction(item.EncryptedContent)
		if err != nil {
			return err
		}

		in.say(summaryHeading + text)
	case "reasoning", "mcp_list_tools": // the agent has its own
	default:
		return fmt.Errorf("has the type %q, which is not supported", item.Type)
	}

	return nil
}

func (in *input) addMessage(item *inputItem) error {
	if item.Role == runvalue.RoleUser {
		in.say(item.Content.text, item.Content.parts...)
		return nil
	}

	text, err := item.Content.textOnly()
	if err != nil {
		return fmt.Errorf("has the role %q, whose content %w", item.Role, err)
	}

	switch item.Role {
	case "system", "developer":
		if text != "" {
			in.say(instructions + text)
		}
	case runvalue.RoleAssistant:
		in.respond()
		in.talk.add(runvalue.RoleAssistant, text)
	default:
		return fmt.Errorf("has the role %q", item.Role)
	}

	return nil
}

// decide adds the decision on a call of the agent.
func (in *input) decide(item *inputItem) {
	a := wire.Answer{Decision: runvalue.DecisionApprove}
	text := "I approve the call."
	if !item.Approve {
		a.Decision, a.Reason = runvalue.DecisionReject, item.Reason
		text = "I reject the call. " + item.Reason
	}

	in.answer(item.ApprovalRequestID, a)
	in.talk.add(runvalue.RoleUser, text)
}

// answer adds the answer to a call or an approval request with this id.
func (in *input) answer(id string, a wire.Answer) {
	session, pending := parseCallID(id)
	in.foreign = in.foreign || session == "" || len(in.answers) > 0 && session != in.session
	a.ID, in.session = pending, session
	in.answers = append(in.answers, a)
}
