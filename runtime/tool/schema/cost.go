package schema

import (
	"encoding/json"
	"fmt"
	"regexp/syntax"
)

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
