package sandbox_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/sandbox"
)

// What is hidden is not readable in a toolchain, also through links, and the rest of it is.
func TestHidden(t *testing.T) {
	for name, simulate := range kernels {
		t.Run(name, func(t *testing.T) {
			simulate(t)
			tools := filepath.Join(t.TempDir(), "tools")
			data, inside := filepath.Join(tools, "lib", "data"), filepath.Join(tools, "lib", "data", "mine")
			for _, dir := range []string{filepath.Join(tools, "bin"), inside} {
				require.NoError(t, os.MkdirAll(dir, 0o700))
			}
			for link, target := range map[string]string{"around": "lib", "loop": tools, "data": data, "below": filepath.Join(data, "secret"), "next": "lib/other"} {
				require.NoError(t, os.Symlink(target, filepath.Join(tools, link)))
			}
			for _, file := range []string{filepath.Join(tools, "lib", "other"), filepath.Join(data, "secret"), filepath.Join(inside, "file")} {
				require.NoError(t, os.WriteFile(file, []byte("content of "+filepath.Base(file)), 0o600))
			}
			s := open(t, func(p *sandbox.Policy) {
				p.Path += ":" + filepath.Join(tools, "bin")
				p.Hidden = []string{filepath.Join(tools, "data"), filepath.Join(tools, "missing")}
				p.Read = []string{inside}
			})
			output, _ := bash(t, s, "cd "+tools+"; cat lib/data/secret around/data/secret loop/lib/data/secret data/secret below; ls lib/data; cat lib/other next lib/data/mine/file")
			require.NotContains(t, output, "content of secret")
			require.Equal(t, 2, strings.Count(output, "content of other"), output)
			require.Equal(t, 1, strings.Count(output, "content of file"), output)
		})
	}
}
