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
	"time"
	"unicode/utf8"
)

// ErrTooLarge is what [ReadJSON] answers to a body that is over the limit.
var ErrTooLarge = errors.New("request body is too large")

// BodyError says what is wrong with a body, in words for the client. Field is the path of the field that has the wrong
// type, such as "user.name"; "" where the fault is not a field's.
type BodyError struct{ Message, Field string }

func (e *BodyError) Error() string { return "read body: " + e.Message }

// ReadJSON decodes the body, of at most limit bytes, into v. Unknown fields are ignored. It
// answers [ErrTooLarge], a [*BodyError], or the error of a client that went away.
func ReadJSON(w http.ResponseWriter, r *http.Request, limit int64, v any) error {
	data, err := ReadBody(w, r, limit)
	if err != nil {
		return err
	}
	return ParseJSON(data, v)
}

// ReadBody is the first half of [ReadJSON]: the whole body.
func ReadBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, ErrTooLarge
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err != nil {
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			return nil, ErrTooLarge
		}
		return nil, &BodyError{Message: "the body could not be read to its end"}
	}
	return data, nil
}

// ParseJSON is the second half of [ReadJSON].
func ParseJSON(data []byte, v any) error {
	if !utf8.Valid(data) {
		return &BodyError{Message: "the body is not UTF-8"}
	}
	err := json.Unmarshal(data, v)
	if err == nil {
		return nil
	}
	var wrongType *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	var notTime *time.ParseError
	switch {
	case len(data) == 0:
		return &BodyError{Message: "the body is empty"}
	case errors.As(err, &syntax):
		return &BodyError{Message: fmt.Sprintf("the body is not JSON: %v at byte %d", syntax, syntax.Offset)}
	case errors.As(err, &wrongType):
		field := cmp.Or(wrongType.Field, "the body")
		return &BodyError{fmt.Sprintf("%s must be %s, not %s", field, kind(wrongType.Type), wrongType.Value), wrongType.Field}
	case errors.As(err, &notTime):
		return &BodyError{Message: "a time must be in the form of RFC 3339, such as 2006-01-02T15:04:05Z"}
	}
	return &BodyError{Message: err.Error()} // of an UnmarshalJSON of ours, worded for clients
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

// Shared among answers: who changes a header replaces the slice, as http.Header.Set does.
var (
	jsonType = []string{"application/json"}
	noSniff  = []string{"nosniff"}
)

// WriteJSON answers with v as the JSON body. It has written nothing when it returns an error.
func WriteJSON(w http.ResponseWriter, status int, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	data = append(data, '\n')
	h := w.Header()
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(len(data))}
	h["X-Content-Type-Options"] = noSniff
	w.WriteHeader(status)
	for chunk := range slices.Chunk(data, writeChunk) {
		writeWithin(w, writeTimeout)
		if _, err := w.Write(chunk); err != nil {
			return nil // a client that is gone, or does not read, needs no answer
		}
	}
	return nil
}
