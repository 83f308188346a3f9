package toolschema

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// shape is the form that the value of a keyword must have.
type shape uint8

const (
	aSchema shape = iota + 1
	aList         // of schemas, not empty
	aMap          // of schemas
	aText
	aFlag
	aNumber
	aCount    // an integer from 0
	someNames // different texts
	someTypes
	someValues // a list, not empty
	aReference
)

// keywords are those of draft 2020-12 whose values the APIs check. Other keywords have no meaning.
var keywords = map[string]shape{
	"additionalProperties": aSchema, "items": aSchema, "contains": aSchema, "propertyNames": aSchema, "not": aSchema, "if": aSchema,
	"then": aSchema, "else": aSchema, "unevaluatedItems": aSchema, "unevaluatedProperties": aSchema,
	"allOf": aList, "anyOf": aList, "oneOf": aList, "prefixItems": aList,
	"properties": aMap, "patternProperties": aMap, "dependentSchemas": aMap, "$defs": aMap, "definitions": aMap,
	"title": aText, "description": aText, "pattern": aText, "format": aText, "contentEncoding": aText, "contentMediaType": aText,
	"$schema": aText, "$id": aText, "$anchor": aText, "$comment": aText,
	"uniqueItems": aFlag, "deprecated": aFlag, "readOnly": aFlag, "writeOnly": aFlag,
	"minimum": aNumber, "maximum": aNumber, "exclusiveMinimum": aNumber, "exclusiveMaximum": aNumber, "multipleOf": aNumber,
	"minLength": aCount, "maxLength": aCount, "minItems": aCount, "maxItems": aCount, "minProperties": aCount, "maxProperties": aCount,
	"minContains": aCount, "maxContains": aCount,
	"required": someNames, "type": someTypes, "enum": someValues, "examples": someValues, "$ref": aReference,
}

// clean makes a schema one of draft 2020-12, whose arrays have items: earlier drafts have other
// forms of some keywords, and servers make mistakes. depth is the number of levels that it may
// have.
func (f *fitter) clean(s object, depth int) error {
	if depth == 0 {
		return errTooDeep
	}

	if list, ok := s["items"].([]any); ok { // a tuple of an earlier draft
		s["prefixItems"] = list
		delete(s, "items")
		if more, ok := s["additionalItems"]; ok {
			s["items"] = more
		}

		f.changed = true
	}

	for keyword, value := range s {
		keep, err := f.keep(keyword, value, depth)
		if err != nil {
			return err
		}

		if !keep {
			delete(s, keyword)
			f.changed = true
		}
	}

	list, _ := s["type"].([]any)
	if _, ok := s["items"]; !ok && (s["type"] == "array" || slices.Contains(list, any("array"))) {
		s["items"] = object{}
		f.changed = true
	}

	return nil
}

// keep cleans the schemas in the value of a keyword. It reports whether the value has the form that
// the keyword requires.
func (f *fitter) keep(keyword string, value any, depth int) (bool, error) {
	var ok bool
	switch keywords[keyword] {
	case aSchema:
		s, isMap := value.(object)
		if _, ok = value.(bool); !isMap {
			return ok, nil
		}

		return true, f.clean(s, depth-1)
	case aList:
		list, _ := value.([]any)
		for i := range list {
			if err := f.cleanMember(&list[i], depth-1); err != nil {
				return true, err
			}
		}

		return len(list) > 0, nil
	case aMap:
		members, ok := value.(object)
		for name, member := range members {
			if err := f.cleanMember(&member, depth-1); err != nil {
				return true, err
			}

			members[name] = member
		}

		return ok, nil
	case aText:
		_, ok = value.(string)
	case aFlag:
		_, ok = value.(bool)
	case aNumber:
		number, isNumber := value.(json.Number)
		n, _ := number.Float64() // infinite beyond the range
		ok = isNumber && (keyword != "multipleOf" || n > 0)
	case aCount:
		number, _ := value.(json.Number)
		_, err := strconv.ParseUint(number.String(), 10, 63)
		ok = err == nil
	case someNames, someTypes:
		ok = wellNamed(value, keywords[keyword])
	case someValues:
		list, _ := value.([]any)
		ok = len(list) > 0
	case aReference:
		// A property at the top may have another name than in the target of the reference.
		ref, isText := value.(string)
		_, ok = f.target(ref)
		ok = isText && !f.final || ok && (f.names == nil || strings.HasPrefix(ref, "#/$defs/") || strings.HasPrefix(ref, "#/definitions/"))
	default:
		ok = true
	}

	return ok, nil
}

// cleanMember cleans a schema in a list or a map. A value that is not a schema becomes one without
// rules.
func (f *fitter) cleanMember(member *any, depth int) error {
	switch s := (*member).(type) {
	case object:
		return f.clean(s, depth)
	case bool:
	default:
		*member = object{}
		f.changed = true
	}

	return nil
}

// wellNamed reports whether a value is a list of different names, or a type, or a list of types.
func wellNamed(value any, form shape) bool {
	list, ok := value.([]any)
	if text, isText := value.(string); isText && form == someTypes {
		list = []any{text}
		ok = true
	}

	known := map[string]bool{}
	for _, e := range list {
		name, isText := e.(string)
		if !isText || known[name] {
			return false
		}

		known[name] = true
		if form == someTypes && !slices.Contains([]string{"null", "boolean", "object", "array", "number", "string", "integer"}, name) {
			return false
		}
	}

	return ok && (form == someNames || len(list) > 0)
}
