package jsonscan_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model/internal/jsonscan"
)

// point reads {"x":1,"name":"...","in":{"y":2}}, and ignores other fields.
func point(data string) (x, y int, name string, ok bool) {
	s := jsonscan.Over([]byte(data))
	s.Open('{')
	for key := s.Key(); key != nil; key = s.Key() {
		switch string(key) {
		case "x":
			x = s.Int()
		case "name":
			if !s.Null() {
				name = s.Text()
			}
		case "in":
			s.Open('{')
			for key := s.Key(); key != nil; key = s.Key() {
				if string(key) == "y" {
					y = s.Int()
				} else {
					s.Skip()
				}
			}
		default:
			s.Skip()
		}
	}
	return x, y, name, s.Done()
}

func Example() {
	fmt.Println(point(`{"id": "a", "x": 1, "name": "caf\u00e9", "in": {"y": 2}}`))
	fmt.Println(point(`{"X": 1}`)) // encoding/json takes this for x
	// Output:
	// 1 2 café true
	// 0 0  false
}

func TestObjects(t *testing.T) {
	for _, data := range []string{
		`{}`, ` { } `, `{"x":1}`, "{\r\n\t\"x\" : 12 ,\n\"name\":null}  ", `{"x":0,"in":{},"name":"a"}`,
		`{"in":{"y":3,"z":[]},"a":true,"b":false,"c":null,"d":{},"e":123456789012345678901234567890,"f":"x"}`,
		`{"a":[1],"b":{"b":1,"c":{"d":[ ]}},"x":4,"c":[[],{},[1 , "a",null,[true,false]]],"in":{"z":{"x":1},"y":5}}`,
		`{"a":[[[[[[[1]]]]]]],"x":1}`,
	} {
		t.Run(data, func(t *testing.T) {
			var want struct {
				X    int
				Name string
				In   struct{ Y int }
			}
			require.NoError(t, json.Unmarshal([]byte(data), &want))
			x, y, name, ok := point(data)
			require.True(t, ok)
			require.Equal(t, []any{want.X, want.In.Y, want.Name}, []any{x, y, name})
		})
	}
}

func TestTheScannerRejects(t *testing.T) {
	for _, data := range []string{
		``, ` `, `{`, `}`, `{]`, `{"x"}`, `{"x":}`, `{"x":1`, `{"x":1,}`, `{,"x":1}`, `{"x":1 "in":{}}`, `{"x":1}{`, `{"x":1}x`,
		"{\"x\":1}\x00",
		`{"x":01}`, `{"x":-1}`, `{"x":1.0}`, `{"x":1e3}`, `{"x":1234567890}`, `{"x":"1"}`, `{"x":null}`, `{"x":+1}`,
		`{"X":1}`, `{"\u0078":1}`, `{"":1}`, `{"a b":1}`, `{"ſ":1}`,
		`{"name":"a}`, `{"name":"\x"}`, `{"name":"\u12"}`, `{"name":"\u12g4"}`, `{"name":"\"}`, `{"name":nul}`, `{"name":"\`,
		"{\"name\":\"a\nb\"}",
		`{"a":01}`, `{"a":00}`, `{"a":1.5}`, `{"a":-1}`, `{"a":tru}`, `{"a":[1,]}`, `{"a":[,1]}`, `{"a":[1 2]}`, `{"a":[1}`,
		`{"a":{"b":1]}`, `{"a":{"b":1,}}`, `{"a":{"b"}}`, `{"a":{"B":1}}`, `{"a":[1`, `{"a":[1,`,
		`{"a":[[[[[[[[1]]]]]]]]}`, `{"a":"\n"}`, `{"a":[}`, `{"a":1-1}`, "{\v}",
	} {
		t.Run(data, func(t *testing.T) {
			_, _, _, ok := point(data)
			require.False(t, ok)
		})
	}
}

// FuzzText compares strings with encoding/json in both directions: the scanner and a Fragment
// accept exactly the same, and read the same if it consists of whole characters.
func FuzzText(f *testing.F) {
	for _, body := range []string{
		``, `a`, `a\nb`, `\"\\\/\b\f\n\r\t`, `\u0041\u00e9\u4e2d`, `\ud83d\ude00`, `\ud83d`, `\ude00\ud83d`, `\ud83dx`,
		`\ud83d\n`, `\ud83d\u0041`,
		`\ud83d\ud83d\ude00`, `\uD83D\uDE0`, "\xff", "a\xe4\xb8", "\xed\xa0\x80", "中文", `\`, `\u`, `\u00`, `"`, "\n", "\x7f",
		`\uFFFD`, "\xff\\n\xff", `\v`,
		`0123456789abcdef\n0123456`, "0123456789\x01abcdef", "01234567\u4e2d\u6587\x1f01234567", `01234567\"01234567\\`, "\x00\x21\x22",
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		data := append(append([]byte{'"'}, body...), '"')
		var want string
		err := json.Unmarshal(data, &want)
		s := jsonscan.Over(data)
		got := s.Text()
		require.Equal(t, err == nil, s.Done(), "%q: %v", data, err)
		var fragment jsonscan.Fragment
		fragmentErr := json.Unmarshal(data, &fragment)
		require.Equal(t, err == nil, fragmentErr == nil, "%q: %v", data, err)
		if err != nil {
			return
		}
		require.Equal(t, string(fragment), got, "%q", data)
		if utf8.ValidString(got) {
			require.Equal(t, want, got, "%q", data)
		}
	})
}

func TestCount(t *testing.T) {
	for raw, want := range map[string]jsonscan.Count{
		"0": 0, "10": 10, "10.0": 10, "1e3": 1000, "-1": 0, "null": 0, `"7"`: 7, `"x"`: 0, "{}": 0, "1e300": 1 << 40, "1e999": 1 << 40, "99999999999999999999": 1 << 40,
		"9223372036854775807": 1 << 40, "-1e999": 0, "-0.5": 0, "0.2": 1, "10.5": 11, "1e-400": 0, "true": 0,
	} {
		var got jsonscan.Count
		require.NoError(t, json.Unmarshal([]byte(raw), &got), raw)
		require.Equal(t, want, got, raw)
	}
}
