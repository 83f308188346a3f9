package skillzip_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/skillzip"
)

// The allocations for an archive grow with the bytes of its paths, not with the number of their
// prefixes: a path of 31 directories costs about as much as one name of that length.
func TestWorkIsLinearInThePaths(t *testing.T) {
	cost := func(format string) float64 {
		return testing.AllocsPerRun(1, func() {
			var names skillzip.Names
			for i := range 400 {
				_, err := names.Add(fmt.Sprintf(format, i), false)
				require.NoError(t, err)
			}
		})
	}
	deep, flat := cost(strings.Repeat("abcdefghij/", 31)+"%d"), cost(strings.Repeat("abcdefghij_", 15)+"%d")
	require.Less(t, deep, 100*flat)
	require.Less(t, deep, 400*32*4.0, "a few for each segment")
}

func TestPathsThatMeetOnSomeSystems(t *testing.T) {
	for _, pair := range [][2]string{
		{"é/a", "e\u0301/a"}, {"A/b", "a/c"}, {"ſ", "s"}, {"\u212a", "k"}, {"ß", "ss"}, {"x/µ", "x/μ"}, {"a/b", "a"}, {"a", "a/b"}, {"./a", "a"}, {"a", "a"},
		{"σ", "ς"}, {"ǆ", "ǅ"}, {"\u00c5", "\u212b"}, {"a/ﬁ", "A/x"},
	} {
		var names skillzip.Names
		_, err := names.Add(pair[0], false)
		require.NoError(t, err, "%q", pair)
		_, err = names.Add(pair[1], false)
		if pair[0] == "ß" {
			require.NoError(t, err, "file systems fold single letters")
			continue
		}
		require.Error(t, err, "%q", pair)
	}
}

func FuzzNames(f *testing.F) {
	for _, seed := range []string{"a\nb/c\n./a/", "a/../b", "é\ne\u0301", "/x", "C:/x", strings.Repeat("a/", 40)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, list string) {
		var names skillzip.Names
		accepted := map[string]bool{}
		for entry := range strings.Lines(list) {
			name, err := names.Add(strings.TrimSuffix(entry, "\n"), false)
			if err != nil || name == "" {
				continue
			}
			require.NotContains(t, strings.Split(name, "/"), "..")
			require.Less(t, strings.Count(name, "/"), skillzip.MaxDepth)
			require.False(t, strings.HasPrefix(name, "/"))
			require.False(t, accepted[strings.ToLower(name)], name)
			accepted[strings.ToLower(name)] = true
		}
	})
}
