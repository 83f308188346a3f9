package jsonscan_test

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model/internal/jsonscan"
)

// FuzzUnquote compares with encoding/json for strings that are complete characters.
func FuzzUnquote(f *testing.F) {
	for _, s := range []string{`""`, `"a\n\u00e9\ud83d\ude00"`, `"\ud83d"`, `"\u12"`, `"\x"`, `"`, `a`, "\"\xf0\x9f\""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := jsonscan.Unquote(raw)
		var want string
		if json.Unmarshal(raw, &want) != nil || len(raw) == 0 || raw[0] != '"' || raw[len(raw)-1] != '"' {
			return
		}
		require.NoError(t, err, "%q", raw)
		if utf8.ValidString(got) {
			require.Equal(t, want, got, "%q", raw)
		}
	})
}

func TestCount(t *testing.T) {
	for raw, want := range map[string]jsonscan.Count{
		"0": 0, "10": 10, "10.0": 10, "1e3": 1000, "-1": 0, "null": 0, `"7"`: 7, `"x"`: 0, "{}": 0, "1e300": 0, "9007199254740993": 9007199254740993,
	} {
		var got jsonscan.Count
		require.NoError(t, json.Unmarshal([]byte(raw), &got), raw)
		require.Equal(t, want, got, raw)
	}
}
