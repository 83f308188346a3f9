package toolschema

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/seed93082962/agenthost/internal/jsonlimit"
)

// Coerce returns an input whose values have the types that the schema permits. A value is replaced
// only where the schema does not permit its type, and only if it has one reading of a type that is
// permitted. A valid input keeps its meaning.
//
// If the result is not valid, or if ctx ends first, Coerce returns the input.
func (s *Schema) Coerce(ctx context.Context, input json.RawMessage) json.RawMessage {
	done := make(chan json.RawMessage, 1)
	go func() { done <- s.coerce(input) }()
	select {
	case coerced := <-done:
		return coerced
	case <-ctx.Done():
		return input
	}
}

func (s *Schema) coerce(input json.RawMessage) (coerced json.RawMessage) {
	defer func() {
		if recover() != nil {
			coerced = input // Validate reports the panic
		}
	}()
	c, value := s.read(input)
	if c == nil || !c.changed {
		return input
	}

	text, err := encode(value)
	if err != nil || s.validate(text) != nil {
		return input
	}

	return text
}

// remedy returns what to send instead of an input that is not valid, or "".
func (s *Schema) remedy(input json.RawMessage) string {
	c, _ := s.read(input)
	if c == nil {
		return ""
	}

	return strings.Join(c.remedies, "; ")
}

// read coerces the values of an input. It returns nil for an input that cannot be validated.
func (s *Schema) read(input json.RawMessage) (*coercion, any) {
	limit := s.limit()
	if limit.Check(input) != nil {
		return nil, nil
	}

	value, err := decode(input)
	if err != nil {
		return nil, nil
	}

	validator, err := s.validator()
	if err != nil {
		return nil, nil
	}

	c := &coercion{limit: limit}
	return c, c.value(validator.Schema(), value, "")
}

// coercion is the coercion of one input.
type coercion struct {
	limit    jsonlimit.Limit // of a JSON text in a string
	changed  bool
	remedies []string // for values without a reading
}

// maxRemedies bounds the remedies of one error.
const maxRemedies = 5

// value coerces a value with the values in it. It changes objects and arrays in place. path is that
// of the value, such as todos[0].status.
func (c *coercion) value(s *jsonschema.Schema, value any, path string) any {
	if allowed := permitted(s); kindOf(value)&allowed == 0 {
		read, ok := c.reading(value, allowed)
		if !ok {
			c.advise(value, allowed, path)
			return value
		}

		value = read
		c.changed = true
	}

	switch v := value.(type) {
	case object:
		for _, name := range sortedKeys(v) {
			c.member(s, v, name, path)
		}
	case []any:
		for i := range v {
			v[i] = c.value(schemaOfElement(s, v, i), v[i], fmt.Sprintf("%s[%d]", path, i))
		}
	}

	return value
}

// member coerces a member of an object. A null is the absence of an optional property.
func (c *coercion) member(s *jsonschema.Schema, o object, name, path string) {
	sub := schemaOfMember(s, o, name)
	if o[name] == nil && permitted(sub)&kindNull == 0 && !requires(s, name) {
		delete(o, name)
		c.changed = true
		return
	}

	if path != "" {
		path += "."
	}

	o[name] = c.value(sub, o[name], path+name)
}

// reading returns the only reading of a value among the types that are allowed.
func (c *coercion) reading(value any, allowed kinds) (any, bool) {
	switch v := value.(type) {
	case string:
		read, err := c.parse(v)
		if n, ok := read.(json.Number); ok && allowed&kindFloat == 0 {
			read = whole(n)
		}

		return read, err == nil && kindOf(read)&allowed != 0
	case json.Number:
		if allowed&kindInteger != 0 {
			return whole(v), kindOf(whole(v)) == kindInteger
		}

		// The text of a number with an exponent could be that of another form.
		return v.String(), allowed&^kindNull == kindString && !strings.ContainsAny(v.String(), "eE")
	case bool:
		return strconv.FormatBool(v), allowed&^kindNull == kindString
	}

	return nil, false
}

// parse reads a text as JSON. Models also write the truth values of Python.
func (c *coercion) parse(text string) (any, error) {
	switch text {
	case "True":
		return true, nil
	case "False":
		return false, nil
	}

	compact, err := c.limit.Compact([]byte(text))
	if err != nil {
		return nil, err
	}

	return decode(compact)
}

// advise adds what to send instead of a value.
func (c *coercion) advise(value any, allowed kinds, path string) {
	if len(c.remedies) == maxRemedies {
		return
	}

	if allowed == 0 {
		c.remedies = append(c.remedies, fmt.Sprintf("leave out %.200s", path))
		return
	}

	c.remedies = append(c.remedies, fmt.Sprintf("send %.200s as %v, not as %v", path, allowed, kindOf(value)))
}

// schemaOfMember returns the schema of a member of an object, or nil if there is none.
func schemaOfMember(s *jsonschema.Schema, o object, name string) *jsonschema.Schema {
	if s == nil {
		return nil
	}

	own := s.Properties[name]
	if own == nil && len(s.PatternProperties) == 0 {
		own = s.AdditionalProperties
	}

	return below(s, own, o, func(member *jsonschema.Schema) *jsonschema.Schema { return schemaOfMember(member, o, name) })
}

// schemaOfElement returns the schema of an element of an array, or nil if there is none.
func schemaOfElement(s *jsonschema.Schema, list []any, i int) *jsonschema.Schema {
	if s == nil {
		return nil
	}

	own := s.Items
	if s.ItemsArray != nil {
		own = s.AdditionalItems
	}

	if first := append(slices.Clip(s.PrefixItems), s.ItemsArray...); i < len(first) {
		own = first[i]
	}

	return below(s, own, list, func(member *jsonschema.Schema) *jsonschema.Schema { return schemaOfElement(member, list, i) })
}

// below combines the schema that s has for a part of a value with those that the members of its
// unions have for it.
func below(s, own *jsonschema.Schema, value any, part func(*jsonschema.Schema) *jsonschema.Schema) *jsonschema.Schema {
	var all []*jsonschema.Schema
	if own != nil {
		all = append(all, own)
	}

	for _, member := range s.AllOf {
		if sub := part(member); sub != nil {
			all = append(all, sub)
		}
	}

	for _, union := range [][]*jsonschema.Schema{s.AnyOf, s.OneOf} {
		var parts []*jsonschema.Schema
		for _, member := range alternatives(union, value) {
			parts = append(parts, part(member))
		}

		if len(parts) > 0 && !slices.Contains(parts, nil) {
			all = append(all, &jsonschema.Schema{AnyOf: parts})
		}
	}

	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}

	return &jsonschema.Schema{AllOf: all}
}

// alternatives returns the members of a union that a value may match: those of its type, and of
// these the ones whose constants and required properties an object has.
func alternatives(union []*jsonschema.Schema, value any) []*jsonschema.Schema {
	var sameType, matching []*jsonschema.Schema
	o, _ := value.(object)
	for _, member := range union {
		if permitted(member)&kindOf(value) == 0 {
			continue
		}

		sameType = append(sameType, member)
		if !excludes(member, o) {
			matching = append(matching, member)
		}
	}

	if len(matching) > 0 {
		return matching
	}

	return sameType
}

// excludes reports whether an object lacks a required property, or has another text than the
// schema requires.
func excludes(s *jsonschema.Schema, o object) bool {
	for _, name := range s.Required {
		if _, ok := o[name]; !ok {
			return true
		}
	}

	for name, sub := range s.Properties {
		text, isText := o[name].(string)
		if texts := constants(sub); isText && texts != nil && !slices.Contains(texts, any(text)) {
			return true
		}
	}

	return slices.ContainsFunc(s.AllOf, func(member *jsonschema.Schema) bool { return excludes(member, o) })
}

// constants returns the only values that a schema permits, or nil.
func constants(s *jsonschema.Schema) []any {
	if s.Const != nil {
		return []any{*s.Const}
	}

	return s.Enum
}

func requires(s *jsonschema.Schema, name string) bool {
	return s != nil && (slices.Contains(s.Required, name) ||
		slices.ContainsFunc(s.AllOf, func(member *jsonschema.Schema) bool { return requires(member, name) }))
}
