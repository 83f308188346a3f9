package chat

import (
	"encoding/json"

	"github.com/seed93082962/agenthost/hub/api"
)

// NoticeMode states where the text of a [Label] appears.
type NoticeMode string

// Values of NoticeMode.
const (
	NoticeOff     NoticeMode = "off"
	NoticeHint    NoticeMode = "hint"    // only as aigcNotice of the first event
	NoticeAppend  NoticeMode = "append"  // as a block of text after the answer
	NoticePrepend NoticeMode = "prepend" // as a block of text before the answer
)

// Label labels one answer as generated content. The zero value labels nothing.
type Label struct {
	Implicit json.RawMessage // the label object; nil for none
	Mode     NoticeMode      // Defaults to NoticeOff.
	Notice   string          // the text that users see
}

// hint returns the notice if it appears only as a hint.
func (l Label) hint() string {
	if l.Mode == NoticeHint {
		return l.Notice
	}
	return ""
}

// block returns the notice that is a part of the answer, and its place.
func (l Label) block() (notice string, at NoticeMode) {
	if l.Notice != "" && (l.Mode == NoticeAppend || l.Mode == NoticePrepend) {
		return l.Notice, l.Mode
	}
	return "", ""
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
	Type     string     `json:"type"` // hub.notice
	Position NoticeMode `json:"position"`
	Text     string     `json:"text"`
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
