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
	b = append(appendDigits(b, year, 1000), '-')
	b = append(appendDigits(b, int(month), 10), '-')
	b = append(appendDigits(b, day, 10), 'T')
	b = append(appendDigits(b, hour, 10), ':')
	b = append(appendDigits(b, minute, 10), ':')
	b = append(appendDigits(b, second, 10), '.')
	return append(appendDigits(b, t.Nanosecond()/1000, 100_000), 'Z')
}

// appendDigits writes n with as many digits as the power of ten first has.
func appendDigits(b []byte, n, first int) []byte {
	for ; first > 0; first /= 10 {
		b = append(b, byte('0'+n/first%10))
	}
	return b
}
