package toolschema

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"unsafe"
)

// Limits of an expanded schema.
const (
	maxText  = 256 << 10
	maxNodes = 10_000
	// Less for a schema of which only some levels are expanded: there are several attempts.
	maxUnrolledNodes = 2000
	// Bounds the work of the validator, which reads a subschema once for each level above it and
	// stores its path.
	maxWork     = 4 << 20
	maxSteps    = 20_000
	maxScan     = 50_000
	maxPatterns = 100_000 // states of all patterns together

	maxBudget = 100_000 // subschemas of all schemas of one source, including rejected ones
)

// unrolled lists the numbers of levels to which a schema may be expanded, 0 for all. The first
// number that keeps it within the limits is used.
var unrolled = []int{0, 32, 16, 8, 4, 2, 1}

var (
	errRecursive = errors.New("the schema is recursive")
	errCircular  = errors.New("the schema refers to itself for the same value")
	errLimit     = errors.New("the schema is too large when its references are expanded")
	errBudget    = fmt.Errorf("the schemas of all tools together have more than %d subschemas when their references are expanded", maxBudget)
)

// expansion is a schema as the validator sees it.
type expansion struct {
	profile
	root   any
	levels int // of nesting that were expanded; 0 is all

	document *document
	budget   *Budget
	maxNodes int
	patterns map[string]int // cost of those that were parsed
	nodes    int
	work     int
	states   int
}

// expand replaces the references of a schema.
func expand(text json.RawMessage, b *Budget) (*expansion, error) {
	if b.subschemas > maxBudget {
		return nil, errBudget
	}

	if len(text) > maxText {
		return nil, fmt.Errorf("the schema has more than %d bytes", maxText)
	}

	value, err := decode(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}

	root, ok := value.(object)
	if !ok {
		return nil, fmt.Errorf("%w: the schema is not a JSON object", ErrUnsupported)
	}

	d := newDocument(root)
	var e *expansion
	for _, n := range unrolled {
		if e, err = d.expand(n, b); !errors.Is(err, errRecursive) && !errors.Is(err, errLimit) {
			break
		}
	}

	return e, err
}

func (d *document) expand(levels int, b *Budget) (*expansion, error) {
	e := &expansion{document: d, budget: b, levels: levels, maxNodes: maxNodes, patterns: map[string]int{}}
	if levels > 1 { // at the last attempt, all of it
		e.maxNodes = maxUnrolledNodes
	}

	var err error
	e.root, e.profile, err = e.schema(d.root, position{base: d.root})
	if err != nil {
		return nil, err
	}

	if o, ok := e.root.(object); ok && d.draft7 {
		o["$schema"] = "http://json-schema.org/draft-07/schema#"
	}

	if top := e.peak(); top.steps > maxSteps || top.scan > maxScan {
		return nil, fmt.Errorf("%w: the keywords and patterns for one value cost %d and %d, at most %d and %d are allowed",
			errLimit, top.steps, top.scan, maxSteps, maxScan)
	}

	return e, nil
}

// position is the position of a subschema in the expanded schema.
type position struct {
	base   object // of its references
	depth  int
	level  int              // of the values that it applies to
	path   int              // bytes of its JSON pointer
	active []unsafe.Pointer // targets of the references that led here
	same   int              // how many of them apply to the same value
}

func (p position) in(key int, to target) position {
	p.depth++
	p.path += key
	if to != same {
		p.level++
		p.same = 0
	}

	return p
}

// schema returns the expanded form of a subschema, and its cost.
func (e *expansion) schema(value any, at position) (any, profile, error) {
	e.nodes++
	e.budget.subschemas++
	e.work += at.path + 2
	switch {
	case e.budget.subschemas > maxBudget:
		return nil, nil, errBudget
	case at.depth > maxDepth:
		return nil, nil, fmt.Errorf("%w: it is nested deeper than %d levels", errLimit, maxDepth)
	case e.levels > 0 && at.level > e.levels:
		return true, profile{{steps: 1}}, nil // inputs with this depth are not validated
	case e.nodes > e.maxNodes:
		return nil, nil, fmt.Errorf("%w: it has more than %d subschemas", errLimit, e.maxNodes)
	}

	if b, ok := value.(bool); ok {
		return b, profile{{steps: 1}}, nil
	}

	s, ok := value.(object)
	if !ok {
		return nil, nil, fmt.Errorf("%w: a subschema is neither an object nor a boolean", ErrUnsupported)
	}

	if establishesBase(s) {
		at.base = s
	}

	if reference, ok := s["$ref"]; ok && e.document.draft7 { // other keywords are ignored next to it
		return e.follow(reference, at)
	}

	n := node{own: cost{steps: 1}, out: object{}}
	for _, key := range sortedKeys(s) {
		var err error
		value := s[key]
		switch word, known := implemented[key]; {
		case key == "$ref" || key == "$dynamicRef":
			err = e.reference(&n, value, at)
		case !known:
			continue
		case word.target == asserts:
			err = e.assertion(&n, key, value, at)
		default:
			err = e.subschemas(&n, key, value, at)
		}

		if err != nil {
			return nil, nil, err
		}
	}

	if e.work > maxWork {
		return nil, nil, fmt.Errorf("%w: its subschemas have more than %d bytes", errLimit, maxWork)
	}

	if len(n.references) > 0 {
		all, _ := n.out["allOf"].([]any)
		n.out["allOf"] = slices.Concat(all, n.references)
	}

	return n.out, n.profile(), nil
}

// sortedKeys returns the keys in an order that does not vary, because the first error that is found
// is the result.
func sortedKeys(o object) []string { return slices.Sorted(maps.Keys(o)) }

// reference adds the target of a reference to a node. In a single document, a dynamic reference is
// equivalent to a static one.
func (e *expansion) reference(n *node, value any, at position) error {
	expanded, p, err := e.follow(value, at)
	n.references = append(n.references, expanded)
	n.same = n.same.plus(p)
	return err
}

func (e *expansion) follow(value any, at position) (any, profile, error) {
	reference, ok := value.(string)
	if !ok {
		return nil, nil, fmt.Errorf("%w: a reference is not a string", ErrUnsupported)
	}

	schema, base, err := e.document.find(reference, at.base)
	if err != nil {
		return nil, nil, err
	}

	next := at.in(len("/allOf/0"), same)
	next.base = base
	if target, ok := schema.(object); ok {
		id := reflect.ValueOf(target).UnsafePointer()
		switch {
		case slices.Contains(at.active[len(at.active)-at.same:], id):
			return nil, nil, fmt.Errorf("%w: %.80q", errCircular, reference)
		case e.levels == 0 && slices.Contains(at.active, id):
			return nil, nil, errRecursive
		}

		next.active = append(slices.Clip(at.active), id)
		next.same++
	}

	return e.schema(schema, next)
}

// assertion copies a keyword without subschemas.
func (e *expansion) assertion(n *node, key string, value any, at position) error {
	n.out[key] = value
	n.own.scan += implemented[key].scan
	n.own.steps += compareSteps(value)
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}

	e.work += (len(key) + len(text)) * (at.depth + 1)
	if pattern, ok := value.(string); ok && key == "pattern" {
		err = e.pattern(n, pattern)
	}

	return err
}

func (e *expansion) pattern(n *node, pattern string) error {
	states, known := e.patterns[pattern]
	if !known {
		var err error
		if states, err = patternCost(pattern); err != nil {
			return err
		}

		e.patterns[pattern] = states
	}

	n.own.scan += states
	if e.states += states; e.states > maxPatterns {
		return fmt.Errorf("%w: its patterns have more than %d states", errLimit, maxPatterns)
	}

	return nil
}

// subschemas expands the subschemas of a keyword.
func (e *expansion) subschemas(n *node, key string, value any, at position) error {
	word := implemented[key]
	n.own.scan += word.scan
	e.work += len(key) * (at.depth + 1)
	add := func(name string, value any) (any, error) {
		n.own.steps++
		e.work += len(name) * (at.depth + 1)
		expanded, p, err := e.schema(value, at.in(len(key)+len(name)+2, word.target))
		n.add(word.target, p)
		return expanded, err
	}
	var err error
	switch v := value.(type) {
	case object:
		if !word.fields {
			n.out[key], err = add("", v)
			return err
		}

		out := make(object, len(v))
		for _, name := range sortedKeys(v) {
			field := v[name]
			if key == "patternProperties" {
				n.own.scan += quoted
				if err := e.pattern(n, name); err != nil {
					return err
				}
			}

			if names, ok := field.([]any); ok && key == "dependencies" {
				out[name] = field
				n.own.steps += len(names)
				continue
			}

			if out[name], err = add(name, field); err != nil {
				return err
			}
		}

		n.out[key] = out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			if out[i], err = add("00000", v[i]); err != nil {
				return err
			}
		}

		n.out[key] = out
	default:
		n.out[key], err = add("", v)
	}

	return err
}

// node is a subschema that is being expanded.
type node struct {
	out        object
	references []any

	own                               cost
	same                              profile
	property, properties, item, items profile // of the level below
}

func (n *node) add(to target, p profile) {
	switch to {
	case same:
		n.same = n.same.plus(p)
	case property:
		n.property = n.property.or(p)
	case properties:
		n.properties = n.properties.plus(p)
	case item:
		n.item = n.item.or(p)
	case items:
		n.items = n.items.plus(p)
	}
}

// profile returns the cost of the node and its descendants.
func (n *node) profile() profile {
	below := n.property.plus(n.properties).or(n.item.plus(n.items))
	return append(profile{n.own}, below...).plus(n.same)
}
