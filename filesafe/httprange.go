package filesafe

import (
	"math"
	"strconv"
	"strings"
)

// span is a part of a file.
type span struct{ start, length int64 }

// of formats a span for Content-Range.
func (s span) of(size int64) string {
	b := strconv.AppendInt(append(make([]byte, 0, 64), "bytes "...), s.start, 10)
	b = strconv.AppendInt(append(b, '-'), s.start+s.length-1, 10)
	return string(strconv.AppendInt(append(b, '/'), size, 10))
}

// parseRange parses a Range header with one range for a file of the given size. Malformed headers,
// other units and several ranges do not count, as RFC 9110 section 14.2 permits; satisfiable is
// false for a well-formed range without bytes of the file.
func parseRange(header string, size int64) (part span, counts, satisfiable bool) {
	unit, set, ok := strings.Cut(header, "=")
	if !ok || !strings.EqualFold(unit, "bytes") {
		return span{}, false, false
	}
	from, to, ok := strings.Cut(set, "-")
	if !ok {
		return span{}, false, false
	}
	first, last := int64(0), int64(math.MaxInt64)
	if from != "" {
		if first, ok = number(from); !ok {
			return span{}, false, false
		}
	}
	if to != "" {
		if last, ok = number(to); !ok {
			return span{}, false, false
		}
	}
	switch {
	case from == "" && to == "":
		return span{}, false, false
	case from == "": // the last bytes
		length := min(last, size)
		return span{size - length, length}, true, length > 0
	case first >= size: // also if last is before first
		return span{}, true, false
	case first > last:
		return span{}, false, false
	}
	return span{first, min(last, size-1) - first + 1}, true, true
}

// number parses decimal digits. Values above the range of int64 become its maximum, which is after
// the end of every file.
func number(digits string) (n int64, ok bool) {
	for i := range len(digits) {
		c := digits[i]
		if c < '0' || c > '9' {
			return 0, false
		}
		if n > (math.MaxInt64-9)/10 {
			n = math.MaxInt64
			continue
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}
