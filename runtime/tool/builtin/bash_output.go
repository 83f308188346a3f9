package builtin

import (
	"bytes"
	"fmt"
	"slices"
	"unicode/utf8"
)

// headTail stores the beginning and the end of a text. Bytes that are not UTF-8, and null bytes,
// become U+FFFD. Memory is bounded by limit.
type headTail struct {
	limit int // bytes of text to store

	head    []byte // at most half of limit
	tail    []byte // the rest; a ring buffer if it is full
	oldest  int    // the index of the oldest byte in a full tail
	total   int64  // bytes of text written
	partial []byte // an incomplete rune at the end
}

func (h *headTail) Write(p []byte) (int, error) {
	n := len(p)
	if len(h.partial) > 0 {
		p = append(h.partial, p...)
	}
	whole := wholeRunes(p)
	h.append(p[:whole])
	h.partial = bytes.Clone(p[whole:])
	return n, nil
}

func (h *headTail) append(p []byte) {
	if !utf8.Valid(p) || bytes.IndexByte(p, 0) >= 0 {
		p = bytes.ReplaceAll(bytes.ToValidUTF8(p, []byte("\uFFFD")), []byte{0}, []byte("\uFFFD"))
	}
	h.total += int64(len(p))
	half := h.limit / 2
	n := min(half-len(h.head), len(p))
	h.head = append(h.head, p[:n]...)
	p = p[n:]
	size := h.limit - half
	p = p[max(0, len(p)-size):]
	n = min(size-len(h.tail), len(p))
	h.tail = append(h.tail, p[:n]...)
	for p = p[n:]; len(p) > 0; p = p[n:] {
		n = copy(h.tail[h.oldest:], p)
		h.oldest = (h.oldest + n) % size
	}
}

// text returns the stored text. Nothing may be written after it.
func (h *headTail) text() (text string, truncated bool) {
	if len(h.partial) > 0 {
		h.append([]byte("\uFFFD"))
		h.partial = nil
	}
	tail := slices.Concat(h.tail[h.oldest:], h.tail[:h.oldest])
	if h.total == int64(len(h.head)+len(tail)) {
		return string(h.head) + string(tail), false
	}
	head := h.head[:wholeRunes(h.head)]
	for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	omitted := h.total - int64(len(head)+len(tail))
	return fmt.Sprintf("%s\n[%d bytes cut]\n%s", head, omitted, tail), true
}

// wholeRunes returns the length of p without an incomplete rune at its end.
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
