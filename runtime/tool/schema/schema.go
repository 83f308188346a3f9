package schema

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	levels    int // of nesting that the expanded schema covers; 0 is all
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
	s := &Schema{cost: expanded.peak(), levels: expanded.levels}
	// The validator is built on first use: it takes more memory than the text, and most tools of a
	// server are never called.
	s.validator = sync.OnceValues(func() (*jsonschema.Resolved, error) { return resolve(text) })
	return s, nil
}

// Compile is [Budget.Compile] for a single schema.
func Compile(text json.RawMessage) (*Schema, error) { return new(Budget).Compile(text) }

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
	limit := jsonlimit.Limit{Values: maxInputSteps / max(s.cost.steps, 1)}
	if limit.Check(input) != nil {
		return ErrTooLarge
	}
	var object map[string]any
	if err := json.Unmarshal(input, &object); err != nil {
		return err
	}
	values, depth := measure(object)
	switch {
	case s.levels > 0 && depth > s.levels:
		return nil
	case values > limit.Values || len(input) > maxInputScan/max(s.cost.scan, 1):
		return ErrTooLarge
	}
	validator, err := s.validator()
	if err != nil {
		return nil // the tool validates what this package cannot
	}
	if err := validator.Validate(object); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "validating root: "))
	}
	return nil
}

// measure returns the number of values and keys in a JSON value, and the depth of its nesting.
func measure(value any) (values, depth int) {
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
func decode(text json.RawMessage) (value any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	err = decoder.Decode(&value)
	return value, err
}
