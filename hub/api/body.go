package api

import (
	"bytes"
	"mime"
	"net/http"
	"strings"

	"github.com/seed93082962/agenthost/internal/httpapi"
)

// defaultBodyLimit is the limit of routes without a BodyLimit, in bytes.
const defaultBodyLimit = 1 << 20

// Decode reads the body as a JSON object into a T. Unknown fields are ignored. A handler returns
// its errors unchanged: 400 invalid_request (empty, malformed, a wrong type), 413 and 415.
func Decode[T any](w http.ResponseWriter, r *http.Request) (T, error) {
	var zero T
	data, err := readJSON(w, r)
	if err != nil {
		return zero, err
	}
	return parse[T](data)
}

// DecodeOptional is Decode for a route whose body may be missing, which means an empty object.
func DecodeOptional[T any](w http.ResponseWriter, r *http.Request) (T, error) {
	var zero T
	if r.ContentLength == 0 {
		return zero, nil
	}
	data, err := readJSON(w, r)
	if err != nil || len(bytes.TrimSpace(data)) == 0 {
		return zero, err
	}
	return parse[T](data)
}

func readJSON(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if declared := r.Header.Get("Content-Type"); declared != "" && r.ContentLength != 0 {
		kind, params, err := mime.ParseMediaType(declared)
		if err != nil || !isJSON(kind) {
			return nil, UnsupportedMedia
		}
		if charset, ok := params["charset"]; ok && !strings.EqualFold(charset, "utf-8") {
			return nil, UnsupportedMedia.New("The body must be JSON in UTF-8: send \"Content-Type: application/json\".")
		}
	}
	limit := int64(defaultBodyLimit)
	if c := callOf(r); c != nil {
		limit = c.route.BodyLimit
	}
	return httpapi.ReadBody(w, r, limit)
}

func isJSON(kind string) bool {
	return kind == "application/json" || strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json")
}

func parse[T any](data []byte) (value T, err error) {
	if hasNUL(data) {
		return value, InvalidRequest.New("The body must not contain the character U+0000.")
	}
	var v *T // nil for null
	if err := httpapi.ParseJSON(data, &v); err != nil {
		return value, err
	}
	if v == nil {
		return value, &httpapi.BodyError{Message: "the body must be an object, not null"}
	}
	return *v, nil
}

// hasNUL reports whether JSON contains the escape of U+0000, which PostgreSQL cannot store. JSON
// has no other form of it.
func hasNUL(data []byte) bool {
	for {
		i := bytes.Index(data, []byte(`\u0000`))
		if i < 0 {
			return false
		}
		slashes := 0
		for i-slashes > 0 && data[i-slashes-1] == '\\' {
			slashes++
		}
		if slashes%2 == 0 { // otherwise the backslash is escaped
			return true
		}
		data = data[i+len(`\u0000`):]
	}
}

// Encode responds with v as JSON. It writes nothing if it returns an error.
func Encode(w http.ResponseWriter, status int, v any) error {
	if l, ok := v.(interface{ filled(v any) any }); ok {
		v = l.filled(v)
	}
	return httpapi.WriteJSON(w, status, v)
}

// NoContent responds with 204.
func NoContent(w http.ResponseWriter) error {
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// List is the response of a list. [Encode] writes Items as an array even if it is nil. Total is the
// number of items on all pages.
type List[T any] struct {
	Items []T `json:"items"`
	Total int `json:"total"`
}

// filled returns v with an array of items. v is another type if a List is embedded in it.
func (l List[T]) filled(v any) any {
	if _, ok := v.(List[T]); ok && l.Items == nil {
		return List[T]{[]T{}, l.Total}
	}
	return v
}
