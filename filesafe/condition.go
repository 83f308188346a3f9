package filesafe

import (
	"net/http"
	"strings"
	"time"
)

// version is the version of a file that conditional requests compare.
type version struct {
	etag     string
	modified time.Time // in whole seconds, the precision of HTTP dates
}

// Header fields are accessed by their canonical names, as net/http stores them.

// precondition returns the status that the conditions of a request select, in the order of RFC 9110
// section 13.2.2: 200 if they hold, else 304 or 412.
func (v version) precondition(h http.Header) int {
	if match := h["If-Match"]; len(match) > 0 {
		if !v.in(match, false) {
			return http.StatusPreconditionFailed
		}
	} else if at, ok := date(h, "If-Unmodified-Since"); ok && v.modified.After(at) {
		return http.StatusPreconditionFailed
	}
	if match := h["If-None-Match"]; len(match) > 0 {
		if v.in(match, true) {
			return http.StatusNotModified
		}
	} else if at, ok := date(h, "If-Modified-Since"); ok && !v.modified.After(at) {
		return http.StatusNotModified
	}
	return http.StatusOK
}

// rangeHolds reports whether If-Range permits the range: the client has a part of this version.
func (v version) rangeHolds(h http.Header) bool {
	condition := h["If-Range"]
	if len(condition) == 0 || condition[0] == v.etag {
		return true
	}
	at, ok := date(h, "If-Range")
	return ok && at.Equal(v.modified)
}

func date(h http.Header, name string) (time.Time, bool) {
	if len(h[name]) == 0 {
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
