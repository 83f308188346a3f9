package filesafe

import (
	"io/fs"
	"strconv"
	"time"
	"unicode/utf8"
)

// Entry is an entry of a listing. Its JSON form has the keys name, type, size and mtime, and mime
// and target if they are not empty. Bytes that are not UTF-8 become U+FFFD, and times have six
// sub-second digits.
type Entry struct {
	// Name is the name of the file; from [Dir.Walk] its path relative to the directory, with "/".
	Name string
	Type EntryType
	// Size is in bytes. A symlink has the size of the file that it leads to. Size is 0 for other
	// types and for links that are broken or lead outside.
	Size int64
	// ModTime is the time of the entry itself, also for a symlink.
	ModTime time.Time
	// MIME is the media type of a file by its extension.
	MIME string
	// Target is the end of a symlink, relative to the directory and with "/". It is empty for links
	// that are broken or lead outside.
	Target string
}

// EntryType is the type of a file. The constants have the values of the JSON form.
type EntryType string

const (
	TypeFile      EntryType = "file"
	TypeDirectory EntryType = "directory"
	TypeSymlink   EntryType = "symlink"
	TypeOther     EntryType = "other" // a FIFO, a socket or a device
)

func typeOf(mode fs.FileMode) EntryType {
	switch {
	case mode.IsRegular():
		return TypeFile
	case mode.IsDir():
		return TypeDirectory
	case mode&fs.ModeSymlink != 0:
		return TypeSymlink
	}
	return TypeOther
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

// appendString appends s as a JSON string.
func appendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	done := 0 // s[:done] is appended
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

// clock formats times. The files of one directory often have the same second.
type clock struct {
	second int64  // Unix time
	text   []byte // the formatted second without fraction and Z
}

// append appends RFC 3339 in UTC with six sub-second digits.
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
