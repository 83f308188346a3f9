package mcp

import (
	"encoding/json"
	"fmt"
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxRepaired is the number of content blocks of a result that is repaired. Each block that cannot
// be decoded takes about 20 µs.
const maxRepaired = 1000

// readable returns the result of a call with a line of text for each content block that the SDK
// cannot decode, such as an image with invalid base64. The SDK would discard the whole result, and
// the model would call the tool again. A result with more than maxRepaired blocks is unchanged.
func readable(result json.RawMessage) json.RawMessage {
	if decodes(result) {
		return result
	}
	var fields map[string]json.RawMessage
	var content []json.RawMessage
	if json.Unmarshal(result, &fields) != nil || json.Unmarshal(fields["content"], &content) != nil || len(content) > maxRepaired {
		return result
	}
	for i, block := range content {
		if !decodes(fmt.Appendf(nil, `{"content":[%s]}`, block)) {
			content[i] = fmt.Appendf(nil, `{"type":"text","text":"[%s that cannot be decoded]"}`, kind(block))
		}
	}
	fields["content"], _ = json.Marshal(content) //nolint:errcheck // each block is valid JSON
	repaired, err := json.Marshal(fields)
	if err != nil || !decodes(repaired) {
		return result
	}
	return repaired
}

// decodes reports whether the SDK decodes the result of a call. It panics on some results.
func decodes(result []byte) (ok bool) {
	defer func() { ok = recover() == nil && ok }()
	return json.Unmarshal(result, new(sdk.CallToolResult)) == nil
}

// kind returns the type of a content block if it is one of the protocol.
func kind(block json.RawMessage) string {
	var b struct{ Type string }
	if json.Unmarshal(block, &b) == nil && slices.Contains([]string{"text", "image", "audio", "resource"}, b.Type) {
		return b.Type
	}
	return "content"
}
