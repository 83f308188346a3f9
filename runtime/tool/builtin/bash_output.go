package builtin

import (
	"bytes"
	"fmt"
	"slices"
	"unicode/utf8"
)

// headTail keeps the beginning and the end of what is written to it, as text: bytes that are no UTF-8, and null bytes,
// become U+FFFD. Memory is bounded by room.
type headTail struct {
	room int // bytes of text to keep, before the line that tells of a cut

	head    []byte // at most half of room
	tail    []byte // the rest; when it is full a ring
	at      int    // where in a full tail the oldest byte is
	total   int64  // bytes of text written
	partial []byte // a rune that has begun, of fewer bytes than utf8.UTFMax
}

func (h *headTail) Write(p []byte) (int, error) {
	n := len(p)
	if len(h.partial) > 0 {
		p = append(h.partial, p...)
	}
	whole := wholeRunes(p)
	h.keep(p[:whole])
	h.partial = bytes.Clone(p[whole:])
	return n, nil
}

func (h *headTail) keep(p []byte) {
	if !utf8.Valid(p) || bytes.IndexByte(p, 0) >= 0 {
		p = bytes.ReplaceAll(bytes.ToValidUTF8(p, []byte("\uFFFD")), []byte{0}, []byte("\uFFFD"))
	}
	h.total += int64(len(p))
	half := h.room / 2
	n := min(half-len(h.head), len(p))
	h.head = append(h.head, p[:n]...)
	p = p[n:]
	size := h.room - half
	p = p[max(0, len(p)-size):]
	n = min(size-len(h.tail), len(p))
	h.tail = append(h.tail, p[:n]...)
	for p = p[n:]; len(p) > 0; p = p[n:] {
		n = copy(h.tail[h.at:], p)
		h.at = (h.at + n) % size
	}
}

// text is what was kept, which ends the writing.
func (h *headTail) text() (text string, cut bool) {
	if len(h.partial) > 0 {
		h.keep([]byte("\uFFFD"))
		h.partial = nil
	}
	tail := slices.Concat(h.tail[h.at:], h.tail[:h.at])
	if h.total == int64(len(h.head)+len(tail)) {
		return string(h.head) + string(tail), false
	}
	head := h.head[:wholeRunes(h.head)]
	for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	gone := h.total - int64(len(head)+len(tail))
	return fmt.Sprintf("%s\n[%d bytes cut]\n%s", head, gone, tail), true
}

// wholeRunes is the length of p without a rune at its end of which there is a part.
func wholeRunes(p []byte) int {
	for back := 1; back < utf8.UTFMax && back <= len(p); back++ {
		if last := p[len(p)-back:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				break
			}
			return len(p) - back
		}
	}
	return len(p)
}
