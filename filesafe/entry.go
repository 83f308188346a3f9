package filesafe

import (
	"io/fs"
	"strconv"
	"time"
	"unicode/utf8"
)

// Entry is one line of a listing. As JSON it has the keys name, type, size, mtime and, where they are not empty, mime and
// target; bytes that are not UTF-8 become U+FFFD, and times have six sub-second digits.
type Entry struct {
	// Name is the file's name, or from [Dir.Walk] its path relative to the directory, always with "/".
	Name string
	// Type is file, directory, symlink or other (FIFO, socket, device).
	Type string
	// Size counts bytes. A symlink has the size of the file that it leads to. It is 0 for all that is no file, nor leads
	// to one inside.
	Size int64
	// ModTime is the entry's own, also a symlink's.
	ModTime time.Time
	// MIME is a file's media type by its extension.
	MIME string
	// Target is where a symlink leads, relative to the directory and with "/". It is empty for a link that is broken or
	// leads outside.
	Target string
}

func typeOf(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return "file"
	case mode.IsDir():
		return "directory"
	case mode&fs.ModeSymlink != 0:
		return "symlink"
	}
	return "other"
}

// MarshalJSON never fails.
func (e Entry) MarshalJSON() ([]byte, error) { return e.appendJSON(nil), nil }

func (e *Entry) appendJSON(b []byte) []byte {
	b = appendString(append(b, `{"name":`...), e.Name)
	b = append(append(b, `,"type":"`...), e.Type...)
	b = strconv.AppendInt(append(b, `","size":`...), e.Size, 10)
	b = append(appendTime(append(b, `,"mtime":"`...), e.ModTime), '"')
	if e.MIME != "" {
		b = append(append(append(b, `,"mime":"`...), e.MIME...), '"')
	}
	if e.Target != "" {
		b = appendString(append(b, `,"target":`...), e.Target)
	}
	return append(b, '}')
}

// appendString quotes s for JSON.
func appendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	done := 0 // s[:done] is in b
	for i := 0; i < len(s); {
		size := 1
		switch c := s[i]; {
		case c >= utf8.RuneSelf:
			var r rune
			if r, size = utf8.DecodeRuneInString(s[i:]); r != utf8.RuneError || size > 1 {
				i += size
				continue
			}
			b = append(append(b, s[done:i]...), `\ufffd`...)
		case c == '"' || c == '\\':
			b = append(append(b, s[done:i]...), '\\', c)
		case c < ' ':
			b = append(append(b, s[done:i]...), '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			i++
			continue
		}
		i += size
		done = i
	}
	return append(append(b, s[done:]...), '"')
}

// appendTime writes RFC 3339 in UTC with six sub-second digits.
func appendTime(b []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	if year < 0 || year > 9999 { // which RFC 3339 has not; a file system may
		return t.AppendFormat(b, "2006-01-02T15:04:05.000000Z")
	}
	hour, minute, second := t.Clock()
	micro := t.Nanosecond() / 1000
	text := [...]byte{
		4: '-', 7: '-', 10: 'T', 13: ':', 16: ':', 19: '.', 26: 'Z',
	}
	for _, pair := range [...]struct{ at, n int }{
		{0, year / 100}, {2, year % 100}, {5, int(month)}, {8, day}, {11, hour}, {14, minute}, {17, second},
		{20, micro / 10_000}, {22, micro / 100 % 100}, {24, micro % 100},
	} {
		text[pair.at], text[pair.at+1] = byte('0'+pair.n/10), byte('0'+pair.n%10)
	}
	return append(b, text[:]...)
}
