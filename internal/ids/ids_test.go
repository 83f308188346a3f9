package ids_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/ids"
)

func TestParseAcceptsOnlyTheLongForm(t *testing.T) {
	const id = "0b1c2d3e-4f50-4a61-8b72-93a4b5c6d7e8"
	for name, in := range map[string]string{
		"lower case": id,
		"upper case": strings.ToUpper(id),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ids.Parse(in)
			require.NoError(t, err)
			require.Equal(t, id, got.String())
		})
	}
	for name, in := range map[string]string{
		"empty":          "",
		"without dashes": strings.ReplaceAll(id, "-", ""),
		"in braces":      "{" + id + "}",
		"as a URN":       "urn:uuid:" + id,
		"not hex":        "zb1c2d3e-4f50-4a61-8b72-93a4b5c6d7e8",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ids.Parse(in)
			require.ErrorIs(t, err, ids.ErrMalformed)
		})
	}
}

func TestNewSortsByTime(t *testing.T) {
	first, second := ids.New(), ids.New()
	require.Less(t, first, second)
	require.Equal(t, byte('7'), first[14], "version")
	require.Equal(t, 4, int(ids.Random().Version()))
}

func TestValidSession(t *testing.T) {
	for id, valid := range map[string]bool{
		"a": true, "A-z_0.9": true, "...": true, strings.Repeat("a", 128): true,
		"": false, ".": false, "..": false, "a/b": false, "a b": false, "ä": false, "a\x00": false,
		strings.Repeat("a", 129): false,
	} {
		require.Equal(t, valid, ids.ValidSession(id), "%q", id)
	}
}
