package agent_test

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/agent"
)

// FuzzParse checks that Parse returns a file or faults in little time for any input, and that a
// file is equal after encoding to JSON and parsing.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"full.yaml", "full.json", "faults.yaml"} {
		data, err := os.ReadFile("testdata/" + name)
		require.NoError(f, err)
		f.Add(name, data)
	}
	for _, s := range []string{"", valid, "agents: &a [*a]", "a: &a {<<: *a}", "? [a]\n: b", "a: !!int x", "---\n---",
		"%TAG ! x\n---\na", "[[[[", "\xff", "auth: {apiKey: ${A"} {
		f.Add("f.yaml", []byte(s))
	}
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		start := time.Now()
		file, err := agent.Parse(name, data, env)
		require.Less(t, time.Since(start), time.Minute)
		if err != nil {
			require.Nil(t, file)
			var faults agent.Faults
			require.ErrorAs(t, err, &faults)
			require.NotEmpty(t, faults)
			for _, fault := range faults {
				require.Equal(t, name, fault.File)
				require.Positive(t, fault.Line)
				require.NotEmpty(t, fault.Message)
			}
			return
		}
		require.NoError(t, file.Validate())
		again, err := json.Marshal(file)
		require.NoError(t, err)
		back, err := agent.Parse("again.json", again, nil)
		require.NoError(t, err)
		require.Equal(t, file, back)
	})
}
