package toolschema

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Limits of the schema of an output, which a client may choose for each run, and whose validator is
// built for each.
const (
	MaxOutputSchema = 64 << 10 // bytes
	maxOutputWork   = 1 << 20  // as maxWork: a third of a second
	bytesOfWork     = 16       // of the memory of a validator

	// Of nesting that a schema must be expanded to: a deeper output is not valid, and the model would
	// be called in vain.
	minOutputLevels = 4
)

// CompileOutput compiles the schema of an output, which is an object. Unlike the schema of a tool,
// which validates its inputs itself, it must be usable in full: the error is also that of a schema
// that the validator does not support, and an output that cannot be validated is not valid.
func CompileOutput(text json.RawMessage) (*Schema, error) {
	if len(text) > MaxOutputSchema {
		return nil, fmt.Errorf("the schema has more than %d bytes", MaxOutputSchema)
	}

	s, err := new(Budget).Compile(text)
	if err != nil {
		return nil, err
	}

	if s.work > maxOutputWork {
		return nil, fmt.Errorf("%w: its subschemas have more than %d bytes", errLimit, maxOutputWork)
	}

	if s.levels > 0 && s.levels < minOutputLevels {
		return nil, fmt.Errorf("%w: it fits for %d levels of nesting only", errLimit, s.levels)
	}

	if _, err := Fit(text); err != nil {
		return nil, err
	}

	if _, err := s.validator(); err != nil {
		return nil, err
	}

	s.output = true
	return s, nil
}

// Size returns the approximate number of bytes of the validator of an output.
func (s *Schema) Size() int { return bytesOfWork * s.work }

// errTooNested is the error of an output that is nested deeper than its schema is expanded.
func (s *Schema) errTooNested() error {
	if !s.output {
		return nil
	}

	return fmt.Errorf("it is nested deeper than %d levels, to which a recursive or large schema is validated", s.levels)
}

// Output returns the output in a text, with the types that the schema permits. The error says why
// the text has no valid output. A text may be in a fenced code block: some models write JSON only
// there.
func (s *Schema) Output(ctx context.Context, text string) (json.RawMessage, error) {
	output, err := s.limit().Compact([]byte(unfence(text)))
	if err != nil {
		return nil, fmt.Errorf("it is not JSON: %w", err)
	}

	output = s.Coerce(ctx, output)
	if err := s.Validate(ctx, output); err != nil {
		return nil, err
	}

	return output, nil
}

// unfence returns the content of a text that is one code block, without a language or of JSON, and
// any other text unchanged.
func unfence(text string) string {
	const fence = "```"
	text = strings.TrimSpace(text)
	block, opened := strings.CutPrefix(text, fence)
	block, closed := strings.CutSuffix(block, fence)
	language, content, lines := strings.Cut(block, "\n")
	if language = strings.TrimSpace(language); opened && closed && lines && (language == "" || language == "json") {
		return content
	}

	return text
}

// Subset is the part of JSON Schema that the API of a model enforces on outputs.
type Subset struct {
	Keywords []string // in addition to those that only describe a value
	Required bool     // every property must be required
}

// Has reports whether a valid schema is within the subset: each keyword is in it, and each object
// has no properties other than those of its schema. A union is not at the top.
func (s Subset) Has(text json.RawMessage) bool {
	value, err := decode(text)
	root, ok := value.(object)
	return err == nil && ok && root["anyOf"] == nil && root["$ref"] == nil && s.has(root, maxDepth)
}

// describing are keywords without an effect on what is valid.
var describing = []string{"title", "description"}

func (s Subset) has(value any, depth int) bool {
	schema, ok := value.(object)
	if !ok || depth == 0 {
		return false
	}

	for keyword, value := range schema {
		if !slices.Contains(describing, keyword) && !slices.Contains(s.Keywords, keyword) {
			return false
		}

		members := []any{}
		switch keywords[keyword] {
		case aSchema:
			if keyword == "additionalProperties" {
				if value != false {
					return false
				}

				continue
			}

			members = append(members, value)
		case aList:
			list, _ := value.([]any)
			members = append(members, list...)
		case aMap:
			of, _ := value.(object)
			for _, member := range of {
				members = append(members, member)
			}
		}

		for _, member := range members {
			if !s.has(member, depth-1) {
				return false
			}
		}
	}

	properties, _ := schema["properties"].(object)
	types, _ := schema["type"].([]any)
	if properties != nil || schema["type"] == "object" || slices.Contains(types, any("object")) {
		required, _ := schema["required"].([]any)
		return schema["additionalProperties"] == false && (!s.Required || len(required) >= len(properties))
	}

	return true
}
