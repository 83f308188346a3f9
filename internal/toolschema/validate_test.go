package toolschema_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/toolschema"
)

func repeat(n int, part func(i int) string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = part(i)
	}
	return strings.Join(parts, ",")
}

// doubling is a chain of definitions, each of which refers to the next one twice.
func doubling(n int, keyword string) string {
	return fmt.Sprintf(`{"type":"object","$ref":"#/$defs/d0","$defs":{%s,"d%d":{}}}`, repeat(n, func(i int) string {
		return fmt.Sprintf(`"d%d":{%q:[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i, keyword, i+1, i+1)
	}), n)
}

var rejected = map[string]string{
	"root in allOf":              `{"type":"object","allOf":[{"$ref":"#"}]}`,
	"root in anyOf":              `{"type":"object","anyOf":[{"$ref":"#"},{}]}`,
	"root in oneOf":              `{"type":"object","oneOf":[{"$ref":"#"}]}`,
	"root in not":                `{"type":"object","not":{"$ref":"#"}}`,
	"root in if":                 `{"type":"object","if":{"$ref":"#"}}`,
	"root in then":               `{"type":"object","if":{},"then":{"$ref":"#"}}`,
	"root in else":               `{"type":"object","if":false,"else":{"$ref":"#"}}`,
	"root in dependentSchemas":   `{"type":"object","dependentSchemas":{"a":{"$ref":"#"}}}`,
	"root in dependencies":       `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","dependencies":{"a":{"$ref":"#"}}}`,
	"itself":                     `{"type":"object","$ref":"#"}`,
	"itself, draft 7":            `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","$ref":"#"}`,
	"two definitions":            `{"type":"object","$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`,
	"definitions":                `{"type":"object","allOf":[{"$ref":"#/definitions/a"}],"definitions":{"a":{"allOf":[{"$ref":"#/definitions/a"}]}}}`,
	"its own place":              `{"type":"object","allOf":[{"$ref":"#/allOf/0"}]}`,
	"escaped pointer":            `{"type":"object","$ref":"#/%24defs/a~1b","$defs":{"a/b":{"anyOf":[{"$ref":"#/$defs/a~1b"}]}}}`,
	"anchor":                     `{"type":"object","$ref":"#a","$defs":{"x":{"$anchor":"a","allOf":[{"$ref":"#a"}]}}}`,
	"anchor of the root":         `{"type":"object","$anchor":"a","allOf":[{"$ref":"#a"}]}`,
	"anchor of draft 7":          `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","allOf":[{"$ref":"#a"}],"definitions":{"x":{"$id":"#a","allOf":[{"$ref":"#a"}]}}}`,
	"dynamic":                    `{"type":"object","$dynamicAnchor":"a","allOf":[{"$dynamicRef":"#a"}]}`,
	"dynamic root":               `{"type":"object","allOf":[{"$dynamicRef":"#"}]}`,
	"dynamic to an anchor":       `{"type":"object","$anchor":"a","allOf":[{"$dynamicRef":"#a"}]}`,
	"static to a dynamic anchor": `{"type":"object","$dynamicAnchor":"a","allOf":[{"$ref":"#a"}]}`,
	"id":                         `{"$id":"https://example.com/a","type":"object","allOf":[{"$ref":"https://example.com/a"}]}`,
	"id with a fragment":         `{"$id":"https://example.com/a","type":"object","$ref":"https://example.com/a#/$defs/x","$defs":{"x":{"not":{"$ref":"#/$defs/x"}}}}`,
	"inner id":                   `{"type":"object","$ref":"https://example.com/b","$defs":{"x":{"$id":"https://example.com/b","allOf":[{"$ref":"#"}]}}}`,
	"in a property":              `{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"allOf":[{"$ref":"#/$defs/a"}]}}}`,
	"in items, under recursion":  `{"type":"object","properties":{"a":{"items":{"$ref":"#"},"allOf":[{"$ref":"#/properties/a"}]}}}`,

	"doubling allOf": doubling(40, "allOf"),
	"doubling anyOf": doubling(30, "anyOf"),
	"doubling oneOf": doubling(14, "oneOf"),
	"recursion that doubles": `{"type":"object","anyOf":[` + repeat(200, func(i int) string {
		return fmt.Sprintf(`{"properties":{"a":{"anyOf":[%s]}}}`, repeat(60, func(int) string { return `{"$ref":"#"}` }))
	}) + `]}`,
	"wide": `{"type":"object","allOf":[` + repeat(10_001, func(int) string { return `{}` }) + `]}`,
	"deep": strings.Repeat(`{"not":`, 101) + `{}` + strings.Repeat(`}`, 101),
	"long chain": fmt.Sprintf(`{"type":"object","$ref":"#/$defs/d0","$defs":{%s,"d2000":{}}}`, repeat(2000, func(i int) string {
		return fmt.Sprintf(`"d%d":{"$ref":"#/$defs/d%d"}`, i, i+1)
	})),
	"large":           `{"type":"object","description":"` + strings.Repeat("x", 256<<10) + `"}`,
	"long paths":      `{"properties":{"` + strings.Repeat("x", 100_000) + `":{"anyOf":[` + repeat(500, func(int) string { return `{}` }) + `]}}}`,
	"repeated enum":   `{"$defs":{"e":{"enum":[` + repeat(20_000, func(i int) string { return fmt.Sprint(i) }) + `]}},"anyOf":[` + repeat(100, func(int) string { return `{"$ref":"#/$defs/e"}` }) + `]}`,
	"3,000 patterns":  `{"type":"object","patternProperties":{` + repeat(3000, func(i int) string { return fmt.Sprintf(`"^x%d":{}`, i) }) + `}}`,
	"large patterns":  `{"type":"object","patternProperties":{` + repeat(300, func(i int) string { return fmt.Sprintf(`"(a|b){%d}":{}`, 700+i) }) + `}}`,
	"repetition":      `{"type":"object","properties":{"a":{"type":"string","pattern":"` + strings.Repeat("a{1000}", 200) + `"}}}`,
	"classes":         `{"type":"object","properties":{"a":{"pattern":"` + strings.Repeat(`\\pL`, 1000) + `"}}}`,
	"long pattern":    `{"type":"object","properties":{"a":{"pattern":"` + strings.Repeat(`\\pL`, 20_000) + `"}}}`,
	"repeated string": `{"anyOf":[` + repeat(5000, func(int) string { return `{"maxLength":1}` }) + `]}`,
}

// The check itself takes little time and memory for any schema.
func TestRejected(t *testing.T) {
	for name, text := range rejected {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			s, err := new(toolschema.Budget).Compile(json.RawMessage(text))
			require.Error(t, err)
			require.NotErrorIs(t, err, toolschema.ErrUnsupported)
			require.Nil(t, s)
			require.Less(t, time.Since(began), time.Minute)
			require.Less(t, len(err.Error()), 300)
		})
	}
}

// A schema that is too large is expanded to fewer levels, in whichever order its properties are
// expanded. Values below are not validated.
func TestTooLargeForAllLevels(t *testing.T) {
	large := `"type":"object","$defs":{"d30":{},` + repeat(30, func(i int) string {
		return fmt.Sprintf(`"d%d":{"type":"object","properties":{"a":{"$ref":"#/$defs/d%d"},"b":{"$ref":"#/$defs/d%d"}}}`, i, i+1, i+1)
	}) + `}`
	for name, text := range map[string]string{
		"recursion first":     `{"properties":{"a":{"$ref":"#"},"b":{"$ref":"#/$defs/d0"}},` + large + `}`,
		"size first":          `{"properties":{"b":{"$ref":"#"},"a":{"$ref":"#/$defs/d0"}},` + large + `}`,
		"doubling properties": `{"$ref":"#/$defs/d0",` + large + `}`,
		"doubling arrays":     `{"type":"object","properties":{"a":{"type":"object","$ref":"#/$defs/d0"}},` + doubling(40, "prefixItems")[len(`{"type":"object","$ref":"#/$defs/d0",`):],
		"deep properties":     strings.Repeat(`{"type":"object","properties":{"a":`, 4000) + `{}` + strings.Repeat(`}}`, 4000),
	} {
		t.Run(name, func(t *testing.T) {
			for range 3 {
				s, err := new(toolschema.Budget).Compile(json.RawMessage(text))
				require.NoError(t, err)
				require.NoError(t, s.Validate(t.Context(), json.RawMessage(`{"a":{},"b":{}}`)))
				require.Error(t, s.Validate(t.Context(), json.RawMessage(`{"a":1}`)))
				require.NoError(t, s.Validate(t.Context(), json.RawMessage(strings.Repeat(`{"a":`, 50)+`1`+strings.Repeat(`}`, 50))))
			}
		})
	}
}

// TestUnsupported has schemas that the validator cannot use, and that do no harm.
func TestUnsupported(t *testing.T) {
	for name, text := range map[string]string{
		"not JSON":              `{`,
		"not an object":         `true`,
		"another document":      `{"$ref":"https://example.com/other.json"}`,
		"relative":              `{"$ref":"other.json#/a"}`,
		"no such definition":    `{"$ref":"#/$defs/none"}`,
		"no such anchor":        `{"$ref":"#none"}`,
		"anchor used twice":     `{"$ref":"#a","$defs":{"x":{"$anchor":"a"},"y":{"$anchor":"a"}}}`,
		"pointer into a string": `{"$ref":"#/title/0","title":"x"}`,
		"pointer to a string":   `{"$ref":"#/title","title":"x"}`,
		"malformed fragment":    `{"$ref":"#/%zz"}`,
		"reference of a number": `{"$ref":1}`,
		"lookahead":             `{"properties":{"a":{"pattern":"(?=a)"}}}`,
		"subschema of a number": `{"properties":{"a":1}}`,
	} {
		t.Run(name, func(t *testing.T) {
			s, err := new(toolschema.Budget).Compile(json.RawMessage(text))
			require.ErrorIs(t, err, toolschema.ErrUnsupported)
			require.Nil(t, s)
		})
	}
}

const tree = `{"type":"object","properties":{"name":{"type":"string"},"left":{"$ref":"#"},"right":{"$ref":"#"},"all":{"items":{"$ref":"#"}}},"required":["name"]}`

func TestValidate(t *testing.T) {
	nested := func(n int, inner string) string {
		return strings.Repeat(`{"name":"x","left":`, n) + inner + strings.Repeat(`}`, n)
	}
	for name, row := range map[string]struct{ schema, input, want string }{
		"valid":                     {`{"type":"object","properties":{"a":{"type":"string"}}}`, `{"a":"x"}`, ""},
		"type":                      {`{"type":"object","properties":{"a":{"type":"string"}}}`, `{"a":1}`, `has type "integer", want "string"`},
		"required":                  {`{"required":["a"]}`, `{}`, `missing properties: ["a"]`},
		"additional":                {`{"properties":{"a":{}},"additionalProperties":false}`, `{"b":1}`, `unexpected additional properties ["b"]`},
		"definition":                {`{"properties":{"a":{"$ref":"#/$defs/s"}},"$defs":{"s":{"type":"string"}}}`, `{"a":1}`, `want "string"`},
		"definition, valid":         {`{"properties":{"a":{"$ref":"#/$defs/s"}},"$defs":{"s":{"type":"string"}}}`, `{"a":"x"}`, ""},
		"keywords next to a ref":    {`{"properties":{"a":{"$ref":"#/$defs/s","maxLength":1}},"$defs":{"s":{"type":"string"}}}`, `{"a":"xx"}`, "maxLength"},
		"ignored in draft 7":        {`{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"$ref":"#/definitions/s","maxLength":1}},"definitions":{"s":{"type":"string"}}}`, `{"a":"xx"}`, ""},
		"ref next to allOf":         {`{"allOf":[{"required":["a"]}],"$ref":"#/$defs/s","$defs":{"s":{"required":["b"]}}}`, `{"a":1}`, `missing properties: ["b"]`},
		"ref with unevaluated":      {`{"$ref":"#/$defs/s","unevaluatedProperties":false,"$defs":{"s":{"properties":{"a":{}}}}}`, `{"a":1}`, ""},
		"unevaluated":               {`{"$ref":"#/$defs/s","unevaluatedProperties":false,"$defs":{"s":{"properties":{"a":{}}}}}`, `{"b":1}`, "/unevaluatedProperties"},
		"tuple of draft 7":          {`{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"items":[{"type":"string"}]}}}`, `{"a":[1]}`, `want "string"`},
		"dependencies of draft 7":   {`{"$schema":"http://json-schema.org/draft-07/schema#","dependencies":{"a":["b"],"c":{"required":["d"]}}}`, `{"a":1}`, `missing properties ["b"]`},
		"another version":           {`{"$schema":"https://json-schema.org/draft/2019-09/schema#","required":["a"]}`, `{"a":1}`, ""},
		"anchor":                    {`{"properties":{"a":{"$ref":"#s"}},"$defs":{"x":{"$anchor":"s","type":"string"}}}`, `{"a":1}`, `want "string"`},
		"id":                        {`{"$id":"https://example.com/a","properties":{"a":{"$ref":"https://example.com/a#/$defs/s"}},"$defs":{"s":{"type":"string"}}}`, `{"a":1}`, `want "string"`},
		"inner id":                  {`{"properties":{"a":{"$ref":"inner"}},"$defs":{"x":{"$id":"inner","$ref":"#/$defs/s","$defs":{"s":{"type":"string"}}}}}`, `{"a":1}`, `want "string"`},
		"a name with odd letters":   {`{"properties":{"a":{"$ref":"#/$defs/a~1b%20c"}},"$defs":{"a/b c":{"type":"string"}}}`, `{"a":1}`, `want "string"`},
		"property named $ref":       {`{"properties":{"$ref":{"type":"string"}}}`, `{"$ref":1}`, `want "string"`},
		"another letter case":       {`{"AllOf":[{"required":["a"]}],"$REF":"#"}`, `{}`, ""},
		"boolean":                   {`{"properties":{"a":false}}`, `{"a":1}`, "not"},
		"tree":                      {tree, nested(2, `{"name":"x"}`), ""},
		"tree, error at a level":    {tree, nested(2, `{}`), `missing properties: ["name"]`},
		"tree, error in an array":   {tree, `{"name":"x","all":[{"name":"x","all":[{}]}]}`, `missing properties: ["name"]`},
		"tree, too deep to be read": {tree, nested(100, `{}`), ""},
		"malformed, found late":     {`{"properties":{"a":{"minLength":"x"}}}`, `{"a":"x"}`, ""},
		"input not an object":       {`{}`, `[]`, "must be an object, not array"},
		"a repeated name":           {`{}`, `{"command":"ls","command":"rm"}`, "command must not occur twice"},
		"a repeated name, escaped":  {`{}`, `{"a":[{"b":1,"\u0062":2}]}`, "a[0].b must not occur twice"},
		"large number":              {`{"properties":{"a":{"maximum":1e308,"multipleOf":0}}}`, `{"a":1}`, "multipleOf"},
		"large input":               {`{"properties":{"a":{"anyOf":[` + repeat(900, func(int) string { return `{"maxLength":1}` }) + `]}}}`, `{"a":"` + strings.Repeat("x", 20_000) + `"}`, toolschema.ErrTooLarge.Error()},
		"many values":               {`{"properties":{"a":{"items":{"allOf":[` + repeat(1000, func(int) string { return `{}` }) + `]}}}}`, `{"a":[` + repeat(20_000, func(int) string { return `1` }) + `]}`, toolschema.ErrTooLarge.Error()},
		"large text, plain schema":  {`{"properties":{"path":{"type":"string","pattern":"^[a-z/]+$"},"content":{"type":"string","maxLength":9999999}}}`, `{"path":"a/b","content":"` + strings.Repeat("x", 1_000_000) + `"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := new(toolschema.Budget).Compile(json.RawMessage(row.schema))
			require.NoError(t, err)
			for range 2 { // the validator is built once
				err = s.Validate(t.Context(), json.RawMessage(row.input))
				if row.want == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, row.want)
				}
			}
		})
	}
}

func TestValidateEndsWithItsContext(t *testing.T) {
	s, err := new(toolschema.Budget).Compile(json.RawMessage(`{"properties":{"a":{"items":{"allOf":[` + repeat(400, func(int) string { return `{"type":"integer"}` }) + `]}}}}`))
	require.NoError(t, err)
	input := json.RawMessage(`{"a":[` + repeat(1_500, func(int) string { return `1` }) + `]}`)
	ended := errors.New("ended")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ended)
	require.ErrorIs(t, s.Validate(ctx, input), ended)

	ctx, stop := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, ended)
	defer stop()
	began := time.Now()
	require.ErrorIs(t, s.Validate(ctx, input), ended)
	require.Less(t, time.Since(began), 30*time.Second)
}

// An input with too many values is rejected before it is decoded: decoded values take far more
// memory.
func TestManyValuesAreNotDecoded(t *testing.T) {
	s, err := new(toolschema.Budget).Compile(json.RawMessage(`{"type":"object"}`))
	require.NoError(t, err)
	input := json.RawMessage(`{"a":[0` + strings.Repeat(`,0`, 1<<22) + `]}`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	require.ErrorIs(t, s.Validate(t.Context(), input), toolschema.ErrTooLarge)
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(32<<20))
}

// The worst inputs of the worst schemas stay within seconds.
func TestBudget(t *testing.T) {
	for name, row := range map[string]struct {
		schema string
		input  func(size int) string
	}{
		"subschemas": {`{"properties":{"a":{"items":{"allOf":[` + repeat(900, func(int) string { return `{"type":"integer","minimum":0}` }) + `]}}}}`,
			func(size int) string { return `{"a":[` + repeat(size, func(int) string { return `1` }) + `]}` }},
		"errors": {`{"properties":{"a":{"anyOf":[` + repeat(900, func(int) string { return `{"maxLength":1}` }) + `]}}}`,
			func(size int) string { return `{"a":"` + strings.Repeat(`\u0001`, size) + `"}` }},
		"types": {`{"properties":{"a":{"anyOf":[` + repeat(4000, func(int) string { return `{"type":"integer"}` }) + `]}}}`,
			func(size int) string { return `{"a":"` + strings.Repeat("x", size) + `"}` }},
		"enum": {`{"properties":{"a":{"items":{"enum":[` + repeat(3_900, func(i int) string { return fmt.Sprint(i + 2) }) + `]}}}}`,
			func(size int) string { return `{"a":[3901` + strings.Repeat(`,3901`, size) + `]}` }},
		"patterns": {`{"patternProperties":{` + repeat(40, func(i int) string { return fmt.Sprintf(`"(a|b|ab)*(a|b){%d}c":{}`, 200+i) }) + `}}`,
			func(size int) string { return `{"` + strings.Repeat("ab", size) + `":1}` }},
		"tree": {tree, func(size int) string {
			return `{"name":"x","all":[` + repeat(size, func(int) string { return `{"name":"x"}` }) + `]}`
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := new(toolschema.Budget).Compile(json.RawMessage(row.schema))
			require.NoError(t, err)
			const most = 1 << 17 // rejected
			size := most
			for began := time.Now(); ; began = time.Now() { // to the largest input that is not rejected
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				err := s.Validate(t.Context(), json.RawMessage(row.input(size)))
				runtime.ReadMemStats(&after)
				require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(8<<30))
				if !errors.Is(err, toolschema.ErrTooLarge) {
					t.Logf("an input of %d took %v", size, time.Since(began))
					require.Less(t, time.Since(began), 5*time.Minute)
					require.Less(t, size, most)
					return
				}
				size /= 2
				require.NotZero(t, size)
			}
		})
	}
}

// Real schemas keep their meaning: the expanded one accepts what the original one accepts.
func FuzzCompile(f *testing.F) {
	for _, text := range rejected {
		if len(text) < 2000 {
			f.Add(text, `{"a":{"b":[1,"x",null,{"name":"y"}]}}`)
		}
	}
	f.Add(tree, `{"name":"x","left":{"name":"y"},"all":[{"name":"z"}]}`)
	f.Add(`{"properties":{"a":{"$ref":"#/$defs/s","maxLength":3}},"$defs":{"s":{"type":"string","pattern":"^a+$"}}}`, `{"a":"aaa"}`)
	f.Add(`{"anyOf":[{"required":["a"]},{"patternProperties":{"^b":{"enum":[1,"x"]}},"additionalProperties":false}]}`, `{"b":1}`)
	f.Fuzz(func(t *testing.T, text, input string) {
		if len(text) > 4096 || len(input) > 4096 {
			return
		}
		began := time.Now()
		s, err := new(toolschema.Budget).Compile(json.RawMessage(text))
		require.Less(t, time.Since(began), time.Minute, "Compile")
		if err != nil {
			return
		}
		began = time.Now()
		got := s.Validate(t.Context(), json.RawMessage(input))
		require.Less(t, time.Since(began), time.Minute, "Validate")

		if strings.Contains(text, "$") { // the validator could run out of its stack
			return
		}
		var value map[string]any
		var original jsonschema.Schema
		if json.Unmarshal([]byte(input), &value) != nil || json.Unmarshal([]byte(text), &original) != nil {
			return
		}
		resolved, err := original.Resolve(nil)
		if err != nil || errors.Is(got, toolschema.ErrTooLarge) {
			return
		}
		require.Equal(t, resolved.Validate(value) == nil, got == nil, "%v", got)
	})
}

// A server may list a thousand tools whose schemas are small, but large when they are expanded.
func TestBudgetOfManySchemas(t *testing.T) {
	var defs strings.Builder
	for i := range 12 {
		fmt.Fprintf(&defs, `"d%d":{"properties":{"a":{"$ref":"#/$defs/d%d"},"b":{"$ref":"#/$defs/d%d"}}},`, i, i+1, i+1)
	}
	for name, text := range map[string]string{
		"rejected":  `{"$ref":"#/$defs/d0","$defs":{` + defs.String() + `"d12":true}}`,
		"recursive": `{"properties":{"a":{"$ref":"#"},"b":{"$ref":"#"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			var budget toolschema.Budget
			var err error
			for range 100 {
				_, err = budget.Compile(json.RawMessage(text))
			}
			require.ErrorContains(t, err, "the schemas of all tools together")
			_, err = budget.Compile(json.RawMessage(`{}`))
			require.ErrorContains(t, err, "the schemas of all tools together")
		})
	}
	var budget toolschema.Budget
	for range 1000 { // as many as a server may have
		_, err := budget.Compile(json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"},"b":{"items":{"enum":["c"]}}},"required":["a"]}`))
		require.NoError(t, err)
	}
}
