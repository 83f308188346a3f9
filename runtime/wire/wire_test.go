package wire_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/wire"
)

func TestUsageAdd(t *testing.T) {
	a := wire.Usage{InputTokens: 1, OutputTokens: 2, CacheCreationInputTokens: 3, CacheReadInputTokens: 4, ReasoningTokens: 5}
	b := wire.Usage{InputTokens: 10, OutputTokens: 20, CacheCreationInputTokens: 30, CacheReadInputTokens: 40, ReasoningTokens: 50}
	require.Equal(t, wire.Usage{InputTokens: 11, OutputTokens: 22, CacheCreationInputTokens: 33, CacheReadInputTokens: 44, ReasoningTokens: 55}, a.Add(b))
	require.Equal(t, int64(1), a.InputTokens)
}

func TestMetadata(t *testing.T) {
	var r wire.RunRequest
	require.NoError(t, json.Unmarshal([]byte(`{"metadata":{"ticket":"7"}}`), &r))
	require.Equal(t, wire.Metadata{"ticket": "7"}, r.Metadata)
	for _, text := range []string{`{"ticket":7}`, `["ticket"]`, `"ticket"`} {
		require.ErrorContains(t, json.Unmarshal([]byte(`{"metadata":`+text+`}`), &r), "metadata must be an object whose values are strings")
	}
}

// A time has six digits of the second, and is in UTC.
func TestTime(t *testing.T) {
	at := wire.Time(time.Date(2026, 1, 2, 3, 4, 5, 6000, time.FixedZone("", 3600)))
	data, err := json.Marshal(at)
	require.NoError(t, err)
	require.Equal(t, `"2026-01-02T02:04:05.000006Z"`, string(data))
	var back wire.Time
	require.NoError(t, json.Unmarshal(data, &back))
	require.True(t, time.Time(at).Equal(time.Time(back)))
	require.True(t, wire.Time{}.IsZero())
	require.False(t, back.IsZero())
}
