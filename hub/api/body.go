package api

import (
	"bytes"
	"mime"
	"net/http"
	"strings"

	"github.com/seed93082962/agenthost/internal/httpapi"
)

// defaultBodyLimit is for routes that say nothing.
const defaultBodyLimit = 1 << 20

// Decode reads the body as a JSON object into a T. Unknown fields are ignored. Its errors are to be returned as they are:
// 400 invalid_request (empty, malformed, of wrong types), 413 and 415.
func Decode[T any](w http.ResponseWriter, r *http.Request) (T, error) {
	var zero T
	data, err := readJSON(w, r)
	if err != nil {
		return zero, err
	}
	return parse[T](data)
}

// DecodeOptional is Decode where no body is as good as an empty object.
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
		return value, InvalidRequest.New("The body must not have the character U+0000.")
	}
	var v *T // stays nil for null
	if err := httpapi.ParseJSON(data, &v); err != nil {
		return value, err
	}
	if v == nil {
		return value, &httpapi.BodyError{Message: "the body must be an object, not null"}
	}
	return *v, nil
}

// hasNUL finds the escape of U+0000, which PostgreSQL stores nowhere; JSON has no other way to write it.
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
		if slashes%2 == 0 { // else the backslash of the escape is itself escaped
			return true
		}
		data = data[i+len(`\u0000`):]
	}
}

// Encode answers with v as JSON. It has written nothing when it returns an error.
func Encode(w http.ResponseWriter, status int, v any) error {
	if l, ok := v.(interface{ filled(v any) any }); ok {
		v = l.filled(v)
	}
	return httpapi.WriteJSON(w, status, v)
}

// NoContent answers 204.
func NoContent(w http.ResponseWriter) error {
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// List is the answer of a list, which [Encode] writes with items as an array, also when there are none. Total counts all
// that there are, on this page or not.
type List[T any] struct {
	Items []T `json:"items"`
	Total int `json:"total"`
}

// filled is called on what is encoded, which is another type where a List is embedded in it.
func (l List[T]) filled(v any) any {
	if _, ok := v.(List[T]); ok && l.Items == nil {
		return List[T]{[]T{}, l.Total}
	}
	return v
}
