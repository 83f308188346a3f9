//go:build !race

package sandbox_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/sandbox"
)

// The limit of the address space of a command does not end its launcher, which is limited too: it
// needs memory for each argument after it has set the limit. With the race detector, it needs more
// address space than any limit.
func TestAddressSpaceOfTheLauncher(t *testing.T) {
	for kernel, simulate := range kernels {
		t.Run(kernel, func(t *testing.T) {
			simulate(t)
			s := open(t, func(p *sandbox.Policy) { p.Limits.AddressSpace = 256 << 20 })
			arguments := slices.Repeat([]string{"a"}, 150_000)
			for range 3 { // the heap of a launcher is of random size
				output, err := run(t, s, append([]string{"/bin/bash", "-c", "ulimit -v; echo $#"}, arguments...)...)
				require.NoError(t, err, output)
				require.Equal(t, "262144\n149999\n", output)
			}
		})
	}
}
