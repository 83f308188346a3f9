package runtimecmd_test

import (
	"bytes"
	"net"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/cmd/internal/daemontest"
	"github.com/seed93082962/agenthost/cmd/internal/runtimecmd"
	"github.com/seed93082962/agenthost/runtime/agent"
)

func TestTableOfSettings(t *testing.T) {
	daemontest.Document(t, "../../runtime/README.md", &runtimecmd.Settings{})
}

func TestExposureWarning(t *testing.T) {
	key := []agent.Secret{"key"}
	tcp := func(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 3000} }
	for name, row := range map[string]struct {
		addr net.Addr
		keys []agent.Secret
		want bool
	}{
		"loopback":                    {tcp("127.0.0.1"), nil, false},
		"loopback, another":           {tcp("127.8.8.8"), nil, false},
		"loopback, version 6":         {tcp("::1"), nil, false},
		"all addresses":               {tcp("0.0.0.0"), nil, true},
		"all addresses, version 6":    {tcp("::"), nil, true},
		"all addresses, none written": {&net.TCPAddr{Port: 3000}, nil, true},
		"an address":                  {tcp("192.0.2.1"), nil, true},
		"an address, with a key":      {tcp("192.0.2.1"), key, false},
		"all addresses, with a key":   {tcp("::"), key, false},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, row.want, runtimecmd.Exposed(row.addr, row.keys)) })
	}
}

// A client cannot connect to the unspecified address, and over loopback a runtime without keys
// accepts only loopback names.
func TestBannerForTheUnspecifiedAddress(t *testing.T) {
	for _, ip := range []string{"0.0.0.0", "::"} {
		file := &agent.File{Agents: []agent.Agent{{ID: "a"}}}
		var out bytes.Buffer
		runtimecmd.Welcome(&out, &net.TCPAddr{IP: net.ParseIP(ip), Port: 3000}, file)
		require.Contains(t, out.String(), "listening on http://localhost:3000\n")
		require.Equal(t, "http://localhost:3000/v1/agents/a/runs", regexp.MustCompile(`http://\S+/runs`).FindString(out.String()))
	}
}
