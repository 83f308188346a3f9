package builtin

import (
	"bytes"
	"iter"
)

// occurrence is a part of a file that is replaced, in bytes.
type occurrence struct{ from, to int }

// occurrences iterates over where data contains text. A text without "\r" is found with both kinds
// of line ends, because Read shows them alike. The time is linear in the size of data.
func occurrences(data, text []byte) iter.Seq[occurrence] {
	if bytes.IndexByte(text, '\n') < 0 || bytes.IndexByte(text, '\r') >= 0 {
		return exact(data, text)
	}

	plain := bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	return func(yield func(occurrence) bool) {
		at, removed := 0, 0 // of data, and how many "\r" plain lacks before it
		original := func(offset int) int {
			for {
				next := bytes.Index(data[at:], []byte("\r\n"))
				if next < 0 || at+next-removed >= offset {
					return offset + removed
				}

				at += next + len("\r\n")
				removed++
			}
		}
		for o := range exact(plain, text) {
			from := original(o.from)
			if !yield(occurrence{from, original(o.to)}) {
				return
			}
		}
	}
}

func exact(data, text []byte) iter.Seq[occurrence] {
	return func(yield func(occurrence) bool) {
		for at := 0; ; {
			next := bytes.Index(data[at:], text)
			if next < 0 {
				return
			}

			from := at + next
			at = from + len(text)
			if !yield(occurrence{from, at}) {
				return
			}
		}
	}
}

// replace returns data with a replacement for each occurrence of text, and the length of the first
// replacement. Lines keep their ends, and further ones have the end of the line before them, or of
// the one after. A text or a replacement with "\r" is used as it is.
func replace(data, text, replacement []byte) ([]byte, int) {
	literal := bytes.IndexByte(text, '\r') >= 0 || bytes.IndexByte(replacement, '\r') >= 0
	ends := lineEnds{data: data, next: -1}
	if !literal {
		ends.origins = originsOf(text, replacement)
	}

	at := 0
	var changed []byte
	var first int
	for o := range occurrences(data, text) {
		changed = append(changed, data[at:o.from]...)
		before := len(changed)
		if literal {
			changed = append(changed, replacement...)
		} else {
			changed = ends.appendLines(changed, o, replacement)
		}

		if at == 0 && first == 0 {
			first = len(changed) - before
		}

		at = o.to
	}

	return append(changed, data[at:]...), first
}

// origins say which line end of a text a line end of its replacement has: for the last lines that
// both have, counted from the end, else from the start.
type origins struct {
	old, new int // line ends of the text and of the replacement
	same     int // those between last lines that are equal
}

func originsOf(text, replacement []byte) origins {
	o := origins{old: bytes.Count(text, []byte("\n")), new: bytes.Count(replacement, []byte("\n"))}
	for lines := 0; ; lines++ {
		i := bytes.LastIndexByte(text, '\n')
		k := bytes.LastIndexByte(replacement, '\n')
		if !bytes.Equal(text[i+1:], replacement[k+1:]) {
			return o
		}

		o.same = lines
		if i < 0 || k < 0 {
			return o
		}

		text, replacement = text[:i], replacement[:k]
	}
}

// of returns the line end of the text for one of the replacement.
func (o origins) of(i int) int {
	if i >= o.new-o.same {
		return i - o.new + o.old
	}

	return max(0, min(i, o.old-o.same-1))
}

// lineEnds are the ends of the lines of data, which are read in ascending order.
type lineEnds struct {
	data    []byte
	origins origins
	crlf    []bool // of the line ends in an occurrence
	next    int    // the offset of the last "\n" that was found, or len(data)
	end     string // of its line, or of the last one of data
}

// appendLines appends a replacement for an occurrence.
func (l *lineEnds) appendLines(out []byte, o occurrence, replacement []byte) []byte {
	l.crlf = l.crlf[:0]
	if l.origins.old > 0 {
		for line := range bytes.Lines(l.data[o.from:o.to]) {
			l.crlf = append(l.crlf, bytes.HasSuffix(line, []byte("\r\n")))
		}
	}

	for i := 0; ; i++ {
		line, rest, more := bytes.Cut(replacement, []byte("\n"))
		out = append(out, line...)
		if !more {
			return out
		}

		switch {
		case l.origins.old == 0:
			out = append(out, l.after(o.from)...)
		case l.crlf[l.origins.of(i)]:
			out = append(out, "\r\n"...)
		default:
			out = append(out, '\n')
		}

		replacement = rest
	}
}

// after returns the end of the line that has data[at].
func (l *lineEnds) after(at int) string {
	if l.next >= at {
		return l.end
	}

	last := bytes.IndexByte(l.data[at:], '\n') + at
	l.next = last
	if last < at {
		last = bytes.LastIndexByte(l.data, '\n')
		l.next = len(l.data)
	}

	l.end = "\n"
	if last > 0 && l.data[last-1] == '\r' {
		l.end = "\r\n"
	}

	return l.end
}
