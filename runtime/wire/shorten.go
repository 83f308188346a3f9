package wire

import (
	"encoding/json"
	"slices"

	"github.com/seed93082962/agenthost/internal/excerpt"
)

// shorten returns a copy of an event whose texts have at most room bytes.
func shorten(p Payload, room int) Payload {
	switch p := p.(type) {
	case *Assistant:
		short := *p
		short.Truncated = true
		short.Message.Content = slices.Clone(p.Message.Content)
		for i := range short.Message.Content {
			b := &short.Message.Content[i]
			b.Text = take(b.Text, &room)
			b.Thinking = take(b.Thinking, &room)
			if len(b.Input) > room {
				b.Input = json.RawMessage("{}") // a truncated object is not valid
			}
			room -= len(b.Input)
		}
		return &short
	case *Result:
		short := *p
		short.Truncated = true
		if p.Result != nil {
			text := take(*p.Result, &room)
			short.Result = &text
		}
		short.Errors = slices.Clone(p.Errors)
		for i := range short.Errors {
			short.Errors[i] = take(short.Errors[i], &room)
		}
		short.PermissionDenials = p.PermissionDenials[:min(len(p.PermissionDenials), room/denialBytes)]
		return &short
	case *ToolResult:
		short := *p
		short.Result.Truncated = true
		short.Result.Output = take(p.Result.Output, &room)
		return &short
	default:
		return p
	}
}

// denialBytes is an upper limit for the size of a permission denial.
const denialBytes = 1 << 10

// take returns the longest prefix of s that fits into room, and subtracts its length from room.
func take(s string, room *int) string {
	head := excerpt.Head(s, *room)
	*room -= len(head)
	return head
}
