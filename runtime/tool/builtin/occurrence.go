package builtin

import (
	"bytes"
	"iter"
)

// occurrence is a part of a file that is replaced, in bytes.
type occurrence struct{ from, to int }

// occurrences iterates over where data contains text. A text without "\r" is found with both kinds of
// line ends, because Read shows them alike. The time is linear in the size of data.
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
func replace(data, text, replacement []byte) (changed []byte, first int) {
	literal := bytes.IndexByte(text, '\r') >= 0 || bytes.IndexByte(replacement, '\r') >= 0
	ends := lineEnds{data: data, next: -1}
	if !literal {
		ends.origins = originsOf(text, replacement)
	}
	at := 0
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

// originsOf returns for each line end of a replacement the number of the line end of text that it has:
// from the end for the last lines that both have, else from the start. Without lines in text, it
// returns nil.
func originsOf(text, replacement []byte) []int {
	lines, newLines := bytes.Split(text, []byte("\n")), bytes.Split(replacement, []byte("\n"))
	n, m := len(lines)-1, len(newLines)-1 // line ends
	if n == 0 {
		return nil
	}
	same := 0 // line ends between equal last lines
	for same < min(n, m) && bytes.Equal(lines[n-same], newLines[m-same]) && bytes.Equal(lines[n-same-1], newLines[m-same-1]) {
		same++
	}
	origins := make([]int, m)
	for i := range origins {
		if i >= m-same {
			origins[i] = i - m + n
		} else {
			origins[i] = max(0, min(i, n-same-1))
		}
	}
	return origins
}

// lineEnds are the ends of the lines of data, which are read in ascending order.
type lineEnds struct {
	data    []byte
	origins []int
	crlf    []bool // of the line ends in an occurrence
	next    int    // the offset of the last "\n" that was found, or len(data)
	end     string // of its line, or of the last one of data
}

// appendLines appends a replacement for an occurrence.
func (l *lineEnds) appendLines(out []byte, o occurrence, replacement []byte) []byte {
	l.crlf = l.crlf[:0]
	if l.origins != nil {
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
		case l.origins == nil:
			out = append(out, l.after(o.from)...)
		case l.crlf[l.origins[i]]:
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
