package modeltest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// The input schemas of tools that the vendors accept: rules and texts from published error reports.

var propertyName = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)

// anthropicSchema checks the schema of tool i. The names of nested properties are not checked.
func anthropicSchema(i int, raw json.RawMessage) *refusal {
	var schema map[string]any
	if json.Unmarshal(raw, &schema) != nil || schema["type"] != "object" {
		return bad("tools.%d.custom.input_schema.type: Input should be 'object'", i)
	}

	for _, keyword := range []string{"oneOf", "allOf", "anyOf"} {
		if _, ok := schema[keyword]; ok {
			return bad("tools.%d.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level", i)
		}
	}

	properties, _ := schema["properties"].(map[string]any)
	for name := range properties {
		if !propertyName.MatchString(name) {
			return bad("tools.%d.custom.input_schema.properties: Property keys should match pattern '%s'", i, propertyName)
		}
	}

	if wrong := invalidSchema(schema, nil, false); wrong != "" {
		return bad("tools.%d.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12 (%s)", i, wrong)
	}

	return nil
}

// openaiSchema checks the schema of a function.
func openaiSchema(name string, raw json.RawMessage) *refusal {
	var schema map[string]any
	if json.Unmarshal(raw, &schema) != nil || schema["type"] != "object" {
		return bad("Invalid schema for function '%s': schema must be a JSON Schema of 'type: \"object\"'.", name)
	}

	for _, keyword := range []string{"oneOf", "anyOf", "allOf", "enum", "not"} {
		if _, ok := schema[keyword]; ok {
			return bad("Invalid schema for function '%s': schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level.", name)
		}
	}

	if schema["properties"] == nil {
		return bad("Invalid schema for function '%s': In context=(), object schema missing properties.", name)
	}

	if wrong := invalidSchema(schema, nil, true); wrong != "" {
		return bad("Invalid schema for function '%s': %s.", name, wrong)
	}

	return nil
}

// invalidSchema returns the reason why a schema is not one of draft 2020-12, or "". If items is
// set, every array must have them.
func invalidSchema(v any, path []string, items bool) string {
	schema, ok := v.(map[string]any)
	if !ok {
		if _, ok := v.(bool); ok {
			return ""
		}

		return fmt.Sprintf("In context=(%s), %v is not of type 'object', 'boolean'", strings.Join(path, ", "), v)
	}

	at := func(keyword string) []string { return append(slices.Clip(path), "'"+keyword+"'") }
	for keyword, value := range schema {
		list, isList := value.([]any)
		members, isMap := value.(map[string]any)
		valid := true
		switch keyword {
		case "type":
			if !isList {
				list = []any{value}
			}

			for _, t := range list {
				valid = valid && slices.Contains([]any{"null", "boolean", "object", "array", "number", "string", "integer"}, t)
			}
		case "required":
			valid = isList
		case "enum":
			valid = isList && len(list) > 0
		case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems":
			_, valid = value.(float64)
		case "title", "description", "pattern", "format", "$ref":
			_, valid = value.(string)
		case "properties", "patternProperties", "$defs", "definitions":
			valid = isMap
			for name, member := range members {
				if wrong := invalidSchema(member, append(at(keyword), "'"+name+"'"), items); wrong != "" {
					return wrong
				}
			}
		case "anyOf", "oneOf", "allOf", "prefixItems":
			valid = isList && len(list) > 0
			for _, member := range list {
				if wrong := invalidSchema(member, at(keyword), items); wrong != "" {
					return wrong
				}
			}
		case "items", "additionalProperties", "not":
			if wrong := invalidSchema(value, at(keyword), items); wrong != "" {
				return wrong
			}
		}

		if !valid {
			return fmt.Sprintf("In context=(%s), %v is not valid under any of the given schemas", strings.Join(at(keyword), ", "), value)
		}
	}

	types, _ := schema["type"].([]any)
	if items && schema["items"] == nil && (schema["type"] == "array" || slices.Contains(types, any("array"))) {
		return fmt.Sprintf("In context=(%s), array schema missing items", strings.Join(path, ", "))
	}

	return ""
}
