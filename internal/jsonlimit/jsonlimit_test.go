package jsonlimit_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/jsonlimit"
)

func TestLimit(t *testing.T) {
	for name, row := range map[string]struct {
		limit jsonlimit.Limit
		text  string
		over  bool
	}{
		"values":             {jsonlimit.Limit{Values: 4}, `[1,2,3,4]`, false},
		"one more":           {jsonlimit.Limit{Values: 4}, `[1,2,3,4,5]`, true},
		"empty objects":      {jsonlimit.Limit{Values: 4}, `[{},{},{}]`, true},
		"fields":             {jsonlimit.Limit{Values: 2}, `{"a":1,"b":2,"c":3}`, true},
		"a text":             {jsonlimit.Limit{Values: 1}, `[",,,[[[{{{"]`, false},
		"a quote in a text":  {jsonlimit.Limit{Values: 1}, `["\",,,[[["]`, false},
		"after a backslash":  {jsonlimit.Limit{Values: 1}, `["\\",[[]]]`, true},
		"depth":              {jsonlimit.Limit{Values: 100, Depth: 3}, `[[[]],[[]]]`, false},
		"one level more":     {jsonlimit.Limit{Values: 100, Depth: 3}, `[{"a":[[]]}]`, true},
		"depth, no limit":    {jsonlimit.Limit{Values: 1 << 20}, strings.Repeat("[", 1<<19), false},
		"no JSON":            {jsonlimit.Limit{Values: 1}, `]]]]"`, false},
		"a backslash at end": {jsonlimit.Limit{Values: 1}, `["\`, false},
	} {
		t.Run(name, func(t *testing.T) {
			err := row.limit.Check([]byte(row.text))
			if row.over {
				require.ErrorIs(t, err, jsonlimit.ErrExceeded)
				return
			}
			require.NoError(t, err)
		})
	}
}

// FuzzCheck compares a count with that of a decoder: no value is missed.
func FuzzCheck(f *testing.F) {
	for _, text := range []string{`[1,2]`, `{"a":{},"b":[[],"x\"],"]}`, `"\\"`, ` [ ]`, `{"a":[{"b":1,"b":2}]}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var value any
		if json.Unmarshal([]byte(text), &value) != nil {
			return
		}
		values, depth := measure(value)
		if values > 1 { // the outermost value itself need not be counted
			require.ErrorIs(t, jsonlimit.Limit{Values: values - 2}.Check([]byte(text)), jsonlimit.ErrExceeded)
		}
		if depth > 1 {
			require.ErrorIs(t, jsonlimit.Limit{Values: len(text), Depth: depth - 1}.Check([]byte(text)), jsonlimit.ErrExceeded)
		}
	})
}

// measure returns the number of values, and the depth of arrays and objects.
func measure(value any) (values, depth int) {
	values = 1
	each := func(child any) {
		v, d := measure(child)
		values += v
		depth = max(depth, d)
	}
	switch v := value.(type) {
	case map[string]any:
		for _, child := range v {
			each(child)
		}
	case []any:
		for _, child := range v {
			each(child)
		}
	default:
		return 1, 0
	}
	return values, depth + 1
}

func TestMembers(t *testing.T) {
	all, err := jsonlimit.Members([]byte(` { "a" : {"b":1,"b":2} , "A":[ 1 ],"\u0063":"x" } `))
	require.NoError(t, err)
	require.Equal(t, map[string]json.RawMessage{"a": json.RawMessage(`{"b":1,"b":2}`), "A": json.RawMessage(`[ 1 ]`), "c": json.RawMessage(`"x"`)}, all)
	empty, err := jsonlimit.Members([]byte(`{}`))
	require.NoError(t, err)
	require.Empty(t, empty)
	for _, text := range []string{``, `[]`, `1`, `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `{"a":1`, `{"a":1}{}`, `{"a":1}x`, `{"a"}`, `{"a":1,}`, `{"a":1,2}`, `{1:2}`} {
		_, err := jsonlimit.Members([]byte(text))
		require.Error(t, err, text)
	}
}
