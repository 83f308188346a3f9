package anthropic

import (
	"encoding/json"

	"github.com/seed93082962/agenthost/runtime/model"
)

// ScanDelta is the scanner that must agree with encoding/json.
var ScanDelta = scanDelta

// DecodeDelta reads the same by encoding/json alone.
func DecodeDelta(data []byte) (kind model.Kind, index int, increment string, ok bool) {
	var e event
	if err := json.Unmarshal(data, &e); err != nil || e.Type != "content_block_delta" {
		return 0, 0, "", false
	}
	switch e.Delta.Type {
	case "text_delta":
		return model.KindText, e.Index, e.Delta.Text, true
	case "thinking_delta":
		return model.KindThinking, e.Index, e.Delta.Thinking, true
	case "input_json_delta":
		return model.KindToolInput, e.Index, e.Delta.PartialJSON, true
	}
	return 0, 0, "", false
}

// ScanEvent is the other scanner that must agree with encoding/json.
func ScanEvent(data []byte) (any, bool) {
	var e event
	ok := scanEvent(data, &e)
	return e, ok
}

// DecodeEvent reads the same by encoding/json alone.
func DecodeEvent(data []byte) (any, error) {
	var e event
	err := json.Unmarshal(data, &e)
	return e, err
}
