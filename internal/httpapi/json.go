package httpapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/internal/deadline"
	"github.com/seed93082962/agenthost/internal/jsonlimit"
)

// maxValues bounds the values of a body.
const maxValues = 1 << 18

// ErrTooLarge is the error of [ReadJSON] for a body over the limit.
var ErrTooLarge = errors.New("request body is too large")

// BodyError describes an invalid body to the client. Field is the path of the field with the wrong
// type, such as "user.name", or empty if no field is at fault.
type BodyError struct{ Message, Field string }

func (e *BodyError) Error() string { return "read body: " + e.Message }

// ReadJSON decodes the body, of at most limit bytes, into v. Unknown fields are ignored. The error
// is [ErrTooLarge], a [*BodyError], or an error of the connection.
func ReadJSON(w http.ResponseWriter, r *http.Request, limit int64, v any) error {
	data, err := ReadBody(w, r, limit)
	if err != nil {
		return err
	}
	return ParseJSON(data, v)
}

// ReadBody returns the whole body. It is the first half of [ReadJSON].
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

// ParseJSON decodes a body into v. It is the second half of [ReadJSON].
func ParseJSON(data []byte, v any) error {
	if (jsonlimit.Limit{Values: maxValues}).Check(data) != nil {
		return &BodyError{Message: fmt.Sprintf("the body has more than %d values", maxValues)}
	}
	return parse(data, v)
}

// maxListValues bounds the values of a body with lists of its own.
const maxListValues = 2_000_000

// ParseLists is [ParseJSON] for a v whose lists bound their own memory while they are decoded. More
// than 2,000,000 values are [ErrTooLarge].
func ParseLists(data []byte, v any) error {
	if (jsonlimit.Limit{Values: maxListValues}).Check(data) != nil {
		return ErrTooLarge
	}
	return parse(data, v)
}

func parse(data []byte, v any) error {
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
	return &BodyError{Message: err.Error()} // an UnmarshalJSON of this module returns messages for clients
}

// kind returns the JSON type for a Go type.
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

// Shared by all responses: Header.Set replaces a slice and does not change it.
var (
	jsonType = []string{"application/json"}
	noSniff  = []string{"nosniff"}
)

// WriteJSON responds with v as JSON. It has written nothing when it returns an error.
func WriteJSON(w http.ResponseWriter, status int, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode response: %w", err)
	}
	data = append(data, '\n')
	if res := responseOf(w); res != nil && res.large != nil && len(data) > largeJSON {
		if err := res.large(); err != nil {
			return err
		}
	}
	h := w.Header()
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(len(data))}
	h["X-Content-Type-Options"] = noSniff
	w.WriteHeader(status)
	out := deadline.NewWriter(w, 0) // a stalled client must not keep a response in memory
	_, _ = out.Write(data)          // the client disconnected or does not read
	return nil
}
