package wire

import (
	"encoding/json"
	"slices"
	"unicode/utf8"
)

// shorten returns a copy of an event whose texts take room bytes at the most.
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
				b.Input = json.RawMessage("{}") // half an object would be none
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

// denialBytes is what a permission denial takes at the most, with its names and its reason.
const denialBytes = 1 << 10

// take returns the beginning of s that fits into room, whole runes only, and makes room smaller.
func take(s string, room *int) string {
	n := min(len(s), max(*room, 0))
	for n > 0 && n < len(s) && !utf8.RuneStart(s[n]) {
		n--
	}
	*room -= n
	return s[:n]
}
