package api

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/excerpt"
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
	return decode[T](r, data)
}

// DecodeLists is Decode for a T whose lists bound their own memory while they are decoded: the body
// may have 2,000,000 values. More are 413.
func DecodeLists[T any](w http.ResponseWriter, r *http.Request) (T, error) {
	var zero T
	data, err := readJSON(w, r)
	if err != nil {
		return zero, err
	}
	return parse[T](data, httpapi.ParseLists)
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
	return decode[T](r, data)
}

// decode takes the memory of the values of a body, and decodes it.
func decode[T any](r *http.Request, data []byte) (zero T, err error) {
	if c := callOf(r); c != nil {
		if err := c.takeMemory(r, valueBytes*int64(httpapi.CountValues(data))); err != nil {
			return zero, err
		}
	}
	return parse[T](data, httpapi.ParseJSON)
}

func readJSON(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if declared := r.Header.Get("Content-Type"); declared != "" && r.ContentLength != 0 {
		kind, params, err := mime.ParseMediaType(declared)
		if err != nil || !isJSON(kind) {
			return nil, wire.UnsupportedMedia
		}
		if charset, ok := params["charset"]; ok && !strings.EqualFold(charset, "utf-8") {
			return nil, wire.UnsupportedMedia.New("The body must be JSON in UTF-8: send \"Content-Type: application/json\".")
		}
	}
	return ReadBody(w, r)
}

// ReadBody returns the whole body, whose memory is taken as it is read. It fails with 413 for a
// body over the limit of the route.
func ReadBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	c := callOf(r)
	if c == nil {
		return httpapi.ReadBody(w, r, defaultBodyLimit)
	}
	body := &takingBody{ReadCloser: r.Body, call: c, r: r}
	taking := *r
	taking.Body = body
	data, err := httpapi.ReadBody(w, &taking, c.route.BodyLimit)
	if body.err != nil {
		return nil, body.err
	}
	return data, err
}

// takingBody is a body that takes memory before it is read.
type takingBody struct {
	io.ReadCloser

	call *call
	r    *http.Request
	left int64 // that is taken and not read
	err  error
}

// bodyStep is the number of bytes of a body whose memory is taken together.
const bodyStep = 64 << 10

func (b *takingBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		step := int64(bodyStep)
		if b.r.ContentLength > 0 {
			step = min(step, b.r.ContentLength)
		}
		if b.err = b.call.takeMemory(b.r, step); b.err != nil {
			return 0, b.err
		}
		b.left = step
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

func isJSON(kind string) bool {
	return kind == "application/json" || strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json")
}

func parse[T any](data []byte, into func(data []byte, v any) error) (value T, err error) {
	if hasNUL(data) {
		return value, wire.InvalidRequest.New("The body must not contain the character U+0000.")
	}
	var v *T // nil for null
	if err := into(data, &v); err != nil {
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

// Encode responds with v as JSON. Nothing is encoded for HEAD. It writes nothing if it returns an
// error, except for a [List] of more than 64 KiB.
func Encode[T any](w http.ResponseWriter, status int, v T) error { return encode(w, nil, status, v) }

// encode is Encode for a page of a list.
func encode[T any](w http.ResponseWriter, page *Page, status int, v T) error {
	document := httpapi.NewDocument(w, status)
	if document.Head() {
		return document.Close()
	}
	if list, ok := any(&v).(lister); ok {
		return list.write(document, page, &v)
	}
	return httpapi.WriteJSON(w, status, v)
}

// NoContent responds with 204.
func NoContent(w http.ResponseWriter) error {
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// Fields are the invalid fields of a request, by the name of the field, with the reason. The
// response is 400 validation_failed with all of them in data.fields. A handler checks every field
// before it returns them:
//
//	invalid := api.Fields{}
//	name := invalid.Line("name", in.Name, 1, 64)
//	note := invalid.Text("note", in.Note, 0, 2000)
//	if err := invalid.Err(); err != nil {
//		return err
//	}
type Fields map[string]string

func (f Fields) Error() string {
	var text strings.Builder
	text.WriteString(string(wire.ValidationFailed))
	for _, name := range slices.Sorted(maps.Keys(f)) {
		fmt.Fprintf(&text, ": %s %s", name, f[name])
	}
	return text.String()
}

// Is reports whether target is ValidationFailed.
func (f Fields) Is(target error) bool { return target == wire.ValidationFailed }

// Err returns the fields as an error, or nil if all fields are valid.
func (f Fields) Err() error {
	if len(f) == 0 {
		return nil
	}
	return f
}

// Limits of the fields of an error, which a client chooses.
const (
	maxFields = 100
	maxField  = 300 // bytes of a name, and of a reason
)

// Add adds a field with the reason, in words that follow the name of the field: "must be ...". The
// first reason is kept, and the first 100 fields.
func (f Fields) Add(field, reason string) {
	field = excerpt.Shorten(field, maxField)
	if _, ok := f[field]; !ok && len(f) < maxFields {
		f[field] = excerpt.Shorten(reason, maxField)
	}
}

// AddError is Add with the text of an error, unless it is nil.
func (f Fields) AddError(field string, err error) {
	if err != nil {
		f.Add(field, err.Error())
	}
}

// Line checks a text of one line, such as a name, and returns it without surrounding white space.
// The text must have least to most characters, and no control characters, bidirectional controls or
// invisible characters, except joiners within words and emoji and variation selectors. A text that
// is not empty must have a visible character.
func (f Fields) Line(field, value string, least, most int) string {
	return f.check(field, value, least, most, "")
}

// Text is Line for a text that may contain line breaks and tabs.
func (f Fields) Text(field, value string, least, most int) string {
	return f.check(field, value, least, most, "\n\r\t")
}

func (f Fields) check(field, value string, least, most int, also string) string {
	if !utf8.ValidString(value) {
		f.Add(field, "must be valid UTF-8")
		return ""
	}
	value = strings.TrimSpace(value)
	switch n := utf8.RuneCountInString(value); {
	case n == 0 && least > 0:
		f.Add(field, "must not be empty")
	case n < least:
		f.Add(field, fmt.Sprintf("must have at least %d characters", least))
	case n > most:
		f.Add(field, fmt.Sprintf("must have at most %d characters", most))
	case strings.ContainsFunc(value, func(c rune) bool { return isControl(c) && !strings.ContainsRune(also, c) }):
		f.Add(field, "must not have control characters")
	case hasInvisible(value):
		f.Add(field, "must not have invisible characters")
	case n > 0 && !strings.ContainsFunc(value, isVisible):
		f.Add(field, "must have a visible character")
	}
	return value
}

// Plain returns untrusted text in a form that can be stored and displayed: U+FFFD replaces the
// control characters that Line rejects.
func Plain(text string) string {
	return strings.Map(func(c rune) rune {
		if isControl(c) {
			return utf8.RuneError
		}
		return c
	}, text)
}

// isControl reports whether c is a control character, a line or paragraph separator, or a
// bidirectional control, with which one name can look like another.
func isControl(c rune) bool {
	return unicode.In(c, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control)
}

const (
	nonJoiner    = '\u200c'
	joiner       = '\u200d'
	keycap       = '\u20e3' // combines with the digit before it
	blankBraille = '\u2800'
)

// hasInvisible reports whether value contains a character that displays nothing and does not change
// its neighbors: format characters (category Cf), such as a zero-width space, and fillers.
// Prepended marks of Arabic and Syriac numbers are visible.
func hasInvisible(value string) bool {
	chars := []rune(value)
	at := func(i int) rune {
		if i < 0 || i >= len(chars) {
			return 0
		}
		return chars[i]
	}
	for i, c := range chars {
		switch {
		case c == nonJoiner || c == joiner:
			if !joins(at(i-1)) || !joins(at(i+1)) {
				return true
			}
		case unicode.Is(unicode.Variation_Selector, c):
			if !varies(at(i-1)) && at(i+1) != keycap {
				return true
			}
		case c == blankBraille, unicode.Is(unicode.Other_Default_Ignorable_Code_Point, c),
			unicode.Is(unicode.Cf, c) && !unicode.Is(unicode.Prepended_Concatenation_Mark, c):
			return true
		}
	}
	return false
}

// joins reports whether a joiner or non-joiner next to c has an effect: c is a letter or a part of
// an emoji.
func joins(c rune) bool { return unicode.In(c, unicode.L, unicode.M, unicode.S) }

// varies reports whether a variation selector after c has an effect: c is a symbol with an emoji
// form, or a character of a script with variants.
func varies(c rune) bool {
	return c > unicode.MaxASCII && unicode.Is(unicode.S, c) || strings.ContainsRune("‼⁉〰ℹ", c) ||
		unicode.In(c, unicode.Han, unicode.Mongolian, unicode.Phags_Pa, unicode.Myanmar) && !unicode.Is(unicode.Variation_Selector, c)
}

// isVisible reports whether c is displayed by itself, which combining marks are not.
func isVisible(c rune) bool { return unicode.In(c, unicode.L, unicode.N, unicode.P, unicode.S) }

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
		return nil, nil // nil is the documented value of no condition
	}
	value := strings.TrimSpace(strings.Join(values, ","))
	if inner, ok := strings.CutPrefix(value, `"`); ok {
		if value, ok = strings.CutSuffix(inner, `"`); !ok {
			return nil, wire.PreconditionFailed
		}
	}
	for _, c := range []byte(value) {
		if c < '0' || c > '9' {
			return nil, wire.PreconditionFailed // a sign, a list, or a tag that this server did not make
		}
	}
	version, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return nil, wire.PreconditionFailed
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
