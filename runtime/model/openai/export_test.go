package openai

import (
	"encoding/json"

	"github.com/seed93082962/agenthost/runtime/model"
)

// ScanChunk is the scanner that must agree with encoding/json.
var ScanChunk = scanChunk

// DecodeChunk reads the same by encoding/json alone, and reports false where there is anything
// beside one increment of text or thinking.
func DecodeChunk(data []byte) (kind model.Kind, increment string, ok bool) {
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil || len(c.Choices) != 1 || c.Usage != nil ||
		len(c.Error) > 0 && string(c.Error) != "null" {
		return 0, "", false
	}
	first := &c.Choices[0]
	if first.Index != 0 || first.FinishReason != "" {
		return 0, "", false
	}
	var d decoder
	parts, err := d.choice(nil, first)
	if err != nil || len(parts) != 1 || first.Delta.Refusal != "" {
		return 0, "", false
	}
	return parts[0].Kind, parts[0].Text, true
}

// ScanWhole is the other scanner that must agree with encoding/json.
func ScanWhole(data []byte) (any, bool) {
	var c chunk
	ok := scanWhole(data, &c)
	return c, ok
}

// DecodeWhole reads the same by encoding/json alone.
func DecodeWhole(data []byte) (any, error) {
	var c chunk
	err := json.Unmarshal(data, &c)
	if len(c.Choices) == 0 {
		c.Choices = nil
	}
	for i := range c.Choices {
		if d := &c.Choices[i].Delta; len(d.ToolCalls) == 0 {
			d.ToolCalls = nil
		}
	}
	if string(c.Error) == "null" {
		c.Error = nil
	}
	return c, err
}
