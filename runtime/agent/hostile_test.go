package agent_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/agent"
)

// A configuration of 64 KiB allocates memory in proportion to its size, for any YAML or JSON.
func TestParseBoundsHostileFiles(t *testing.T) {
	const size = 64 << 10
	fill := func(s string) string { return strings.Repeat(s, size/len(s)) }
	var aliases, merges, keys strings.Builder
	aliases.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x]\n")
	for i := range 30 {
		fmt.Fprintf(&aliases, "a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d,", i), 8), i)
	}
	merges.WriteString("a0: &a0 {k: 1}\n")
	for i := 1; merges.Len() < size; i++ {
		fmt.Fprintf(&merges, "a%d: &a%d {<<: *a%d, k%d: 1}\n", i, i, i-1, i)
	}
	for i := 0; keys.Len() < size; i++ {
		fmt.Fprintf(&keys, "agent%d: 1\n", i)
	}
	for name, file := range map[string]string{
		"open lists":         fill("["),
		"open objects":       fill(`{"a":`),
		"nested lists":       fill("[") + fill("]"),
		"nested items":       fill("- "),
		"aliases of aliases": aliases.String(),
		"merges of merges":   merges.String(),
		"repeated keys":      fill("agents: []\n"),
		"unknown keys":       keys.String(),
		"agents":             "agents:\n" + fill("  - {id: a, modle: 1}\n"),
		"a number":           `{"limits":` + fill("9") + "}",
		"variables":          `auth: {apiKey: "` + fill("${A}") + `"}`,
		"documents":          fill("---\n"),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := agent.Parse("agents.yaml", []byte(file), func(string) (string, bool) { return "value", true })
			runtime.ReadMemStats(&after)
			require.Error(t, err)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20))
		})
	}
}
