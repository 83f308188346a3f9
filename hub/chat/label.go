package chat

import (
	"encoding/json"

	"github.com/seed93082962/agenthost/hub/aigc"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/sse"
)

// mark labels the answer.
func (a *Answer) mark(m aigc.Marker) (err error) {
	a.assistant.AIGC, err = json.Marshal(m.Label)
	switch m.Mode {
	case aigc.ModeHint:
		a.hint = m.Text
	case aigc.ModeAppend, aigc.ModePrepend:
		a.assistant.Notice, a.assistant.NoticeAt = m.Text, m.Mode
	case aigc.ModeOff:
	}
	return err
}

// notice returns the event of a notice that is a part of the answer. ok is false if the answer has
// none in this place.
func (a *Answer) notice(at aigc.Mode) (_ sse.Event, ok bool) {
	m := a.assistant
	return event(hubEvent, noticeEvent{"hub.notice", m.NoticeAt, m.Notice}), m.Notice != "" && m.NoticeAt == at
}

// firstEvent is the first event of an answer.
type firstEvent struct {
	Type               string          `json:"type"` // hub
	SessionID          string          `json:"sessionId"`
	UserMessageID      string          `json:"userMessageId"`
	AssistantMessageID string          `json:"assistantMessageId"`
	AIGC               json.RawMessage `json:"aigc,omitempty"`
	AIGCNotice         string          `json:"aigcNotice,omitempty"`
}

// noticeEvent is the notice that is a part of the answer.
type noticeEvent struct {
	Type     string    `json:"type"` // hub.notice
	Position aigc.Mode `json:"position"`
	Text     string    `json:"text"`
}

// savedEvent reports that the answer is stored.
type savedEvent struct {
	Type      string          `json:"type"` // hub.saved
	MessageID string          `json:"messageId"`
	Status    string          `json:"status"`
	Usage     Usage           `json:"usage"`
	AIGC      json.RawMessage `json:"aigc,omitempty"`
}

// faultEvent has the form of the runtime's error event. It reports an answer that the hub ended.
type faultEvent struct {
	Type      string   `json:"type"` // error
	Error     string   `json:"error"`
	ErrorType api.Code `json:"errorType"`
	RunID     string   `json:"runId"`
}
