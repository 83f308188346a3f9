package push_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/chat/push"
)

// Messages have the same elements as a slice of encoding/json, up to the first one without a
// required field.
func FuzzMessages(f *testing.F) {
	for _, text := range []string{
		`null`, `[]`, ` [ ] `, `1`, `{}`, `"a"`, `[1]`, `[null]`, `[{"id":"a","role":"user","created_at":"now","content":"]"},{"id":"b"}, {}]`,
		`[ {"id":"a","role":"u","created_at":"n","content":["\\\"]"]} , {"id":"[","role":"{","created_at":"}","content":{"a":[[],{}]}} ]`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var want []push.Message
		var got push.Messages
		wantErr, err := json.Unmarshal([]byte(text), &want), json.Unmarshal([]byte(text), &got)
		if wantErr == nil {
			require.NoError(t, err)
			require.LessOrEqual(t, len(got), len(want))
			require.Equal(t, want[:len(got)], []push.Message(got))
		}
		if n := len(got); wantErr == nil && n > 0 && n < len(want) {
			last := got[n-1]
			require.True(t, last.ID == "" || last.Role == "" || last.CreatedAt == "" || len(last.Content) == 0, text)
		}
	})
}
