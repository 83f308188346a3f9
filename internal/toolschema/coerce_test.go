package toolschema_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/toolschema"
)

const coercible = `{"type":"object","additionalProperties":false,"required":["must"],"properties":{
	"must":{"type":"string"},
	"n":{"type":"integer"}, "x":{"type":"number"}, "flag":{"type":"boolean"},
	"text":{"type":"string"}, "maybe":{"type":["string","null"]}, "textOrNumber":{"type":["string","integer"]},
	"either":{"anyOf":[{"type":"string"},{"type":"integer"}]}, "numberOrNull":{"oneOf":[{"type":"integer"},{"type":"null"}]},
	"level":{"enum":[1,2]}, "digit":{"enum":["1","2"]}, "three":{"const":3}, "mixed":{"enum":["a",2]},
	"list":{"type":"array","items":{"type":"integer"}},
	"pair":{"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}],"items":{"type":"boolean"}},
	"todos":{"type":"array","items":{"type":"object","required":["content"],"properties":{"content":{"type":"string"},"done":{"type":"boolean"},"rank":{"$ref":"#/$defs/rank"}}}},
	"rank":{"$ref":"#/$defs/rank"}, "sum":{"allOf":[{"type":["integer","string"]},{"type":["integer","boolean"]}]},
	"open":{"type":"object","additionalProperties":{"type":"integer"}}, "any":{},
	"shape":{"oneOf":[
		{"type":"object","properties":{"kind":{"const":"circle"},"r":{"type":"integer"}},"required":["kind","r"]},
		{"type":"object","properties":{"kind":{"const":"label"},"r":{"type":"string"}},"required":["kind","r"]}]},
	"tree":{"$ref":"#/$defs/tree"}},
	"$defs":{"rank":{"type":"integer","minimum":1},
		"tree":{"type":"object","properties":{"n":{"type":"integer"},"below":{"type":"array","items":{"$ref":"#/$defs/tree"}}}}}}`

// A value of another type is replaced where the schema leaves one reading. "" leaves the input.
func TestCoerce(t *testing.T) {
	s, err := new(toolschema.Budget).Compile(json.RawMessage(coercible))
	require.NoError(t, err)
	for name, row := range map[string]struct{ input, want string }{
		"an integer":                  {`"n":"2"`, `"n":2`},
		"an integer with blanks":      {`"n":" -2\n"`, `"n":-2`},
		"digits beyond a float":       {`"n":"12345678901234567891"`, `"n":12345678901234567891`},
		"a fraction of zero":          {`"n":2.0,"x":2.0`, `"n":2,"x":2.0`},
		"a text with such a fraction": {`"n":"2.00"`, `"n":2`},
		"a number":                    {`"x":"2.50"`, `"x":2.50`},
		"an exponent":                 {`"x":"1e3"`, `"x":1e3`},
		"truth values":                {`"flag":"true","open":{},"todos":[{"content":"a","done":"False"}]`, `"flag":true,"open":{},"todos":[{"content":"a","done":false}]`},
		"a list":                      {`"list":"[1,2]"`, `"list":[1,2]`},
		"a list in two ways":          {`"list":"[\"1\", 2]"`, `"list":[1,2]`},
		"elements":                    {`"list":["1","2"]`, `"list":[1,2]`},
		"elements by position":        {`"pair":["1",2,"true"]`, `"pair":[1,"2",true]`},
		"a list of objects":           {`"todos":"[{\"content\":7,\"rank\":\"3\"}]"`, `"todos":[{"content":"7","rank":3}]`},
		"objects as texts":            {`"todos":["{\"content\":\"a\"}"]`, `"todos":[{"content":"a"}]`},
		"a reference":                 {`"rank":"3"`, `"rank":3`},
		"all of several types":        {`"sum":"3"`, `"sum":3`},
		"any property":                {`"open":{"a":"1","b":2}`, `"open":{"a":1,"b":2}`},
		"an object":                   {`"open":"{\"a\":1}"`, `"open":{"a":1}`},
		"an enumeration of numbers":   {`"level":"2"`, `"level":2`},
		"an enumeration of texts":     {`"digit":2`, `"digit":"2"`},
		"a constant":                  {`"three":"3"`, `"three":3`},
		"the variant that applies":    {`"shape":{"kind":"circle","r":"3"}`, `"shape":{"kind":"circle","r":3}`},
		"another variant":             {`"shape":{"kind":"label","r":3}`, `"shape":{"kind":"label","r":"3"}`},
		"levels of a recursion":       {`"tree":{"n":"1","below":"[{\"n\":\"2\",\"below\":[{\"n\":\"3\"}]}]"}`, `"tree":{"n":1,"below":[{"n":2,"below":[{"n":3}]}]}`},
		"a number as a text":          {`"text":1.10`, `"text":"1.10"`},
		"a truth value as a text":     {`"text":true,"maybe":12`, `"text":"true","maybe":"12"`},
		"null is absence":             {`"n":null,"list":null,"shape":null,"todos":[{"content":"a","rank":null}]`, `"todos":[{"content":"a"}]`},
		"null that is permitted":      {`"maybe":null,"numberOrNull":"null","any":null,"n":"1"`, `"maybe":null,"numberOrNull":null,"any":null,"n":1`},
		"a text is permitted":         {`"text":"2","maybe":"null","textOrNumber":"2","either":"2","mixed":"a","any":"[1]"`, ``},

		"a text of a text":              {`"n":"\"2\""`, ``},
		"no number":                     {`"n":"two"`, ``},
		"hexadecimal":                   {`"n":"0x10"`, ``},
		"a leading zero":                {`"n":"007"`, ``},
		"an empty text":                 {`"n":""`, ``},
		"no integer":                    {`"n":"2.5"`, ``},
		"two values":                    {`"n":"1 2"`, ``},
		"a number for a truth value":    {`"flag":1`, ``},
		"yes":                           {`"flag":"yes"`, ``},
		"an object for a text":          {`"text":{"a":1}`, ``},
		"a list for a text":             {`"text":["a"]`, ``},
		"one element for a list":        {`"list":1`, ``},
		"an exponent for a text":        {`"text":1e3`, ``},
		"a text that is permitted once": {`"mixed":"2"`, ``},
		"null in a list":                {`"list":[null]`, ``},
		"too small after it":            {`"rank":"0"`, ``},
		"another mistake":               {`"n":"2","more":1`, ``},
		"one of two":                    {`"n":"2","rank":"x"`, ``},
		"a name twice in a text":        {`"open":"{\"a\":1,\"a\":2}"`, ``},
		"deeper than JSON may be":       {`"list":"` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `"`, ``},
	} {
		t.Run(name, func(t *testing.T) {
			input, want := `{"must":"a",`+row.input+`}`, `{"must":"a",`+row.want+`}`
			got := s.Coerce(t.Context(), json.RawMessage(input))
			if row.want == "" {
				require.Equal(t, input, string(got))
				return
			}
			require.JSONEq(t, want, string(got))
			require.NoError(t, s.Validate(t.Context(), got))
			require.Equal(t, string(got), string(s.Coerce(t.Context(), got)))
			for _, number := range []string{"12345678901234567891", "2.50", "1.10"} { // JSONEq compares floats
				require.Equal(t, strings.Contains(want, number), strings.Contains(string(got), number))
			}
		})
	}
}

// The error of an input without a reading names what to send instead.
func TestRemedies(t *testing.T) {
	s, err := new(toolschema.Budget).Compile(json.RawMessage(coercible))
	require.NoError(t, err)
	for input, want := range map[string]string{
		`{"must":"a","n":"two"}`:                      `want "integer": send n as an integer, not as a string`,
		`{"must":null}`:                               `want "string": send must as a string, not as null`,
		`{"must":"a","todos":[{"content":["a"]}]}`:    `send todos[0].content as a string, not as an array`,
		`{"must":"a","more":{}}`:                      `leave out more`,
		`{"must":"a","x":[],"numberOrNull":[]}`:       `send numberOrNull as null or an integer, not as an array; send x as a number, not as an array`,
		`{"must":"a","open":{"a":"x"},"text":"fine"}`: `send open.a as an integer, not as a string`,
	} {
		require.ErrorContains(t, s.Validate(t.Context(), json.RawMessage(input)), want)
	}
	many := s.Validate(t.Context(), json.RawMessage(`{"must":"a","list":["`+strings.Repeat(`x","`, 1000)+`"]}`))
	require.Equal(t, 5, strings.Count(many.Error(), "send list"))
}

// Nested texts take no more than their bytes.
func TestCoerceIsBounded(t *testing.T) {
	s, err := new(toolschema.Budget).Compile(json.RawMessage(`{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},
		"$defs":{"a":{"anyOf":[{"type":"array","items":{"$ref":"#/$defs/a"}},{"type":"integer"}]}}}`))
	require.NoError(t, err)
	text := "[1]"
	for range 12 { // each level doubles the backslashes
		quoted, err := json.Marshal(text)
		require.NoError(t, err)
		text = "[" + string(quoted) + "]"
	}
	input, err := json.Marshal(map[string]string{"a": text})
	require.NoError(t, err)
	require.JSONEq(t, `{"a":`+strings.Repeat("[", 13)+"1"+strings.Repeat("]", 13)+`}`, string(s.Coerce(t.Context(), input)))

	many, err := json.Marshal(map[string]string{"a": "[" + strings.Repeat("1,", 2_000_000) + "1]"})
	require.NoError(t, err)
	require.Len(t, s.Coerce(t.Context(), many), len(many), "too many values to be validated")
}

func FuzzCoerce(f *testing.F) {
	s, err := new(toolschema.Budget).Compile(json.RawMessage(coercible))
	require.NoError(f, err)
	f.Add(`{"must":"a","n":"2","todos":"[{\"content\":1}]","shape":{"kind":"circle","r":"3"}}`)
	f.Add(`{"must":null,"open":{"a":null},"pair":["1",2,"true"]}`)
	f.Fuzz(func(t *testing.T, input string) {
		var object map[string]any
		if json.Unmarshal([]byte(input), &object) != nil || object == nil {
			return
		}
		valid := s.Validate(t.Context(), json.RawMessage(input)) == nil
		got := s.Coerce(t.Context(), json.RawMessage(input))
		if string(got) != input || valid {
			require.NoError(t, s.Validate(t.Context(), got))
		}
		require.Equal(t, string(got), string(s.Coerce(t.Context(), got)))
	})
}
