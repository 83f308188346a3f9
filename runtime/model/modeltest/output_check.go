package modeltest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
)

// The formats of an output and the choices of tools that the vendors accept: fields from their
// references, texts from published error reports.

type openaiFormat struct {
	Type       string `json:"type"`
	JSONSchema *struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Schema      json.RawMessage `json:"schema"`
		Strict      *bool           `json:"strict"`
	} `json:"json_schema"`
}

// openaiOutput checks response_format and tool_choice.
func openaiOutput(q *openaiRequest) *refusal {
	if present(q.ToolChoice) {
		var mode string
		_ = json.Unmarshal(q.ToolChoice, &mode) // an object has none
		switch {
		case len(q.Tools) == 0:
			return bad("Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.")
		case q.ToolChoice[0] == '"' && !slices.Contains([]string{"none", "auto", "required"}, mode):
			return bad("Invalid value: '%s'. Supported values are: 'none', 'auto', and 'required'. (tool_choice)", mode)
		}
	}

	if !present(q.ResponseFormat) {
		return nil
	}

	var f openaiFormat
	if err := decode(q.ResponseFormat, &f); err != nil {
		return bad("Unknown parameter: 'response_format': %v", err)
	}

	switch {
	case f.Type == "text" || f.Type == "json_object":
		return nil
	case f.Type != "json_schema":
		return bad("Invalid value: '%s'. Supported values are: 'json_object', 'json_schema', and 'text'. (response_format.type)", f.Type)
	case f.JSONSchema == nil || !openaiToolName.MatchString(f.JSONSchema.Name):
		return bad("Missing required parameter: 'response_format.json_schema.name'.")
	}

	var schema map[string]any
	if json.Unmarshal(f.JSONSchema.Schema, &schema) != nil || schema["type"] != "object" {
		return bad("Invalid schema for response_format '%s': schema must be a JSON Schema of 'type: \"object\"'.", f.JSONSchema.Name)
	}

	if f.JSONSchema.Strict != nil && *f.JSONSchema.Strict {
		if wrong := looseSchema(schema, true); wrong != "" {
			return bad("Invalid schema for response_format '%s': %s", f.JSONSchema.Name, wrong)
		}
	}

	return nil
}

// looseSchema returns why a schema is not one that a vendor enforces, or "". complete means that
// all properties are required.
func looseSchema(schema map[string]any, complete bool) string {
	for _, keyword := range slices.Sorted(maps.Keys(schema)) {
		if slices.Contains([]string{"minLength", "maxLength", "allOf", "oneOf", "not", "if", "patternProperties", "default", "minimum", "maximum"}, keyword) {
			return fmt.Sprintf("'%s' is not permitted.", keyword)
		}

		var members []any
		switch value := schema[keyword].(type) {
		case map[string]any:
			members = []any{value}
			if keyword == "properties" || keyword == "$defs" || keyword == "definitions" {
				members = slices.Collect(maps.Values(value))
			}
		case []any:
			members = value
		}

		for _, member := range members {
			if sub, ok := member.(map[string]any); ok && keyword != "enum" && keyword != "const" {
				if wrong := looseSchema(sub, complete); wrong != "" {
					return wrong
				}
			}
		}
	}

	properties, _ := schema["properties"].(map[string]any)
	required, _ := schema["required"].([]any)
	switch {
	case schema["type"] != "object":
		return ""
	case schema["additionalProperties"] != false:
		return "'additionalProperties' is required to be supplied and to be false."
	case complete && len(required) < len(properties):
		return "'required' is required to be supplied and to be an array including every key in properties."
	}

	return ""
}

// onlyObjects is DeepSeek's rule for response_format.
func onlyObjects(_ *Request, q *profileRequest) *refusal {
	if formatOfOutput(q) == "json_schema" {
		return bad("This response_format type is unavailable now")
	}

	return nil
}

// freeChoice is DeepSeek's rule for tool_choice in thinking mode.
func freeChoice(_ *Request, q *profileRequest) *refusal {
	if raw := q.settings["tool_choice"]; present(raw) && string(raw) != `"auto"` && string(raw) != `"none"` {
		return bad("Thinking mode does not support this tool_choice")
	}

	return nil
}

// formatOrTools is the rule of servers that accept a format only in requests without tools.
func formatOrTools(message string) rule {
	return func(_ *Request, q *profileRequest) *refusal {
		if formatOfOutput(q) == "json_schema" && present(q.settings["tools"]) {
			return &refusal{http.StatusBadRequest, message}
		}

		return nil
	}
}

func formatOfOutput(q *profileRequest) string {
	var f openaiFormat
	_ = json.Unmarshal(q.settings["response_format"], &f) // was decoded before
	return f.Type
}

// output checks output_config.format and tool_choice.
func (c *anthropicChecker) output(q *anthropicRequest) *refusal {
	var config struct {
		Effort string `json:"effort"`
		Format *struct {
			Type   string         `json:"type"`
			Schema map[string]any `json:"schema"`
		} `json:"format"`
	}
	if present(q.OutputConfig) && decode(q.OutputConfig, &config) != nil {
		return bad("output_config: Extra inputs are not permitted, or not of their type")
	}

	if f := config.Format; f != nil {
		switch {
		case c.unsigned:
			return bad("output_config.format: Extra inputs are not permitted")
		case f.Type != "json_schema" || f.Schema == nil:
			return bad("output_config.format.type: Input should be 'json_schema'")
		}

		if wrong := looseSchema(f.Schema, false); wrong != "" {
			return bad("output_config.format.schema: %s", wrong)
		}
	}

	if !present(q.ToolChoice) {
		return nil
	}

	var choice struct {
		Type string `json:"type"`
	}
	switch err := json.Unmarshal(q.ToolChoice, &choice); {
	case err != nil || !slices.Contains([]string{"auto", "any", "tool", "none"}, choice.Type):
		return bad("tool_choice: Input tag '%s' found using 'type' does not match any of the expected tags: 'any', 'auto', 'none', 'tool'", choice.Type)
	case len(q.Tools) == 0:
		return bad("tool_choice: may only be specified while providing tools")
	case c.on() && (choice.Type == "any" || choice.Type == "tool"):
		return bad("Thinking may not be enabled when tool_choice forces tool use.")
	}

	return nil
}
