package relay

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/client"
	runtimewire "github.com/seed93082962/agenthost/runtime/wire"
)

// Wait is what an answer waits for, as it is stored.
type Wait struct {
	Calls []Call `json:"calls"`

	// Those of the request, for the run that continues the answer.
	Inputs      []string                 `json:"inputs,omitempty"`
	ClientTools []runtimewire.ClientTool `json:"clientTools,omitempty"`
}

// Call is a call or a question that waits.
type Call struct {
	runtimewire.Pending

	Answered *Answered `json:"answered,omitempty"` // while others are missing
}

// Answered is an answer with who gave it.
type Answered struct {
	runtimewire.Answer

	UserID   string    `json:"userId"`
	UserName string    `json:"userName"`
	At       wire.Time `json:"at"`
}

// WaitOf decodes a stored Wait.
func WaitOf(text string) (Wait, error) {
	var w Wait
	if err := json.Unmarshal([]byte(text), &w); err != nil {
		return w, fmt.Errorf("decode what an answer waits for: %w", err)
	}

	return w, nil
}

// Encode returns the stored form.
func (w Wait) Encode() (string, error) {
	text, err := json.Marshal(w)
	if err != nil {
		return "", fmt.Errorf("encode what an answer waits for: %w", err)
	}

	return string(text), nil
}

// Pending returns the calls and questions without a decision.
func (w Wait) Pending() []runtimewire.Pending {
	var all []runtimewire.Pending
	for _, c := range w.Calls {
		if c.Answered == nil {
			all = append(all, c.Pending)
		}
	}

	return all
}

// Without returns w without some answers.
func (w Wait) Without(answers []runtimewire.Answer) Wait {
	w.Calls = slices.Clone(w.Calls)
	for i, c := range w.Calls {
		if slices.ContainsFunc(answers, func(a runtimewire.Answer) bool { return a.ID == c.ID }) {
			w.Calls[i].Answered = nil
		}
	}

	return w
}

// Digest returns the SHA-256 of what a call executes, in hexadecimal.
func Digest(executed string) string {
	sum := sha256.Sum256([]byte(executed))
	return hex.EncodeToString(sum[:])
}

// AnswerDigest returns the SHA-256 of an answer and who gave it, in hexadecimal.
func AnswerDigest(userID string, answer runtimewire.Answer) string {
	text, _ := json.Marshal(answer) // it was JSON
	return Digest(userID + "\n" + string(text))
}

// callsOf returns what a runtime waits for. A runtime is not trusted: what has no id or an unknown
// kind cannot be answered.
func callsOf(pending []runtimewire.Pending) []Call {
	var all []Call
	for _, p := range pending {
		known := p.Kind == runvalue.InputApproval || p.Kind == runvalue.InputClientTool || p.Kind == runvalue.InputQuestion
		twice := slices.ContainsFunc(all, func(c Call) bool { return c.ID == p.ID })
		if !known || twice || !ids.Plain(p.ID, maxWaitID) || len(all) == runvalue.MaxPending {
			continue
		}

		p.ToolName, p.ToolUseID, p.Server = Clean(p.ToolName), Clean(p.ToolUseID), Clean(p.Server)
		if p.Input == nil {
			p.Input = json.RawMessage("{}")
		}

		all = append(all, Call{Pending: p})
	}

	return all
}

const maxWaitID = 128 // characters

// Former is the part of an answer that a run continues, as it is stored.
type Former struct {
	Text     string
	Content  string
	Answered string // the content with the blocks of the answers
	Model    string
	Usage    runtimewire.Usage
	Pending  string // is restored with the content if the runtime certainly does not accept the run

	Unanswered string // is restored instead if the runtime rejects one of the answers, which may be a former one
}

// Resume makes the run one that continues an answer, in the transaction of [Start].Store, after
// [Answer.Reserve].
func (a *Answer) Resume(f Former) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.resumed = &f
	a.text.text, a.text.blocks, a.text.count = []byte(f.Text), inner([]byte(f.Answered)), 1
	a.text.model = f.Model
}

// total returns the tokens of all runs of the answer.
func (a *Answer) total() runtimewire.Usage {
	if a.resumed == nil {
		return a.recorded.Tokens
	}

	return a.resumed.Usage.Add(a.recorded.Tokens)
}

// waits returns what an answer that has ended waits for, and its stored form, which is that of
// before if the runtime did not accept the run.
func (a *Answer) waits() (Wait, string, error) {
	if a.end.Status != StatusWaiting {
		return Wait{}, "", nil
	}

	if len(a.text.waits) == 0 {
		w, err := WaitOf(a.resumed.Pending)
		return w, a.resumed.Pending, err
	}

	w := Wait{Calls: a.text.waits, Inputs: a.inputs, ClientTools: a.tools}
	text, err := w.Encode()
	return w, text, err
}

// answeredBlock returns the block of an answer.
func answeredBlock(by Answered, c Call) systemBlock {
	decision := cmp.Or(by.Decision, by.Action, runvalue.DecisionOutput)
	if by.IsError {
		decision = runvalue.DecisionError
	}

	return systemBlock{
		Type: runvalue.SystemAnswered, ToolName: c.ToolName, ToolUseID: c.ToolUseID, Kind: c.Kind, Decision: decision,
		UserID: by.UserID, UserName: by.UserName, AnsweredAt: by.At.Format(time.RFC3339Nano), Reason: excerpt.Head(by.Reason, maxFailure),
	}
}

// wroteInstead is the reason of a rejection by a message.
const wroteInstead = "The user wrote a message instead."

// Reject returns w with a rejection of each call, by a message.
func (w Wait) Reject(by Answered) Wait {
	w.Calls = slices.Clone(w.Calls)
	for i, c := range w.Calls {
		by.Decision, by.Action, by.Reason = runvalue.DecisionReject, "", wroteInstead
		if c.Kind == runvalue.InputQuestion {
			by.Decision, by.Action, by.Reason = "", runvalue.ActionCancel, ""
		}

		w.Calls[i].Answered = new(by)
	}

	return w
}

// blocksOf returns the blocks of a stored text and content, separated by commas.
func blocksOf(text, content string) []byte {
	if content == "" {
		return TextBlock(text)
	}

	return inner([]byte(content))
}

// Content returns the content of an answer with who has answered what of w.
func (w Wait) Content(text, content string) string {
	blocks := [][]byte{blocksOf(text, content)}
	for _, c := range w.Calls {
		if c.Answered != nil {
			block, _ := encodeBlock(answeredBlock(*c.Answered, c)) // texts have a JSON
			blocks = append(blocks, block)
		}
	}

	return string(Array(blocks...))
}

// notResumed completes an answer whose run the runtime did not accept, with the error e of the
// response. The answer waits as before, unless the runtime no longer does.
func (a *Answer) notResumed(e *wire.Error, failure *client.Error) error {
	end := Ending{Status: StatusWaiting}
	switch {
	case failure == nil:
	case errors.Is(failure, client.ErrUnknownSession):
		e.Code, e.Message = wire.Conflict, "The runtime of the agent no longer has this conversation, and what waited is dropped: send a message, which continues from the messages that the hub has."
		end = failed(kindRejected, e.Code, e.Message)
	case failure.Body.Error == runvalue.NotWaiting:
		e.Code, e.Message = wire.Conflict, "The runtime of the agent no longer waits for this, and the outcome is unknown: send a message to continue."
		end = failed(kindRejected, e.Code, e.Message)
	case failure.Body.Error == runvalue.CallChanged:
		e.Code, e.Message = wire.Conflict, "The call can no longer be executed as it was shown: reject it. "+Clean(excerpt.Head(failure.Body.Reason, maxFailure))
		a.resumed.Pending = a.resumed.Unanswered
	case failure.Status == http.StatusBadRequest:
		e.Code, e.Message = wire.InvalidRequest, "The runtime of the agent rejected the answers: "+Clean(excerpt.Head(failure.Body.Error, maxFailure))
		a.resumed.Pending = a.resumed.Unanswered
	}

	a.reported = end.Status == StatusWaiting // it has no event with an error
	if err := a.complete(end); err != nil {
		return err
	}

	return e
}
