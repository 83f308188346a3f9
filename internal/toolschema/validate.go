package toolschema

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp/syntax"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/seed93082962/agenthost/internal/jsonlimit"
)

// The maximum cost of one input, see [profile]: a few seconds of one CPU. A step takes up to a
// microsecond.
const (
	maxInputSteps = 2_000_000
	maxInputScan  = 100_000_000
)

// ErrUnsupported is the error of a schema that the validator cannot use: it is malformed, refers to
// another document, or has a pattern that package regexp does not accept.
var ErrUnsupported = errors.New("unsupported schema")

// ErrTooLarge is the error of an input whose validation would exceed its budget.
var ErrTooLarge = errors.New("the input is too large to be validated")

// Schema validates inputs. It is safe for concurrent use.
type Schema struct {
	cost      cost
	levels    int  // of nesting that the expanded schema covers; 0 is all
	work      int  // see maxWork
	output    bool // see CompileOutput
	validator func() (*jsonschema.Resolved, error)
}

// Budget bounds the work to compile the schemas of one source. Its zero value is ready for use. It
// is not safe for concurrent use.
type Budget struct {
	subschemas int // expanded so far
}

// Compile reads a schema. The error is ErrUnsupported, or the reason why the schema is rejected.
func (b *Budget) Compile(text json.RawMessage) (*Schema, error) {
	expanded, err := expand(text, b)
	if err != nil {
		return nil, err
	}

	s := &Schema{cost: expanded.peak(), levels: expanded.levels, work: expanded.work}
	// The validator is built on first use: it takes more memory than the text, and most tools of a
	// server are never called.
	s.validator = sync.OnceValues(func() (*jsonschema.Resolved, error) { return resolve(text) })
	return s, nil
}

// resolve builds the validator of the expanded schema.
func resolve(text json.RawMessage) (resolved *jsonschema.Resolved, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: panic: %v", ErrUnsupported, p)
		}
	}()
	expanded, err := expand(text, new(Budget))
	if err != nil {
		return nil, err
	}

	tree, err := json.Marshal(expanded.root)
	if err != nil {
		return nil, err
	}

	var parsed jsonschema.Schema
	if err := json.Unmarshal(tree, &parsed); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}

	if resolved, err = parsed.Resolve(nil); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}

	return resolved, nil
}

// Validate validates an input, which must be a JSON object. It returns nil if the input is valid,
// or if it cannot be validated because the schema is unsupported or the input is nested too deep.
// When ctx ends first, it returns the cause of that.
func (s *Schema) Validate(ctx context.Context, input json.RawMessage) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}

	done := make(chan error, 1)
	go func() { done <- s.validate(input) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *Schema) validate(input json.RawMessage) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the validator failed with an internal error: %v", p)
		}
	}()
	limit := s.limit()
	if limit.Check(input) != nil {
		return ErrTooLarge
	}

	var object map[string]any
	if err := jsonlimit.Unmarshal(input, &object); err != nil {
		return err
	}

	values, depth := measure(object)
	switch {
	case s.levels > 0 && depth > s.levels:
		return s.errTooNested()
	case values > limit.Values || len(input) > maxInputScan/max(s.cost.scan, 1):
		return ErrTooLarge
	}

	validator, err := s.validator()
	if err != nil {
		return nil // the tool validates what this package cannot
	}

	if err := validator.Validate(object); err != nil {
		text := strings.TrimPrefix(err.Error(), "validating root: ")
		text = strings.ReplaceAll(text, "<invalid reflect.Value>", "null")
		if remedy := s.remedy(input); remedy != "" {
			text += ": " + remedy
		}

		return errors.New(text)
	}

	return nil
}

// limit returns the limit of the values of an input.
func (s *Schema) limit() jsonlimit.Limit {
	return jsonlimit.Limit{Values: maxInputSteps / max(s.cost.steps, 1)}
}

// measure returns the number of values and keys in a JSON value, and the depth of its nesting.
func measure(value any) (int, int) {
	values, depth := 0, 0
	add := func(child any) {
		v, d := measure(child)
		values += v
		depth = max(depth, d+1)
	}
	switch v := value.(type) {
	case map[string]any:
		values = len(v)
		for _, child := range v {
			add(child)
		}
	case []any:
		for _, child := range v {
			add(child)
		}
	}

	return values + 1, depth
}

// decode reads one JSON value. Numbers keep their text.
func decode(text json.RawMessage) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	err := decoder.Decode(&value)
	return value, err
}

// cost is the cost of validating a value: steps per value, key and item, and scan per byte of text.
type cost struct{ steps, scan int }

// profile lists the cost of the values at each level of nesting, starting with the root.
type profile []cost

// plus adds the cost of subschemas that apply to the same values.
func (p profile) plus(q profile) profile {
	return combine(p, q, func(a, b int) int { return a + b })
}

// or returns the maximum cost at each level. Only one of the two subschemas applies to a value.
func (p profile) or(q profile) profile {
	return combine(p, q, func(a, b int) int { return max(a, b) })
}

func combine(p, q profile, do func(a, b int) int) profile {
	if len(p) < len(q) {
		p, q = q, p
	}

	sum := append(profile(nil), p...)
	for i, c := range q {
		sum[i] = cost{do(sum[i].steps, c.steps), do(sum[i].scan, c.scan)}
	}

	return sum
}

// peak returns the highest cost of all levels.
func (p profile) peak() cost {
	var top cost
	for _, c := range p {
		top = cost{max(top.steps, c.steps), max(top.scan, c.scan)}
	}

	return top
}

// compareSteps returns the steps of a comparison with a value of the schema. Numbers are compared
// as fractions of any size.
func compareSteps(value any) int {
	const number = 5
	steps := 1
	switch v := value.(type) {
	case json.Number:
		return number
	case object:
		for _, child := range v {
			steps += compareSteps(child)
		}
	case []any:
		for _, child := range v {
			steps += compareSteps(child)
		}
	}

	return steps
}

// maxPattern bounds a pattern in bytes, since a few bytes may expand to a thousand characters.
const maxPattern = 4000

// patternCost returns the approximate number of states of a compiled pattern.
func patternCost(pattern string) (int, error) {
	if len(pattern) > maxPattern {
		return 0, fmt.Errorf("a pattern has more than %d bytes", maxPattern)
	}

	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}

	return states(parsed), nil
}

func states(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		n += states(sub)
	}

	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}

	return n
}
