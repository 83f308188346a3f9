package js_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/tool/js"
)

// TestAScriptHas64MiB allocates less and more than the default limit. The engine rounds each buffer
// with its header up to a power of two: to 1 MiB here.
func TestAScriptHas64MiB(t *testing.T) {
	h := newHost(t, js.Config{})
	subject := load(t, h, body(`
		const all = []
		for (let i = 0; i < input.mib; i++) all.push(new Uint8Array(1e6).fill(1))
		return all.length`))
	for mib, fits := range map[int]bool{1: true, 40: true, 60: true, 68: false, 100: false, 200: false} {
		t.Run(fmt.Sprintf("%d MiB", mib), func(t *testing.T) {
			result := call(t, subject, fmt.Sprintf(`{"mib":%d}`, mib))
			require.Equal(t, fits, !result.IsError, result.Output)
			if fits {
				require.Equal(t, fmt.Sprint(mib), result.Output)
			} else {
				require.Contains(t, result.Output, "memory")
			}
		})
	}
}
