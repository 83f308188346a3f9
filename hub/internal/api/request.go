package api

import (
	"bytes"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
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

// DecodeEncoded is Decode for a body with bytes in base64, whose number encoded returns. Without
// them, the body may have 1 MiB.
func DecodeEncoded[T any](w http.ResponseWriter, r *http.Request, encoded func(T) int64) (T, error) {
	var zero T
	data, err := readJSON(w, r)
	if err != nil {
		return zero, err
	}

	if len(data) > defaultBodyLimit {
		if err := TakeMemory(r, int64(len(data)/4*3)); err != nil { // of the decoded bytes
			return zero, err
		}
	}

	value, err := decode[T](r, data)
	if err == nil && int64(len(data))-encoded(value) > defaultBodyLimit {
		err = httpapi.ErrTooLarge
	}

	return value, err
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
func decode[T any](r *http.Request, data []byte) (T, error) {
	var zero T
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
			return nil, code.UnsupportedMedia
		}

		if charset, ok := params["charset"]; ok && !strings.EqualFold(charset, "utf-8") {
			return nil, code.UnsupportedMedia.New("The body must be JSON in UTF-8: send \"Content-Type: application/json\".")
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

func parse[T any](data []byte, into func(data []byte, v any) error) (T, error) {
	if hasNUL(data) {
		var value T
		return value, wire.InvalidRequest.New("The body must not contain the character U+0000.")
	}

	var v *T // nil for null
	if err := into(data, &v); err != nil {
		var value T
		return value, err
	}

	if v == nil {
		var value T
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
