package main_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	main "github.com/seed93082962/agenthost/cmd/hub"
	"github.com/seed93082962/agenthost/cmd/internal/daemontest"
	"github.com/seed93082962/agenthost/internal/logtest"
)

// No address of another machine can be bound: the hub ends after the warning. On a loopback address
// it ends because the database does not exist.
func TestClearTextListenersAreReported(t *testing.T) {
	const warning = "without encryption"
	for name, row := range map[string]struct {
		addr, publicURL string
		warned          bool
	}{
		"a network address":                         {"192.0.2.1:0", "", true},
		"a network address, public URL with https":  {"192.0.2.1:0", "https://hub.example.com", true},
		"a network address, public URL on loopback": {"192.0.2.1:0", "http://localhost", true},
		"a network address, IPv6":                   {"[2001:db8::1]:0", "https://hub.example.com", true},
		"loopback":                                  {"127.0.0.1:0", "", false},
		"loopback, public URL with http":            {"127.0.0.1:0", "http://hub.example.com", false},
		"loopback, public URL with https":           {"127.0.0.1:0", "https://hub.example.com", false},
		"loopback by name":                          {"localhost:0", "http://hub.example.com", false},
		"another loopback address, no public URL":   {"127.9.9.9:0", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			env := []string{"HUB_DATA_DIR", t.TempDir(), "HUB_PUBLIC_URL", row.publicURL, "DATABASE_URL", "sqlite:///dev/null/hub.db"}
			var stdout, stderr logtest.Buffer
			err := main.Run(t.Context(), []string{"--addr", row.addr}, daemontest.Getenv(env), &stdout, &stderr)
			require.Error(t, err)
			if row.warned {
				require.Contains(t, stderr.String(), warning)
			} else {
				require.NotContains(t, stderr.String(), warning)
			}
		})
	}
}
