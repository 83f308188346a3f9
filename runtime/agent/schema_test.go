package agent_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/agent"
)

// withSchema is a file with the schema of an output, in YAML or JSON.
func withSchema(schema string) []byte {
	return []byte(`agents: [{id: a, model: m, provider: {protocol: demo}, outputSchema: ` + schema + `}]`)
}

// Models write the properties of a value in the order of its schema.
func TestASchemaKeepsItsOrder(t *testing.T) {
	const schema = `{"type":"object","properties":{"why":{"type":"string"},"answer":{"enum":[1,1.5,null,true,"x"]}},"required":["why"]}`
	f, err := agent.Parse("a.yaml", withSchema(schema), nil)
	require.NoError(t, err)
	require.Equal(t, schema, string(f.Agents[0].OutputSchema))
	text, err := json.Marshal(f)
	require.NoError(t, err)
	again, err := agent.Parse("a.json", text, nil)
	require.NoError(t, err)
	require.Equal(t, f, again)
}

func TestSchemasOfOutputsWithFaults(t *testing.T) {
	for name, row := range map[string]struct{ schema, fault string }{
		"a list":          {`[]`, "must be a map, not a list"},
		"null":            {`null`, "must be a map, not null; omit the key if it is not needed"},
		"a key twice":     {`{"properties":{"a":{},"a":{}}}`, `must not have the key "a" twice`},
		"infinity":        {`{maximum: .inf}`, "unsupported value: +Inf"},
		"an alias bomb":   {`{a: &a [1,1,1,1,1,1,1,1,1,1], b: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a], c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b], d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c], e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d], f: [*e,*e]}`, "aliases expand to more than"},
		"too many levels": {strings.Repeat(`{"a":`, 70) + "1" + strings.Repeat("}", 70), "nested deeper than 64 levels"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := agent.Parse("a.yaml", withSchema(row.schema), nil)
			require.ErrorContains(t, err, row.fault)
		})
	}
	for name, row := range map[string]struct{ schema, fault string }{
		"a remote reference": {`{"$ref":"https://example.com/schema.json"}`, "reference to another document"},
		"a loop":             {`{"$ref":"#"}`, "refers to itself for the same value"},
		"a text":             {`{"type":"string"}`, "it is not of type object"},
		"1 MiB":              {`{"type":"object","title":"` + strings.Repeat("x", 1<<20) + `"}`, "the schema has more than 65536 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := agent.Parse("a.yaml", withSchema(row.schema), nil)
			require.NoError(t, err, "only this agent is unavailable")
			faults, ok := errors.AsType[agent.Faults](f.Agents[0].Check())
			require.True(t, ok)
			require.Equal(t, "outputSchema", faults[0].Key)
			require.Contains(t, faults[0].Message, row.fault)
		})
	}
}

// In a form, null is an absent schema.
func TestASchemaInAForm(t *testing.T) {
	var a agent.Agent
	require.NoError(t, agent.DecodeForm([]byte(`{"outputSchema":null}`), &a))
	require.Nil(t, a.OutputSchema)
	require.NoError(t, agent.DecodeForm([]byte(`{"outputSchema": {"type" : "object"} }`), &a))
	require.Equal(t, `{"type":"object"}`, string(a.OutputSchema))
	require.ErrorContains(t, agent.DecodeForm([]byte(`{"outputSchema":{"a":1,"a":2}}`), &a), "twice")
	require.ErrorContains(t, agent.DecodeForm([]byte(`{"outputSchema":"{}"}`), &a), "must be a map, not a string")
}
