package httpapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/internal/leaf/deadline"
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

// CountValues returns the number of objects, arrays and elements of a body, or a number above the
// limit of [ParseJSON].
func CountValues(data []byte) int {
	values, _ := jsonlimit.Limit{Values: maxValues}.Count(data)
	return values
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

	if len(data) == 0 {
		return &BodyError{Message: "the body is empty"}
	}

	err := jsonlimit.Unmarshal(data, v)
	if err == nil {
		return nil
	}

	if wrong, ok := errors.AsType[*jsonlimit.Error](err); ok {
		return &BodyError{cmp.Or(wrong.Field, "the body") + " " + wrong.Message, wrong.Field}
	}

	return &BodyError{Message: err.Error()} // an UnmarshalJSON of this module returns messages for clients
}

// Shared by all responses: Header.Set replaces a slice and does not change it.
var (
	jsonType = []string{"application/json"}
	noSniff  = []string{"nosniff"}
)

// Marshal returns v as JSON without the escapes for HTML, which no response is: with them, a text
// of markup is six times as long.
func Marshal(v any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, fmt.Errorf("encode response: %w", err)
	}

	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}

// WriteJSON responds with v as JSON. It has written nothing when it returns an error.
func WriteJSON(w http.ResponseWriter, status int, v any) error {
	d := NewDocument(w, status)
	d.head = false
	data, err := Marshal(v)
	if err != nil {
		return err
	}

	if _, err := d.Write(data); err != nil {
		return err
	}

	return d.Close()
}

// Document is a JSON response that a handler writes part by part. The first 64 KiB are kept: until
// then the response can still become an error.
type Document struct {
	w      http.ResponseWriter
	status int
	head   bool
	begun  bool
	kept   []byte
	out    deadline.Writer // a stalled client must not keep a response in memory
	lost   bool            // the client has disconnected or does not read
}

// NewDocument returns an empty document.
func NewDocument(w http.ResponseWriter, status int) *Document {
	res := responseOf(w)
	return &Document{w: w, status: status, head: res != nil && res.head}
}

// Head reports whether the request is HEAD: nothing needs to be encoded for it.
func (d *Document) Head() bool { return d.head }

// Write appends a part. Its error is that of the function of [OnLarge].
func (d *Document) Write(p []byte) (int, error) {
	if !d.begun && len(d.kept)+len(p) <= largeJSON {
		d.kept = append(d.kept, p...)
		return len(p), nil
	}

	if !d.begun {
		if res := responseOf(d.w); res != nil && res.large != nil {
			if err := res.large(); err != nil {
				return 0, err
			}
		}

		d.begin()
		d.send(d.kept)
	}

	d.send(p)
	return len(p), nil
}

// Lost reports whether the client has disconnected or does not read: further parts are discarded.
func (d *Document) Lost() bool { return d.lost }

func (d *Document) begin() {
	d.begun = true
	h := d.w.Header()
	h["Content-Type"] = jsonType
	h["X-Content-Type-Options"] = noSniff
	d.w.WriteHeader(d.status)
	d.out = deadline.NewWriter(d.w, 0)
}

func (d *Document) send(p []byte) {
	if d.lost || len(p) == 0 {
		return
	}

	_, err := d.out.Write(p)
	d.lost = err != nil
}

// Close ends the document. Its error is nil also if the client has not read all of it.
func (d *Document) Close() error {
	if d.head {
		d.begin()
		return nil
	}

	if !d.begun {
		d.kept = append(d.kept, '\n')
		d.w.Header()["Content-Length"] = []string{strconv.Itoa(len(d.kept))}
		d.begin()
		d.send(d.kept)
		return nil
	}

	d.send([]byte("\n"))
	return nil
}
