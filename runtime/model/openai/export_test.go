package openai

import (
	"encoding/json"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/internal/upstream"
	"github.com/seed93082962/agenthost/sse"
)

// ScanChunk is the scanner that must agree with encoding/json.
func ScanChunk(data []byte) (kind model.PartKind, increment string, ok bool) {
	inc, ok := scanChunk(data)
	parts := new(upstream.Joiner).Append(nil, inc.kind, inc.index(), inc.text)
	if !ok || len(parts) != 1 {
		return 0, "", false
	}
	return inc.kind, parts[0].Text, true
}

// DecodeChunk is like ScanChunk, but uses only encoding/json. It reports false for any content
// other than one increment of text or thinking.
func DecodeChunk(data []byte) (kind model.PartKind, increment string, ok bool) {
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil || len(c.Choices) != 1 || c.Usage != nil || upstream.FaultIn(sse.Event{Data: data}) != nil {
		return 0, "", false
	}
	first := &c.Choices[0]
	if first.Index != 0 || first.FinishReason != "" || first.Delta == nil {
		return 0, "", false
	}
	d := decoder{field: "known"}
	parts, err := d.appendChoice(nil, first)
	if err != nil || len(parts) != 1 || first.Delta.Refusal != "" {
		return 0, "", false
	}
	return parts[0].Kind, parts[0].Text, true
}

// Decode decodes the data of events, with the scanner or only with encoding/json.
func Decode(events []string, scanners bool) ([]model.Part, error) {
	var parts []model.Part
	var err error
	d := &decoder{calls: calls{ids: upstream.NewCallIDs(nil)}}
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
