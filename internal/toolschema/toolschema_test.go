package toolschema_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/toolschema"
)

func TestFit(t *testing.T) {
	long := strings.Repeat("n", 70)
	for name, row := range map[string]struct{ schema, want string }{
		"no schema":     {``, `{"type":"object","properties":{}}`},
		"no properties": {`{"type":"object"}`, `{"type":"object","properties":{}}`},
		"no type":       {`{"properties":{"a":{}}}`, `{"type":"object","properties":{"a":{}}}`},
		"several types": {`{"type":["object","null"],"properties":{}}`, `{"type":"object","properties":{}}`},
		"required in anyOf": {`{"type":"object","properties":{"a":{},"b":{}},"required":["c"],"anyOf":[{"required":["a"]},{"required":["b"]}]}`,
			`{"type":"object","properties":{"a":{},"b":{}},"required":["c"]}`},
		"a union of objects": {`{"type":"object","oneOf":[
			{"type":"object","properties":{"kind":{"const":"a"},"x":{"type":"string"}},"required":["kind","x"],"additionalProperties":false},
			{"type":"object","properties":{"kind":{"const":"b"},"x":{"type":"string"},"y":{}},"required":["kind"]}]}`,
			`{"type":"object","properties":{"kind":{"anyOf":[{"const":"a"},{"const":"b"}]},"x":{"type":"string"},"y":{}},"required":["kind"]}`},
		"allOf": {`{"allOf":[{"properties":{"a":{}},"required":["a"]},{"properties":{"b":{}},"required":["b"]}]}`,
			`{"type":"object","properties":{"a":{},"b":{}},"required":["a","b"]}`},
		"unions in unions": {`{"anyOf":[{"allOf":[{"required":["a"]},{"oneOf":[{"required":["b","c"]},{"required":["b"]}]}]},{"required":["a","b"]}]}`,
			`{"type":"object","properties":{},"required":["a","b"]}`},
		"a member that is no object": {`{"anyOf":[{"type":"string"},{"type":"object","required":["a"]},{"type":"null"}]}`,
			`{"type":"object","properties":{},"required":["a"]}`},
		"a member that accepts anything": {`{"anyOf":[true,{"required":["a"]}]}`, `{"type":"object","properties":{}}`},
		"a reference": {`{"$ref":"#/$defs/a","$defs":{"a":{"type":"object","properties":{"b":{"$ref":"#/$defs/b"}},"required":["b"]},"b":{"type":"string"}}}`,
			`{"type":"object","properties":{"b":{"$ref":"#/$defs/b"}},"required":["b"],
			"$defs":{"a":{"type":"object","properties":{"b":{"$ref":"#/$defs/b"}},"required":["b"]},"b":{"type":"string"}}}`},
		"a reference to itself": {`{"$ref":"#","properties":{"a":{}}}`, `{"type":"object","properties":{"a":{}}}`},
		"enum and not":          {`{"type":"object","properties":{},"enum":[{}],"not":{"required":["a"]},"const":{}}`, `{"type":"object","properties":{}}`},
		"a union below the top": {`{"type":"object","properties":{"a":{"oneOf":[{"type":"string"},{"type":"null"}]}}}`, ""},
		"names": {`{"type":"object","properties":{"$filter":{"type":"string","description":"An expression."},"filter[id]":{},"":true,"名":{},"` + long + `":{}},
			"required":["$filter","x"]}`,
			`{"type":"object","properties":{"_filter":{"type":"string","description":"\"$filter\". An expression."},"filter_id_":{"description":"\"filter[id]\"."},
			"_2":true,"_":{"description":"\"名\"."},"` + long[:64] + `":{"description":"\"` + long + `\"."}},"required":["_filter","x"]}`},
		"names that become the same": {`{"type":"object","properties":{"_a":{},"$a":{},"@a":{}}}`,
			`{"type":"object","properties":{"_a":{},"_a_2":{"description":"\"$a\"."},"_a_3":{"description":"\"@a\"."}}}`},
		"a name of a property without a schema": {`{"type":"object","properties":{"_a":null,"$a":{}}}`,
			`{"type":"object","properties":{"_a":{},"_a_2":{"description":"\"$a\"."}}}`},
		"names in other keywords": {`{"type":"object","properties":{"$a":{}},"propertyNames":{"pattern":"^\\$"},"dependentRequired":{"$a":["b"]},"if":{"required":["$a"]},"then":{}}`,
			`{"type":"object","properties":{"_a":{"description":"\"$a\"."}}}`},
		"a name below the top": {`{"type":"object","properties":{"a":{"type":"object","properties":{"$b":{}}}}}`, ""},
		"a reference to a renamed property": {`{"type":"object","properties":{"$a":{"items":{"$ref":"#"},"type":"array"},"b":{"$ref":"#/properties/$a"}}}`,
			`{"type":"object","properties":{"_a":{"items":{},"type":"array","description":"\"$a\"."},"b":{}}}`},
		"arrays": {`{"type":"object","properties":{"a":{"type":"array"},"b":{"type":["array","null"]},"c":{"items":{"type":"array"}},"d":{"type":"array","items":{}}}}`,
			`{"type":"object","properties":{"a":{"type":"array","items":{}},"b":{"type":["array","null"],"items":{}},"c":{"items":{"type":"array","items":{}}},"d":{"type":"array","items":{}}}}`},
		"a tuple of an earlier draft": {`{"type":"object","properties":{"a":{"type":"array","items":[{"type":"string"}],"additionalItems":false}}}`,
			`{"type":"object","properties":{"a":{"type":"array","prefixItems":[{"type":"string"}],"items":false,"additionalItems":false}}}`},
		"an empty tuple": {`{"type":"object","properties":{"a":{"type":"array","items":[]}}}`, `{"type":"object","properties":{"a":{"type":"array","items":{}}}}`},
		"forms of an earlier draft": {`{"type":"object","properties":{"a":{"type":"integer","required":true,"minimum":1,"exclusiveMinimum":true}}}`,
			`{"type":"object","properties":{"a":{"type":"integer","minimum":1}}}`},
		"mistakes": {`{"type":"object","required":["a","a"],"properties":{"a":{"type":"any","enum":[],"minLength":-1,"maximum":"1","pattern":1},"b":null,"c":{"type":["string","int"]},
			"d":{"anyOf":[]},"e":{"items":"string"},"f":{"properties":[]},"g":{"multipleOf":0,"uniqueItems":"yes","not":1},"h":"string"}}`,
			`{"type":"object","properties":{"a":{},"b":{},"c":{},"d":{},"e":{},"f":{},"g":{},"h":{}}}`},
		"references without a target": {`{"type":"object","properties":{"a":{"$ref":"#/$defs/x"},"b":{"$ref":"https://example.com/x"},"c":{"$ref":"#x"},"d":{"$ref":1},"e":{"$ref":"#/properties/a"}}}`,
			`{"type":"object","properties":{"a":{},"b":{},"c":{},"d":{},"e":{"$ref":"#/properties/a"}}}`},
		"a reference into a tuple": {`{"type":"object","properties":{"a":{"items":[{}]},"b":{"$ref":"#/properties/a/items/0"}}}`,
			`{"type":"object","properties":{"a":{"prefixItems":[{}]},"b":{}}}`},
		"an escaped reference": {`{"type":"object","properties":{"a":{"$ref":"#/$defs/x~1y%20z"}},"$defs":{"x/y z":{}}}`, ""},
		"what needs no change": {`{ "type":"object", "properties":{"z.b-C_1":{"type":"number","minimum":1e400,"const":"<&>"}}, "additionalProperties":false, "x-own":[1] }`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for range 5 { // the order of a map differs
				got, err := toolschema.Fit(json.RawMessage(row.schema))
				require.NoError(t, err)
				if row.want == "" {
					require.Equal(t, row.schema, string(got.JSON))
					return
				}
				require.JSONEq(t, row.want, string(got.JSON))
				again, err := toolschema.Fit(got.JSON)
				require.NoError(t, err)
				require.Equal(t, string(got.JSON), string(again.JSON), "a converted schema needs no change")
			}
		})
	}
}

func TestFitFails(t *testing.T) {
	nested := strings.Repeat(`{"items":`, 200) + "{}" + strings.Repeat("}", 200)
	unions := strings.Repeat(`{"anyOf":[`, 200) + "{}" + strings.Repeat("]}", 200)
	for schema, want := range map[string]string{
		`{"type":"array","items":{}}`:         "it is not of type object",
		`{"type":["string","null"]}`:          "it is not of type object",
		`true`:                                "it is not a JSON object",
		`null`:                                "it is not a JSON object",
		`{"type":`:                            "it is not a JSON object",
		`{"properties":{"a":` + nested + `}}`: "it has more than 100 levels",
		unions:                                "it has more than 100 levels",
	} {
		_, err := toolschema.Fit(json.RawMessage(schema))
		require.EqualError(t, err, want, "%.40s", schema)
	}
}

func TestInput(t *testing.T) {
	s, err := toolschema.Fit(json.RawMessage(`{"type":"object","properties":{"$filter":{},"a":{},"filter[id]":{}}}`))
	require.NoError(t, err)
	require.True(t, s.Renamed())
	for input, want := range map[string]string{
		`{"_filter":"x < 1","a":{"_filter":1}, "filter_id_":[ ]}`: `{"$filter":"x < 1","a":{"_filter":1},"filter[id]":[]}`,
		`{"$filter":1}`:              `{"$filter":1}`,
		`{"$filter":1,"_filter":2}`:  `{"$filter":2}`,
		`{"n":12345678901234567890}`: `{"n":12345678901234567890}`,
		`{"_filter":`:                `{"_filter":`,
		`[]`:                         `[]`,
		``:                           ``,
	} {
		require.Equal(t, want, s.Input(input))
	}
	s, err = toolschema.Fit(json.RawMessage(`{"type":"object","anyOf":[]}`))
	require.NoError(t, err)
	require.False(t, s.Renamed())
	require.Equal(t, ` {"_filter":1}`, s.Input(` {"_filter":1}`))
}

// Schemas whose conversion would take time or memory out of proportion if members were folded more
// than once.
func TestFitIsLinear(t *testing.T) {
	var defs, members, properties []string
	for i := range 40 {
		if i == 39 {
			defs = append(defs, `"d39":{}`)
			break
		}
		ref := fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, i+1)
		defs = append(defs, fmt.Sprintf(`"d%d":{"allOf":[%s,%s],"anyOf":[%s,%s]}`, i, ref, ref, ref, ref))
	}
	for i := range 5_000 {
		members = append(members, fmt.Sprintf(`{"properties":{"kind":{"const":%d}},"required":["kind"]}`, i))
		properties = append(properties, fmt.Sprintf(`"%s%d":{}`, strings.Repeat("$", 70), i))
	}
	for name, schema := range map[string]string{
		"references": `{"$ref":"#/$defs/d0","$defs":{` + strings.Join(defs, ",") + `}}`,
		"members":    `{"oneOf":[` + strings.Join(members, ",") + `]}`,
		"names":      `{"properties":{` + strings.Join(properties, ",") + `}}`,
	} {
		got, err := toolschema.Fit(json.RawMessage(schema))
		require.NoError(t, err, name)
		require.Less(t, len(got.JSON), 3*len(schema)+1000, name)
	}
}
