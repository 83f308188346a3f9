package auditstore_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/leaf/auditstore"
)

func TestFold(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"": "", "abc": "abc", "ABC": "abc", "aBc": "abc", "@[`{": "@[`{", "AZaz09": "azaz09", "ÄÖ": "ÄÖ", "王A": "王a", "\xffA": "\xffa", "\u212aA": "\u212aa",
	} {
		require.Equal(t, want, auditstore.Fold(given))
	}
}

func TestView(t *testing.T) {
	t.Parallel()
	five := uint64(5)
	require.Equal(t, uint64(9), auditstore.View(nil, 9))
	require.Equal(t, uint64(5), auditstore.View(&five, 9))
	require.Equal(t, uint64(3), auditstore.View(&five, 3))
}
