package hubcmd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/cmd/internal/hubcmd"
	"github.com/seed93082962/agenthost/hub"
)

func TestUserIDs(t *testing.T) {
	t.Parallel()
	var ids hubcmd.UserIDs
	require.NoError(t, ids.UnmarshalText([]byte("1900000000-1900065535")))
	require.Equal(t, hubcmd.UserIDs{1900000000, 1900065535}, ids)
	for _, text := range []string{"", "5", "5-4", "0-9", "-1-9", "1-2147483647", "1-2x", "1-2-3"} {
		require.Error(t, ids.UnmarshalText([]byte(text)), text)
	}
	require.NoError(t, ids.UnmarshalText([]byte("none")))
	require.Zero(t, ids)
}

func TestPrices(t *testing.T) {
	t.Parallel()
	var got hubcmd.Prices
	require.NoError(t, got.UnmarshalText([]byte(` {"m":{"input":1,"cacheRead":0.5,"cacheWrite":2.5,"output":1e3}} `)))
	require.Equal(t, hubcmd.Prices{"m": hub.Price{Input: 1, CacheRead: 0.5, CacheWrite: 2.5, Output: 1000}}, got)
	for _, text := range []string{``, `[]`, `{"m":1}`, `{"m":{"inputs":1}}`, `{"m":{"input":-1}}`, `{"m":{"input":10001}}`, `{"m":{}} {}`} {
		require.Error(t, new(hubcmd.Prices).UnmarshalText([]byte(text)), text)
	}
}
