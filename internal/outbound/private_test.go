package outbound_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/outbound"
)

func TestIsPrivate(t *testing.T) {
	for addr, want := range map[string]bool{
		"10.0.0.1": true, "100.64.0.1": true, "100.100.100.199": true, "127.0.0.1": true, "172.31.255.255": true, "192.168.0.1": true,
		"::1": true, "fd12:3456::1": true, "fc00::1": true, "::ffff:10.0.0.1": true,

		"100.100.100.200": false, "::ffff:100.100.100.200": false, "169.254.169.254": false, "168.63.129.16": false, "192.0.0.192": false, "0.0.0.0": false, "::": false,
		"fe80::1": false, "fe80::1%eth0": false, "fd00::1%eth0": false, "fd00:ec2::254": false, "fd00:ec2::23": false, "fd00:42::42": false, "fd20:ce::254": false,
		"64:ff9b::10.0.0.1": false, "64:ff9b::169.254.169.254": false, "64:ff9b:1::10.0.0.1": false, "2002:a00:1::": false, "::10.0.0.1": false,
		"2001:0:a00:1::": false, "224.0.0.1": false, "ff02::1": false, "1.1.1.1": false,
	} {
		require.Equal(t, want, outbound.IsPrivate(netip.MustParseAddr(addr)), addr)
	}
	require.False(t, outbound.IsPrivate(netip.Addr{}))
}
