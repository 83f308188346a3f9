package push

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/wire"
)

// Messages have the same elements as a slice of encoding/json, up to the first one without a
// required field.
func FuzzMessages(f *testing.F) {
	for _, text := range []string{
		`null`, `[]`, ` [ ] `, `1`, `{}`, `"a"`, `[1]`, `[null]`, `[{"id":"a","role":"user","created_at":"now","content":"]"},{"id":"b"}, {}]`,
		`[ {"id":"a","role":"u","created_at":"n","content":["\\\"]"]} , {"id":"[","role":"{","created_at":"}","content":{"a":[[],{}]}} ]`,
		`[{"id":"","role":"u","created_at":"n","content":1},{}]`, `[{"id":"a","role":"","created_at":"n","content":1},{}]`,
		`[{"id":"a","role":"u","created_at":"","content":1},{}]`, `[{"id":"a","role":"u","created_at":"n"},{}]`,
		`[{"id":"a","role":"u","created_at":"n","content":1},{"id":"b"},{}]`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var want []wire.PushedMessage
		var got messages
		wantErr, err := json.Unmarshal([]byte(text), &want), json.Unmarshal([]byte(text), &got)
		if wantErr != nil {
			require.True(t, err != nil || len(got) > 0, text)
			return
		}
		incomplete := func(m wire.PushedMessage) bool {
			return m.ID == "" || m.Role == "" || m.CreatedAt == "" || len(m.Content) == 0
		}
		if n := slices.IndexFunc(want, incomplete); n >= 0 {
			want = want[:n+1]
		}
		require.NoError(t, err)
		require.Equal(t, want, []wire.PushedMessage(got))
	})
}
