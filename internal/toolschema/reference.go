package toolschema

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// object is a schema, or a part of one, as it is decoded.
type object = map[string]any

// document resolves references to schemas. References are compared as text, without normalization.
type document struct {
	root    object
	draft7  bool
	ids     map[string]object
	anchors map[string]anchor
}

// anchor is a subschema with a name.
type anchor struct {
	schema, base object
	ambiguous    bool // two subschemas have the name
}

func newDocument(root object) *document {
	d := &document{root: root, ids: map[string]object{}, anchors: map[string]anchor{}}
	version, _ := root["$schema"].(string)
	d.draft7 = strings.Contains(version, "/draft-0") // 04, 06 and 07
	d.index(root, root)
	return d
}

// index finds ids and anchors. It also visits values that are not schemas, such as those of an
// enum: an unused name has no effect, and a reference to a repeated name is an error.
func (d *document) index(value any, base object) {
	switch v := value.(type) {
	case object:
		if id, ok := v["$id"].(string); ok {
			if name, isAnchor := strings.CutPrefix(id, "#"); isAnchor {
				d.name(name, v, base)
			} else {
				base = v
				d.ids[strings.TrimSuffix(id, "#")] = v
			}
		}

		for _, key := range []string{"$anchor", "$dynamicAnchor"} {
			if name, ok := v[key].(string); ok {
				d.name(name, v, base)
			}
		}

		for _, child := range v {
			d.index(child, base)
		}
	case []any:
		for _, child := range v {
			d.index(child, base)
		}
	}
}

func (d *document) name(name string, schema, base object) {
	_, taken := d.anchors[name]
	d.anchors[name] = anchor{schema, base, taken}
}

// find returns the schema that a reference names, and the base of the references in it.
func (d *document) find(reference string, base object) (any, object, error) {
	id, fragment, _ := strings.Cut(reference, "#")
	if id != "" {
		var ok bool
		if base, ok = d.ids[id]; !ok {
			return nil, nil, fmt.Errorf("%w: reference to another document: %.80q", ErrUnsupported, reference)
		}
	}

	fragment, err := url.PathUnescape(fragment)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}

	if fragment != "" && fragment[0] != '/' {
		a, ok := d.anchors[fragment]
		if !ok || a.ambiguous {
			return nil, nil, fmt.Errorf("%w: reference to no anchor or several: %.80q", ErrUnsupported, reference)
		}

		return a.schema, a.base, nil
	}

	var schema any = base
	if fragment == "" {
		return schema, base, nil
	}

	for segment := range strings.SplitSeq(fragment[1:], "/") {
		segment = strings.ReplaceAll(strings.ReplaceAll(segment, "~1", "/"), "~0", "~")
		var ok bool
		if schema, ok = child(schema, segment); !ok {
			return nil, nil, fmt.Errorf("%w: reference to nothing: %.80q", ErrUnsupported, reference)
		}

		if o, isObject := schema.(object); isObject && establishesBase(o) {
			base = o
		}
	}

	return schema, base, nil
}

func child(value any, segment string) (any, bool) {
	switch v := value.(type) {
	case object:
		c, ok := v[segment]
		return c, ok
	case []any:
		if i, err := strconv.ParseUint(segment, 10, 31); err == nil && int(i) < len(v) {
			return v[i], true
		}
	}

	return nil, false
}

// establishesBase reports whether references in the schema are relative to it.
func establishesBase(schema object) bool {
	id, ok := schema["$id"].(string)
	return ok && !strings.HasPrefix(id, "#")
}

// target is the value that a subschema applies to.
type target int

const (
	asserts    target = iota // the keyword has no subschema
	same                     // the same value
	property                 // one property; at most one of these keywords applies to it
	properties               // each property, in addition to other keywords
	item                     // one item of an array; at most one of these keywords applies to it
	items                    // each item, in addition to other keywords
)

// keyword describes how a keyword is expanded. Subschemas are the value itself, the elements of an
// array, or the values of an object.
type keyword struct {
	target target
	fields bool // an object is a set of named subschemas, not a subschema
	scan   int  // cost per byte of a value: error texts contain the value
}

// Bytes of error text for each byte of the value, in the units of [cost].
const (
	printed = 4
	quoted  = 20 // and read as characters before
)

// implemented are the keywords of the validator. The others, such as titles and examples, are not
// part of an expanded schema.
var implemented = map[string]keyword{
	"type": {scan: printed}, "enum": {scan: printed}, "const": {scan: printed},
	"multipleOf": {}, "minimum": {}, "maximum": {}, "exclusiveMinimum": {}, "exclusiveMaximum": {},
	"minLength": {scan: quoted}, "maxLength": {scan: quoted}, "pattern": {scan: quoted},
	"minItems": {}, "maxItems": {}, "uniqueItems": {scan: printed}, "minContains": {}, "maxContains": {},
	"minProperties": {}, "maxProperties": {}, "required": {}, "dependentRequired": {},

	"allOf": {target: same}, "anyOf": {target: same}, "oneOf": {target: same}, "not": {target: same},
	"if": {target: same}, "then": {target: same}, "else": {target: same},
	"dependentSchemas": {target: same, fields: true}, "dependencies": {target: same, fields: true},

	"properties":            {target: property, fields: true},
	"additionalProperties":  {target: property, scan: printed},
	"patternProperties":     {target: properties, fields: true},
	"unevaluatedProperties": {target: properties},
	"propertyNames":         {target: properties},

	"items": {target: item}, "prefixItems": {target: item}, "additionalItems": {target: item},
	"contains": {target: items, scan: printed}, "unevaluatedItems": {target: items},
}
