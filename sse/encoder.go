package sse

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// keepBytes is the largest buffer that is reused for later events, so that one large event does not
// occupy its size for the rest of the connection.
const keepBytes = 64 << 10

// FieldError reports that the type or the ID of an event cannot be written. A line break in it
// would start another field, and readers ignore an ID with a NUL.
type FieldError struct {
	Field string // "event" or "id"
	Char  byte   // the first invalid character: CR, LF or NUL
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("encode event: %s field holds %q", e.Field, rune(e.Char))
}

// Append appends e in the text/event-stream format to dst and returns the extended slice. The error
// is a [*FieldError]; dst is then returned unchanged. Append does not retain e.Data.
func (e Event) Append(dst []byte) ([]byte, error) {
	if err := checkFields(&e); err != nil {
		return dst, err
	}

	dst = appendFields(dst, &e)
	if e.Data == nil && e.Type == "" && (e.ID != "" || e.Retry > 0) {
		return append(dst, '\n'), nil
	}

	if !hasBreak(e.Data) {
		dst = append(dst, "data: "...)
		dst = append(dst, e.Data...)
		return append(dst, "\n\n"...), nil
	}

	return append(appendLines(dst, "data: ", e.Data), '\n'), nil
}

// appendEventFunc is Append with the data of appendData, which can append in place after dst.
func appendEventFunc(dst []byte, e *Event, appendData func([]byte) ([]byte, error)) ([]byte, error) {
	if err := checkFields(e); err != nil {
		return dst, err
	}

	const prefix = "data: "
	out := append(slices.Grow(appendFields(dst, e), 512), prefix...)
	room := out[len(out):]
	data, err := appendData(room)
	if err != nil {
		return dst, err
	}

	if hasBreak(data) {
		// data shares memory with out, which the lines would overwrite.
		out = appendLines(out[:len(out)-len(prefix)], prefix, bytes.Clone(data))
		return append(out, '\n'), nil
	}

	if len(data) > 0 && len(data) <= cap(room) && &data[0] == &room[:1][0] {
		out = out[:len(out)+len(data)]
	} else {
		out = append(out, data...)
	}

	return append(out, "\n\n"...), nil
}

// appendComment ends the comment with an empty line, because readers that split at empty lines
// would take it as the start of the next event.
func appendComment(dst []byte, text string) []byte {
	return append(appendLines(dst, ": ", text), '\n')
}

func checkFields(e *Event) error {
	const invalid = "\r\n\x00"
	if i := strings.IndexAny(e.Type, invalid); i >= 0 {
		return &FieldError{Field: "event", Char: e.Type[i]}
	}

	if i := strings.IndexAny(e.ID, invalid); i >= 0 {
		return &FieldError{Field: "id", Char: e.ID[i]}
	}

	return nil
}

// appendFields appends the fields before the data. A space always follows the colon, so that
// leading spaces of a value are preserved: readers remove one space.
func appendFields(dst []byte, e *Event) []byte {
	if e.Type != "" {
		dst = append(dst, "event: "...)
		dst = append(dst, e.Type...)
		dst = append(dst, '\n')
	}

	if e.ID != "" {
		dst = append(dst, "id: "...)
		dst = append(dst, e.ID...)
		dst = append(dst, '\n')
	}

	if e.Retry > 0 {
		dst = append(dst, "retry: "...)
		dst = strconv.AppendInt(dst, max(1, int64(e.Retry/time.Millisecond)), 10)
		dst = append(dst, '\n')
	}

	return dst
}

func hasBreak(data []byte) bool {
	return bytes.IndexByte(data, '\n') >= 0 || bytes.IndexByte(data, '\r') >= 0
}

// appendLines appends each line of text after prefix. It reads every byte once: two searches per
// line would be quadratic if only one of the two line ends occurs.
func appendLines[T string | []byte](dst []byte, prefix string, text T) []byte {
	start := 0
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c != '\n' && c != '\r' {
			continue
		}

		dst = append(dst, prefix...)
		dst = append(dst, text[start:i]...)
		dst = append(dst, '\n')
		if c == '\r' && i+1 < len(text) && text[i+1] == '\n' {
			i++
		}

		start = i + 1
	}

	dst = append(dst, prefix...)
	dst = append(dst, text[start:]...)
	return append(dst, '\n')
}
