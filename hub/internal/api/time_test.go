package api_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/wire"
)

func TestTime(t *testing.T) {
	china := time.FixedZone("", 8*60*60)
	for name, row := range map[string]struct {
		in   time.Time
		want string
	}{
		"six digits":          {time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC), `"2026-03-01T12:00:00.123456Z"`},
		"none that count":     {time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), `"2026-03-01T12:00:00.000000Z"`},
		"the last are zero":   {time.Date(2026, 3, 1, 12, 0, 0, 120000000, time.UTC), `"2026-03-01T12:00:00.120000Z"`},
		"nanoseconds are cut": {time.Date(2026, 3, 1, 12, 0, 0, 999999999, time.UTC), `"2026-03-01T12:00:00.999999Z"`},
		"another zone":        {time.Date(2026, 3, 1, 7, 0, 0, 0, china), `"2026-02-28T23:00:00.000000Z"`},
		"1970":                {time.UnixMicro(0), `"1970-01-01T00:00:00.000000Z"`},
		"never":               {time.Time{}, `null`},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := json.Marshal(wire.Time{Time: row.in})
			require.NoError(t, err)
			require.Equal(t, row.want, string(text))
			if !row.in.IsZero() {
				require.Equal(t, row.want, `"`+wire.Time{Time: row.in}.String()+`"`)
			}
		})
	}
	require.Empty(t, wire.Time{}.String())
	text, err := json.Marshal(struct {
		A wire.Time `json:"a,omitzero"`
	}{})
	require.NoError(t, err)
	require.Equal(t, `{}`, string(text))
}
