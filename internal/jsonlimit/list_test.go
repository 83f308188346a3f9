package jsonlimit_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/jsonlimit"
)

type item struct {
	Name string    `json:"name"`
	At   time.Time `json:"at,omitzero"`
}

func TestAnElementHidesOnlyItself(t *testing.T) {
	var page struct {
		Items jsonlimit.List[item] `json:"items"`
		Total int                  `json:"total"`
	}
	const ok = `{"name":"a"},`
	err := jsonlimit.Unmarshal([]byte(`{"items":[`+ok+`{"name":{"toString":1}},`+ok+`{"name":"b","at":"10000-01-01T00:00:00Z"},[],7,`+ok+`null],"total":9}`), &page)
	require.NoError(t, err)
	require.Equal(t, []item{{Name: "a"}, {Name: "a"}, {Name: "a"}, {}}, page.Items.Items)
	require.Len(t, page.Items.Omitted, 4)
	require.EqualError(t, page.Items.Omitted[0], "name must be a string, not object")
	require.Equal(t, 9, page.Total)
	for text, want := range map[string]string{`{"items":7}`: "must be an array", `{"items":[{]}`: "is not JSON", `{"items":[{"a":1,"a":2}]}`: "must not occur twice"} {
		require.ErrorContains(t, jsonlimit.Unmarshal([]byte(text), &page), want, text)
	}
	require.NoError(t, jsonlimit.Unmarshal([]byte(`{"items":null}`), &page))
	require.Nil(t, page.Items.Items)
}

func TestCompact(t *testing.T) {
	limit := jsonlimit.Limit{Values: 100, Depth: 3}
	got, err := limit.Compact([]byte(" { \"a\" : [ 1e400, \"\xff\\u003c\" , 12345678901234567890 ] } "))
	require.NoError(t, err)
	require.Equal(t, "{\"a\":[1e400,\"\uFFFD\\u003c\",12345678901234567890]}", string(got))
	for text, want := range map[string]string{
		`[[[[1]]]]`: "nests too deeply", `[` + strings.Repeat("1,", 100) + `1]`: "too many values",
		`{"a":{"b":1,"b":2}}`: "a.b must not occur twice", `{"a"}`: "is not JSON", ``: "is not JSON", `1 2`: "is not JSON",
	} {
		_, err := limit.Compact([]byte(text))
		require.ErrorContains(t, err, want, text)
	}
}

// read returns the values of a stream of {"path", "entries"}.
func read(r io.Reader, most int) (values []string, err error) {
	s := jsonlimit.NewStream(r, most)
	if err := s.Enter('{'); err != nil {
		return values, err
	}
	for {
		more, err := s.More()
		if err != nil || !more {
			return values, err
		}
		name, err := s.Name()
		if err != nil {
			return values, err
		}
		if name == "entries" {
			if err := s.Enter('['); err != nil {
				return values, err
			}
		}
		for {
			if name == "entries" {
				if more, err := s.More(); err != nil || !more {
					if err != nil {
						return values, err
					}
					break
				}
			}
			value, err := s.Value()
			if err != nil {
				return values, err
			}
			values = append(values, name+string(value))
			if name != "entries" {
				break
			}
		}
	}
}

func TestStream(t *testing.T) {
	const text = ` {"path":"a", "entries":[ {"n":[1]}, 2 ,"three"],"x":null} `
	for _, r := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text))} {
		values, err := read(r, 64)
		require.NoError(t, err)
		require.Equal(t, []string{`path"a"`, `entries{"n":[1]}`, `entries2`, `entries"three"`, `xnull`}, values)
	}
	values, err := read(strings.NewReader(`{"entries":[`+strings.Repeat(`"0123456789",`, 1000)+`1]}`), 64)
	require.NoError(t, err, "the bound is that of a value")
	require.Len(t, values, 1001)
	var many strings.Builder
	for i := range 1001 {
		fmt.Fprintf(&many, `"%d":0,`, i)
	}
	for text, want := range map[string]string{
		`{` + many.String() + `"entries":[]}`:              "nests too deeply or has too many values",
		`{"entries":["` + strings.Repeat("x", 200) + `"]}`: "nests too deeply or has too many values",
		`{"` + strings.Repeat("x", 200) + `":1}`:           "nests too deeply or has too many values",
		`{"entries":[1`:                                    "unexpected end of JSON",
		`{"entries":[1 2]}`:                                "is not JSON",
		`{"entries":[1],"entries":[2]}`:                    "must not occur twice",
		`{"entries":[{"a":1,"a":2}]}`:                      "must not occur twice",
		`[]`:                                               "in place of",
		`{"entries":{}}`:                                   "in place of",
		``:                                                 "unexpected EOF",
		`<html>`:                                           "is not JSON",
	} {
		_, err := read(strings.NewReader(text), 64)
		require.ErrorContains(t, err, want, text)
	}
	_, err = read(io.MultiReader(strings.NewReader(`{"entries":[1,`), iotest.ErrReader(iotest.ErrTimeout)), 64)
	require.ErrorIs(t, err, iotest.ErrTimeout)
}
