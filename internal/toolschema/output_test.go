package toolschema_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/toolschema"
)

func TestOutputs(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ schema, text, want, problem string }{
		"JSON":               {sumSchema, `{"sum":3}`, `{"sum":3}`, ""},
		"white space":        {sumSchema, " \n{ \"sum\" : 3 }\n", `{"sum":3}`, ""},
		"a code block":       {sumSchema, "```json\n{\"sum\":3}\n```", `{"sum":3}`, ""},
		"a block of another": {sumSchema, "```yaml\nsum: 3\n```", "", "it is not JSON"},
		"prose":              {sumSchema, `The sum is 3.`, "", "it is not JSON"},
		"empty":              {sumSchema, ``, "", "it is not JSON"},
		"another type":       {sumSchema, `{"sum":"3"}`, `{"sum":3}`, ""},
		"a missing property": {sumSchema, `{}`, "", "sum"},
		"a list":             {sumSchema, `[3]`, "", "must be an object"},
		"a name twice":       {sumSchema, `{"sum":3,"sum":4}`, "", "it is not JSON"},
		"any object":         {`{"type":"object"}`, `{"a":[{"b":null}]}`, `{"a":[{"b":null}]}`, ""},
		"a tree":             {treeSchema, `{"next":{"next":{}}}`, `{"next":{"next":{}}}`, ""},
		"a fault in a tree":  {treeSchema, `{"next":{"next":1}}`, "", "next"},
		"deeper than a tree": {treeSchema, strings.Repeat(`{"next":`, 60) + "{}" + strings.Repeat("}", 60), "", "it is nested deeper than"},
		"a union":            {`{"anyOf":[{"type":"object","required":["a"]},{"type":"object","required":["b"]}]}`, `{"b":1}`, `{"b":1}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := toolschema.CompileOutput(json.RawMessage(row.schema))
			require.NoError(t, err)
			got, err := s.Output(t.Context(), row.text)
			if row.problem != "" {
				require.ErrorContains(t, err, row.problem)
				return
			}
			require.NoError(t, err)
			require.JSONEq(t, row.want, string(got))
		})
	}
}

const (
	sumSchema  = `{"type":"object","properties":{"sum":{"type":"integer"}},"required":["sum"]}`
	treeSchema = `{"type":"object","properties":{"next":{"$ref":"#"}}}`
)

// A schema of an output that a validator could ignore, as that of a tool, is an error, and none is
// fetched or takes long.
func TestOutputSchemasThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	wide := make([]string, 1500)
	for i := range wide {
		wide[i] = fmt.Sprintf(`"p%d":{"$ref":"#/$defs/a"}`, i)
	}
	for name, row := range map[string]struct{ schema, problem string }{
		"not JSON":              {`{`, "unsupported schema"},
		"a list":                {`[]`, "not a JSON object"},
		"of a text":             {`{"type":"string"}`, "it is not of type object"},
		"another document":      {`{"type":"object","properties":{"a":{"$ref":"http://127.0.0.1:1/schema.json"}}}`, "reference to another document"},
		"a file":                {`{"$ref":"file:///etc/passwd"}`, "reference to another document"},
		"a loop":                {`{"type":"object","allOf":[{"$ref":"#"}]}`, "refers to itself for the same value"},
		"a loop of definitions": {`{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`, "refers to itself for the same value"},
		"nothing":               {`{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}}}`, "reference to nothing"},
		"a pattern":             {`{"type":"object","properties":{"a":{"pattern":"(?=a)"}}}`, "unsupported schema"},
		"a wrong keyword":       {`{"type":"object","properties":{"a":{"minLength":"x"}}}`, "unsupported schema"},
		"1 MiB":                 {`{"type":"object","description":"` + strings.Repeat("x", 1<<20) + `"}`, "the schema has more than 65536 bytes"},
		"too deep":              {strings.Repeat(`{"type":"object","properties":{"a":`, 150) + "{}" + strings.Repeat("}}", 150), "levels"},
		"a long enum":           {`{"type":"object","properties":{"a":{"type":"array","items":{"enum":[0` + strings.Repeat(",1", 9000) + `]}}}}`, "for 1 levels of nesting only"},
		"a bomb":                {`{"type":"object","properties":{"a":{"$ref":"#/$defs/0"}},"$defs":{` + bomb(40) + `}}`, ""},
		"many references":       {`{"type":"object","properties":{` + strings.Join(wide, ",") + `},"$defs":{"a":{"enum":[` + strings.Repeat("1,", 400) + `2]}}}`, "its subschemas have more than 1048576 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begin := time.Now()
			s, err := toolschema.CompileOutput(json.RawMessage(row.schema))
			if row.problem != "" {
				require.ErrorContains(t, err, row.problem)
			}
			require.Less(t, time.Since(begin), 5*time.Second)
			if err == nil {
				_, err = s.Output(t.Context(), `{"a":`+strings.Repeat(`{"a":[1,2,{"b":`, 20)+"1"+strings.Repeat("}]}", 20)+"}")
				t.Log(err)
				require.Less(t, time.Since(begin), 20*time.Second)
			}
		})
	}
}

// bomb returns definitions of which each refers twice to the next one.
func bomb(n int) string {
	defs := make([]string, n)
	for i := range defs {
		defs[i] = fmt.Sprintf(`"%d":{"anyOf":[{"$ref":"#/$defs/%d"},{"$ref":"#/$defs/%d"}]}`, i, i+1, i+1)
	}
	return strings.Join(append(defs, fmt.Sprintf(`"%d":{}`, n)), ",")
}

func TestSubset(t *testing.T) {
	t.Parallel()
	loose := toolschema.Subset{Keywords: []string{"type", "properties", "required", "additionalProperties", "items", "anyOf", "enum"}}
	strict := loose
	strict.Required = true
	for name, row := range map[string]struct {
		schema        string
		loose, strict bool
	}{
		"all required":         {`{"type":"object","properties":{"a":{"type":"string","description":"x"}},"required":["a"],"additionalProperties":false}`, true, true},
		"a free property":      {`{"type":"object","properties":{"a":{}},"additionalProperties":false}`, true, false},
		"further properties":   {`{"type":"object","properties":{},"required":[]}`, false, false},
		"any object":           {`{"type":"object"}`, false, false},
		"a map":                {`{"type":"object","additionalProperties":{"type":"string"}}`, false, false},
		"a keyword":            {`{"type":"object","properties":{"a":{"type":"string","minLength":1}},"required":["a"],"additionalProperties":false}`, false, false},
		"a property of a name": {`{"type":"object","properties":{"minLength":{"type":"string"}},"required":["minLength"],"additionalProperties":false}`, true, true},
		"an object in a list":  {`{"type":"object","properties":{"a":{"type":"array","items":{"type":["object","null"]}}},"required":["a"],"additionalProperties":false}`, false, false},
		"a union":              {`{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"enum":[{"b":1}]}]}},"required":["a"],"additionalProperties":false}`, true, true},
		"a union at the top":   {`{"anyOf":[{"type":"object","properties":{},"additionalProperties":false}]}`, false, false},
		"true":                 {`{"type":"object","properties":{"a":true},"required":["a"],"additionalProperties":false}`, false, false},
		"a list":               {`[]`, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, row.loose, loose.Has(json.RawMessage(row.schema)))
			require.Equal(t, row.strict, strict.Has(json.RawMessage(row.schema)))
		})
	}
}

// An output is an object that is valid as it is, whatever the schema and the text are.
func FuzzOutput(f *testing.F) {
	for _, schema := range []string{sumSchema, treeSchema, `{"type":"object"}`, `{"type":"object","properties":{"a":{"type":["string","null"],"pattern":"^a+$"}}}`} {
		for _, text := range []string{`{"sum":"3"}`, "```json\n{\"next\":{\"next\":null}}\n```", `{"a":"aa"}`, `[]`, "```{}```", "\xff"} {
			f.Add(schema, text)
		}
	}
	f.Fuzz(func(t *testing.T, schema, text string) {
		if len(schema) > 4096 || len(text) > 4096 {
			return
		}
		began := time.Now()
		s, err := toolschema.CompileOutput(json.RawMessage(schema))
		if err != nil {
			return
		}
		output, err := s.Output(t.Context(), text)
		require.Less(t, time.Since(began), time.Minute)
		if err != nil {
			return
		}
		var value map[string]any
		require.NoError(t, json.Unmarshal(output, &value))
		again, err := s.Output(t.Context(), string(output))
		require.NoError(t, err)
		require.Equal(t, string(output), string(again))
	})
}
