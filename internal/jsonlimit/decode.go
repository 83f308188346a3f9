package jsonlimit

import (
	"bytes"
	"encoding/base64"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// exact are the options of encoding/json, but names are compared exactly and occur once.
var exact = json.JoinOptions(jsonv1.DefaultOptionsV1(), jsonv1.ReportErrorsWithLegacySemantics(false), json.MatchCaseInsensitiveNames(false), jsontext.AllowDuplicateNames(false))

// Error describes JSON that cannot be decoded to its author. It names no type of Go.
type Error struct {
	Field   string // such as tools[0].name; "" for the whole
	Message string // follows the field: "must be a string, not a number"
}

func (e *Error) Error() string {
	if e.Field == "" {
		return e.Message
	}

	return e.Field + " " + e.Message
}

// Unmarshal decodes JSON as encoding/json does, except that the names of members are compared
// exactly, and that a member that occurs twice, also an unknown one, is an error. The error is an
// [*Error], or that of a method UnmarshalJSON.
func Unmarshal(data []byte, v any) error {
	err := json.Unmarshal(data, v, exact)
	if err == nil {
		return nil
	}

	return describe(err)
}

// UnmarshalAs is Unmarshal for a type that need not have tags: if a field of it has none, names are
// compared in any letter case, and a field occurs once.
func UnmarshalAs[T any](data []byte) (T, error) {
	var v T
	err := json.Unmarshal(data, &v, exact, json.MatchCaseInsensitiveNames(!tagged(reflect.TypeFor[T](), nil)))
	if err != nil {
		return v, describe(err)
	}

	return v, nil
}

// tagged reports whether all fields that are decoded have the name of a member in a tag.
func tagged(t reflect.Type, seen []reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return tagged(t.Elem(), seen)
	case reflect.Struct:
	default:
		return true
	}

	if slices.Contains(seen, t) || reflect.PointerTo(t).Implements(reflect.TypeFor[stdjson.Unmarshaler]()) {
		return true
	}

	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && name == "" && !f.Anonymous || name != "-" && !tagged(f.Type, append(seen, t)) {
			return false
		}
	}

	return true
}

// Members returns the members of a JSON object, whose names occur once. Unlike [Unmarshal], it does
// not look into their values, which are parts of data.
func Members(data []byte) (map[string]stdjson.RawMessage, error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true))
	if begin, err := d.ReadToken(); err != nil || begin.Kind() != '{' {
		return nil, &Error{Message: "must be an object"}
	}

	all := map[string]stdjson.RawMessage{}
	for d.PeekKind() == '"' {
		token, err := d.ReadToken()
		if err != nil {
			return nil, describe(err)
		}

		name := token.String()
		if _, twice := all[name]; twice {
			return nil, &Error{Field: name, Message: "must not occur twice"}
		}

		value, err := d.ReadValue()
		if err != nil {
			return nil, describe(err)
		}

		end := d.InputOffset()
		all[name] = data[end-int64(len(value)) : end : end]
	}

	if _, err := d.ReadToken(); err != nil { // the end of the object, or what is not a name
		return nil, describe(err)
	}

	if _, err := d.ReadToken(); err != io.EOF { //nolint:errorlint // the decoder returns it unwrapped
		return nil, &Error{Message: "must be one object"}
	}

	return all, nil
}

// describe returns the error of a decoder for the author of the JSON.
func describe(err error) error {
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return describeSyntax(syntax)
	}

	semantic, ok := errors.AsType[*json.SemanticError](err)
	if !ok {
		return err
	}

	field := fieldOf(semantic.JSONPointer)
	if inner, ok := errors.AsType[*Error](semantic.Err); ok { // of a method UnmarshalJSON
		return &Error{Field: join(field, inner.Field), Message: inner.Message}
	}

	if _, ok := errors.AsType[*time.ParseError](semantic.Err); ok {
		return &Error{Field: field, Message: "must be a time in the form of RFC 3339, such as 2006-01-02T15:04:05Z"}
	}

	if _, ok := errors.AsType[base64.CorruptInputError](semantic.Err); ok {
		return &Error{Field: field, Message: "must be base64"}
	}

	if semantic.JSONKind != 0 && semantic.GoType != nil && (semantic.Err == nil || numeric(semantic.GoType)) {
		return &Error{Field: field, Message: "must be " + kindOf(semantic.GoType) + ", not " + kindOfJSON(semantic)}
	}

	if semantic.Err != nil {
		return semantic.Err // of a method UnmarshalJSON, for the author
	}

	return &Error{Field: field, Message: "has a value that is not possible"}
}

func describeSyntax(err *jsontext.SyntacticError) error {
	if errors.Is(err.Err, jsontext.ErrDuplicateName) {
		return &Error{Field: fieldOf(err.JSONPointer), Message: "must not occur twice"}
	}

	if errors.Is(err.Err, io.ErrUnexpectedEOF) || errors.Is(err.Err, io.EOF) {
		return &Error{Message: fmt.Sprintf("is not JSON: unexpected end of JSON input at byte %d", err.ByteOffset)}
	}

	return &Error{Message: fmt.Sprintf("is not JSON: %v at byte %d", err.Err, err.ByteOffset)}
}

func join(outer, inner string) string {
	switch {
	case outer == "" || inner == "":
		return outer + inner
	case inner[0] == '[':
		return outer + inner
	}

	return outer + "." + inner
}

// fieldOf returns a pointer in the form of the fields of errors.
func fieldOf(pointer jsontext.Pointer) string {
	var field strings.Builder
	for token := range pointer.Tokens() {
		switch {
		case strings.Trim(token, "0123456789") == "":
			field.WriteString("[" + token + "]")
		case field.Len() > 0:
			field.WriteString("." + token)
		default:
			field.WriteString(token)
		}
	}

	return field.String()
}

func numeric(t reflect.Type) bool { return t.Kind() >= reflect.Int && t.Kind() <= reflect.Float64 }

func kindOfJSON(err *json.SemanticError) string {
	switch err.JSONKind {
	case 'n':
		return "null"
	case 't', 'f':
		return "bool"
	case '"':
		return "string"
	case '0':
		if len(err.JSONValue) > 0 {
			return "number " + string(err.JSONValue)
		}

		return "number"
	case '[':
		return "array"
	default:
		return "object"
	}
}

// kindOf returns the type of JSON for a type of Go.
func kindOf(t reflect.Type) string {
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
