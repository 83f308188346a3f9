package schema

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

// keywords are those that the validator implements. The others, such as titles and examples, are
// not part of an expanded schema.
var keywords = map[string]keyword{
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
