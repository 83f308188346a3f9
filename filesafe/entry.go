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
func (e Entry) MarshalJSON() ([]byte, error) { return e.appendJSON(nil, new(clock)), nil }

func (e *Entry) appendJSON(b []byte, c *clock) []byte {
	b = appendString(append(b, `{"name":`...), e.Name)
	b = append(append(b, `,"type":"`...), e.Type...)
	b = strconv.AppendInt(append(b, `","size":`...), e.Size, 10)
	b = append(c.append(append(b, `,"mtime":"`...), e.ModTime), '"')
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

// clock writes times. Files of one directory are often of the same second.
type clock struct {
	second int64  // since 1970
	text   []byte // of that second, with all but its fraction and the Z
}

// append writes RFC 3339 in UTC with six sub-second digits.
func (c *clock) append(b []byte, t time.Time) []byte {
	if second := t.Unix(); second != c.second || len(c.text) == 0 {
		c.text = t.UTC().AppendFormat(c.text[:0], time.RFC3339)
		c.second, c.text = second, c.text[:len(c.text)-len("Z")]
	}
	const digits = "0123456789"
	fraction := [...]byte{0: '.', 7: 'Z'}
	for at, micro := 6, t.Nanosecond()/1000; at > 0; at-- {
		fraction[at] = digits[micro%10]
		micro /= 10
	}
	return append(append(b, c.text...), fraction[:]...)
}
