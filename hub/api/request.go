package api

import (
	"bytes"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/internal/httpapi"
	"github.com/seed93082962/agenthost/internal/paging"
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
	return parse[T](data, httpapi.ParseJSON)
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
	return parse[T](data, httpapi.ParseJSON)
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

func parse[T any](data []byte, into func(data []byte, v any) error) (value T, err error) {
	if hasNUL(data) {
		return value, InvalidRequest.New("The body must not contain the character U+0000.")
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
	text.WriteString(string(ValidationFailed))
	for _, name := range slices.Sorted(maps.Keys(f)) {
		fmt.Fprintf(&text, ": %s %s", name, f[name])
	}
	return text.String()
}

// Is reports whether target is ValidationFailed.
func (f Fields) Is(target error) bool { return target == ValidationFailed }

// Err returns the fields as an error, or nil if all fields are valid.
func (f Fields) Err() error {
	if len(f) == 0 {
		return nil
	}
	return f
}

// Add adds a field with the reason, in words that follow the name of the field: "must be ...". The
// first reason is kept.
func (f Fields) Add(field, reason string) {
	if _, ok := f[field]; !ok {
		f[field] = reason
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

// maxPage is the largest number of a page, so that its offset does not overflow. No list is as
// long.
const maxPage = 1 << 40

// Page is a page of a list. The first page has the number 1.
type Page struct {
	Number, Size int
	Query        string // q: the text that a listed item contains, in any letter case; "" for all items
}

// Offset returns the number of items before the page.
func (p Page) Offset() int { return (p.Number - 1) * p.Size }

// maxQuery is the number of characters of q.
const maxQuery = 200

// Paging parses page, page_size and q of the query. A list that cannot be searched ignores q. If a
// parameter is missing or empty, it is 1 or 20. A size above 100 is 100. The error is 400
// invalid_request if a parameter is not an integer of at least 1.
func Paging(r *http.Request) (Page, error) {
	first := Page{Number: 1, Size: paging.DefaultSize}
	if r.URL.RawQuery == "" {
		return first, nil
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return first, InvalidRequest.New("The query string is malformed: escape it as in a URL.")
	}
	number, validNumber := paging.Number(query.Get("page"))
	size, validSize := paging.Size(query.Get("page_size"))
	invalid := map[string]string{}
	if !validNumber {
		invalid["page"] = paging.Want
	}
	if !validSize {
		invalid["page_size"] = paging.Want
	}
	if len(invalid) > 0 {
		return first, &Error{Code: InvalidRequest, Data: fieldErrors{invalid}, Message: "page and page_size must be integers of at least 1."}
	}
	q := query.Get("q")
	if !utf8.ValidString(q) || strings.ContainsRune(q, 0) || utf8.RuneCountInString(q) > maxQuery {
		return first, &Error{Code: InvalidRequest, Data: fieldErrors{map[string]string{"q": "must be UTF-8 of at most 200 characters"}}}
	}
	return Page{Number: int(min(number, maxPage)), Size: size, Query: q}, nil
}

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
