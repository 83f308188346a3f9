package toolschema

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// kinds is a set of JSON types.
type kinds uint8

const (
	kindNull kinds = 1 << iota
	kindBoolean
	kindInteger
	kindFloat // any other number
	kindString
	kindArray
	kindObject
	kindAny kinds = 1<<iota - 1
)

// kindNames has the types as schemas name them. The last one of a set names it.
var kindNames = []struct {
	name, text string
	kinds      kinds
}{
	{"null", "null", kindNull}, {"boolean", "a boolean", kindBoolean}, {"number", "a number", kindInteger | kindFloat},
	{"integer", "an integer", kindInteger}, {"string", "a string", kindString}, {"array", "an array", kindArray},
	{"object", "an object", kindObject},
}

// String returns the types for an error: "a string or null".
func (k kinds) String() string {
	var texts []string
	for _, t := range kindNames {
		if k&t.kinds != 0 && (t.kinds != kindInteger || k&kindFloat == 0) && (t.name != "number" || k&kindFloat != 0) {
			texts = append(texts, t.text)
		}
	}

	return strings.Join(texts, " or ")
}

// kindOf returns the type of a value that decode returns.
func kindOf(value any) kinds {
	switch v := value.(type) {
	case bool:
		return kindBoolean
	case string:
		return kindString
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return kindFloat
		}

		return kindInteger
	case float64: // in a schema, whose numbers are not compared
		return kindInteger | kindFloat
	case []any:
		return kindArray
	case object:
		return kindObject
	}

	return kindNull
}

// whole returns a number whose fraction is zero without it: some models write every number with
// one.
func whole(n json.Number) json.Number {
	integer, fraction, _ := strings.Cut(n.String(), ".")
	if strings.Trim(fraction, "0") != "" {
		return n
	}

	return json.Number(integer)
}

// permitted returns the types that a schema may permit. It is never less than the schema permits.
func permitted(s *jsonschema.Schema) kinds {
	if s == nil {
		return kindAny
	}

	if s.Not != nil && reflect.ValueOf(*s.Not).IsZero() {
		return 0 // the schema false
	}

	k := kindAny
	for _, t := range kindNames {
		if t.name == s.Type {
			k = t.kinds
		}
	}

	if s.Types != nil {
		k = 0
		for _, name := range s.Types {
			k |= permitted(&jsonschema.Schema{Type: name})
		}
	}

	if values := constants(s); values != nil {
		var listed kinds
		for _, value := range values {
			listed |= kindOf(value)
		}

		k &= listed
	}

	for _, member := range s.AllOf {
		k &= permitted(member)
	}

	for _, union := range [][]*jsonschema.Schema{s.AnyOf, s.OneOf} {
		var either kinds
		for _, member := range union {
			either |= permitted(member)
		}

		if len(union) > 0 {
			k &= either
		}
	}

	return k
}
