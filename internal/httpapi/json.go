package httpapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"
)

// ErrTooLarge is what [ReadJSON] answers to a body that is over the limit.
var ErrTooLarge = errors.New("request body is too large")

// BodyError says what is wrong with a body, in words for the client.
type BodyError struct{ Message string }

func (e *BodyError) Error() string { return "read body: " + e.Message }

// ReadJSON decodes the body, of at most limit bytes, into v. Unknown fields are ignored. It
// answers [ErrTooLarge], a [*BodyError], or the error of a client that went away.
func ReadJSON(w http.ResponseWriter, r *http.Request, limit int64, v any) error {
	if r.ContentLength > limit {
		return ErrTooLarge
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err != nil {
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			return ErrTooLarge
		}
		return &BodyError{"the body could not be read to its end"}
	}
	if !utf8.Valid(data) {
		return &BodyError{"the body is not UTF-8"}
	}
	err = json.Unmarshal(data, v)
	if err == nil {
		return nil
	}
	var wrongType *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case len(data) == 0:
		return &BodyError{"the body is empty"}
	case errors.As(err, &syntax):
		return &BodyError{fmt.Sprintf("the body is not JSON: %v at byte %d", syntax, syntax.Offset)}
	case errors.As(err, &wrongType):
		field := cmp.Or(wrongType.Field, "the body")
		return &BodyError{fmt.Sprintf("%s must be %s, not %s", field, kind(wrongType.Type), wrongType.Value)}
	}
	return &BodyError{err.Error()} // of an UnmarshalJSON of ours, worded for clients
}

// kind says what JSON a Go type takes.
func kind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Struct, reflect.Map, reflect.Pointer, reflect.Interface:
		return "an object"
	case reflect.Float32, reflect.Float64:
		return "a number"
	default:
		return "an integer"
	}
}

// WriteJSON answers with v as the JSON body. It has written nothing when it returns an error.
func WriteJSON(w http.ResponseWriter, status int, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	data = append(data, '\n')
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(data)))
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	for chunk := range slices.Chunk(data, writeChunk) {
		writeWithin(w, writeTimeout)
		if _, err := w.Write(chunk); err != nil {
			return nil // a client that is gone, or does not read, needs no answer
		}
	}
	return nil
}
