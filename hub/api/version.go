package api

import (
	"net/http"
	"strconv"
	"strings"
)

// SetVersion writes the version of a resource as the ETag of the response.
func SetVersion(w http.ResponseWriter, version int64) {
	w.Header().Set("ETag", `"`+strconv.FormatInt(version, 10)+`"`)
}

// IfMatch returns the version that the client expects, from an If-Match header with or without
// quotes. It is nil if the client sends none, or *: the change is then unconditional. A service
// that finds another version returns PreconditionFailed, and so does IfMatch for a value that is
// not a version.
func IfMatch(r *http.Request) (*int64, error) {
	values := r.Header.Values("If-Match")
	if len(values) == 0 || len(values) == 1 && strings.TrimSpace(values[0]) == "*" {
		return nil, nil //nolint:nilnil // nil is the documented value of no condition
	}
	value := strings.TrimSpace(strings.Join(values, ","))
	if inner, ok := strings.CutPrefix(value, `"`); ok {
		if value, ok = strings.CutSuffix(inner, `"`); !ok {
			return nil, PreconditionFailed
		}
	}
	for _, c := range []byte(value) {
		if c < '0' || c > '9' {
			return nil, PreconditionFailed // a sign, a list, or a tag that this server did not make
		}
	}
	version, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return nil, PreconditionFailed
	}
	return &version, nil
}

// NotModified writes the tag of a response, such as a content hash, as its ETag. If the client has
// the same one (If-None-Match, weak comparison), it responds with 304 and returns true.
func NotModified(w http.ResponseWriter, r *http.Request, tag string) bool {
	w.Header().Set("ETag", `"`+tag+`"`)
	for _, line := range r.Header.Values("If-None-Match") {
		for candidate := range strings.SplitSeq(line, ",") {
			candidate = strings.TrimPrefix(strings.TrimSpace(candidate), "W/")
			if candidate == "*" || candidate == `"`+tag+`"` {
				w.WriteHeader(http.StatusNotModified)
				return true
			}
		}
	}
	return false
}
