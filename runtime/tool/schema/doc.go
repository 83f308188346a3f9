// Package schema validates the input of a tool against the tool's JSON Schema when the schema comes
// from an untrusted source: an MCP server or the file of a custom tool.
//
// [Budget.Compile] reads a schema and rejects one whose validation could not be bounded.
// [Schema.Validate] validates one input:
//
//	var budget schema.Budget // of one source, such as the tools of a server
//	s, err := budget.Compile(text)
//	if errors.Is(err, schema.ErrUnsupported) {
//		// The tool can be offered, and its inputs are not validated.
//	}
//	err = s.Validate(ctx, input)
//
// Draft 7 and draft 2020-12 are supported. References stay within the schema.
//
// # Limits
//
// Compile replaces each reference by the schema that it refers to. The validator sees only the
// result: a tree without references, ids or unknown keywords, of at most 10,000 subschemas and 100
// levels. A schema that applies itself to the same value again has no such tree and is rejected. A
// schema that applies itself to a part of the value, such as the schema of a tree, is expanded for
// as many levels as fit. An input that is nested deeper than that is not validated.
//
// From the tree Compile computes the cost of one value and of one byte of input: subschemas that
// apply to the same value, entries of their keywords, and the size of their patterns. A schema
// above the limits is rejected, and Validate rejects an input whose size times these costs exceeds
// a budget of some seconds. The text of a schema has at most 256 KiB, a pattern at most 4,000
// bytes. Patterns run in linear time, as package regexp does.
//
// A [Budget] bounds the schemas of one source, such as the tools of a server, to 100,000 subschemas
// together. The subschemas of rejected schemas count too.
//
// Validate returns when its context ends. The validator cannot be interrupted: its goroutine ends
// by itself within the budget. A panic of the validator is an error of Validate.
package schema
