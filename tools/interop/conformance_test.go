package interop_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestConformance runs the public conformance suite of MCP with the client. The other scenarios for
// clients need a capability that the client does not declare (elicitation), or another grant of
// OAuth than client_credentials with a secret.
func TestConformance(t *testing.T) {
	binaries, err := filepath.Glob("node_modules/node-linux-*/bin/node") // the suite needs Node.js 22
	require.NoError(t, err)
	require.Len(t, binaries, 1)
	node, err := filepath.Abs(binaries[0])
	require.NoError(t, err)
	suite, err := filepath.Abs("node_modules/@modelcontextprotocol/conformance/dist/index.js")
	require.NoError(t, err)
	client := filepath.Join(t.TempDir(), "client")
	output, err := exec.CommandContext(t.Context(), "go", "build", "-o", client, "./conformance").CombinedOutput()
	require.NoError(t, err, "%s", output)
	for _, scenario := range []string{
		"initialize", "tools_call", "sse-retry", "http-custom-headers", "http-invalid-tool-headers", "json-schema-ref-no-deref",
		"json-schema-2020-12-preservation", "auth/client-credentials-basic", "request-metadata", "http-standard-headers",
	} {
		t.Run(scenario, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), node, suite, "client", "--command", client, "--scenario", scenario, "--timeout", "60000")
			cmd.Dir = t.TempDir()
			output, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", output)
			require.Contains(t, string(output), "OVERALL: PASSED")
		})
	}
}
