package interop_test

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/agent"
)

// TestEventStreamClients reads a run with two JavaScript clients.
func TestEventStreamClients(t *testing.T) {
	url := serve(t, agent.Agent{})
	for _, library := range []string{"eventsource", "eventsource-parser"} {
		t.Run(library, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "node", "client.mjs", library, url+"/v1/agents/bot/runs", key, "Hello, café 😀\nline two")
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			var names []string
			var text strings.Builder
			for line := range strings.Lines(string(out)) {
				var event struct {
					Event string `json:"event"`
					Data  struct {
						Partial struct{ Text string } `json:"partial"`
					} `json:"data"`
				}
				require.NoError(t, json.Unmarshal([]byte(line), &event), "%s", line)
				names = append(names, event.Event)
				text.WriteString(event.Data.Partial.Text)
			}
			require.Equal(t, "system", names[0])
			require.Equal(t, "done", names[len(names)-1])
			require.Contains(t, text.String(), "Hello, café 😀\nline two")
		})
	}
}
