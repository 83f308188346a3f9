package filesafe

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// version is the version of a file that conditional requests compare.
type version struct {
	etag     string
	modified time.Time // in whole seconds, the precision of HTTP dates; zero if it is not known
}

// Header fields are accessed by their canonical names, as net/http stores them.

// precondition returns the status that the conditions of a request select, in the order of RFC 9110
// section 13.2.2: 200 if they hold, else 304 or 412.
func (v version) precondition(h http.Header) int {
	if match := h["If-Match"]; len(match) > 0 {
		if !v.in(match, false) {
			return http.StatusPreconditionFailed
		}
	} else if at, ok := v.date(h, "If-Unmodified-Since"); ok && v.modified.After(at) {
		return http.StatusPreconditionFailed
	}

	if match := h["If-None-Match"]; len(match) > 0 {
		if v.in(match, true) {
			return http.StatusNotModified
		}
	} else if at, ok := v.date(h, "If-Modified-Since"); ok && !v.modified.After(at) {
		return http.StatusNotModified
	}

	return http.StatusOK
}

// rangeHolds reports whether If-Range permits the range: the client has a part of this version.
func (v version) rangeHolds(h http.Header) bool {
	condition := h["If-Range"]
	if len(condition) == 0 || v.etag != "" && condition[0] == v.etag {
		return true
	}

	at, ok := v.date(h, "If-Range")
	return ok && at.Equal(v.modified)
}

// date returns the date of a condition. Without a time of the file, there is none.
func (v version) date(h http.Header, name string) (time.Time, bool) {
	if len(h[name]) == 0 || v.modified.IsZero() {
		return time.Time{}, false
	}

	at, err := http.ParseTime(h[name][0])
	return at, err == nil
}

// in reports whether a list of entity tags contains the version's tag. If weak, W/"x" equals "x".
func (v version) in(headers []string, weak bool) bool {
	for _, list := range headers {
		for {
			list = strings.TrimLeft(list, " \t,")
			if list == "*" {
				return true
			}

			tag, isWeak := strings.CutPrefix(list, "W/")
			if !strings.HasPrefix(tag, `"`) {
				break // the end, or not an entity tag
			}

			end := strings.IndexByte(tag[1:], '"')
			if end < 0 {
				break
			}

			if tag[:end+2] == v.etag && (weak || !isWeak) {
				return true
			}

			list = tag[end+2:]
		}
	}

	return false
}

// span is a part of a file.
type span struct{ start, length int64 }

// of formats a span for Content-Range.
func (s span) of(size int64) string {
	b := strconv.AppendInt(append(make([]byte, 0, 64), "bytes "...), s.start, 10)
	b = strconv.AppendInt(append(b, '-'), s.start+s.length-1, 10)
	return string(strconv.AppendInt(append(b, '/'), size, 10))
}

// parseRange parses a Range header with one range for a file of the given size. The first bool
// reports whether the header counts: malformed ones, other units and several ranges do not, as
// RFC 9110 section 14.2 permits. The second one is false for a range without bytes of the file.
func parseRange(header string, size int64) (span, bool, bool) {
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
func number(digits string) (int64, bool) {
	var n int64
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
