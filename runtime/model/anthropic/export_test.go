package anthropic

import (
	"encoding/json"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/internal/upstream"
	"github.com/seed93082962/agenthost/sse"
)

// ScanDelta is the scanner that must agree with encoding/json.
func ScanDelta(data []byte) (kind model.PartKind, index int, text string, ok bool) {
	inc, ok := scanIncrement(data)
	return inc.kind, inc.index, inc.text, ok
}

// DecodeDelta is like ScanDelta, but uses only encoding/json.
func DecodeDelta(data []byte) (kind model.PartKind, index int, increment string, ok bool) {
	var e event
	if err := json.Unmarshal(data, &e); err != nil || e.Type != "content_block_delta" {
		return 0, 0, "", false
	}
	switch e.Delta.Type {
	case "text_delta":
		return model.KindText, int(e.Index), string(e.Delta.Text), true
	case "thinking_delta":
		return model.KindThinking, int(e.Index), string(e.Delta.Thinking), true
	case "input_json_delta":
		return model.KindToolInput, int(e.Index), string(e.Delta.PartialJSON), true
	}
	return 0, 0, "", false
}

// Decode decodes the data of events, with the scanner or only with encoding/json.
func Decode(events []string, scanners bool) ([]model.Part, error) {
	var parts []model.Part
	var err error
	d := &decoder{ids: upstream.NewCallIDs(nil)}
	for _, data := range events {
		ev := sse.Event{Data: []byte(data)}
		if scanners {
			parts, err = d.Decode(parts, ev)
		} else {
			parts, err = d.decodeAny(parts, ev)
		}
		if err != nil {
			return parts, err
		}
	}
	return d.End(parts), nil
}
