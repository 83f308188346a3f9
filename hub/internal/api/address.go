package api

import (
	"net/netip"

	"github.com/seed93082962/agenthost/internal/excerpt"
)

// AddressOf returns the network within which one host has all addresses, for limits: an
// IPv4 address, or an IPv6 /64.
func AddressOf(ip string) string { return prefixOf(ip, 32, 64) }

// NetworkOf returns the network that one operator assigns, for the limit of a network: an IPv4 /24,
// or an IPv6 /48.
func NetworkOf(ip string) string { return prefixOf(ip, 24, 48) }

// prefixOf returns the first bits of an address, and an address without a zone if these are all.
func prefixOf(ip string, bits4, bits6 int) string {
	addr, err := netip.ParseAddr(ip)
	if err != nil {
		return excerpt.Characters(ip, 64) // a Unix socket has no address
	}

	addr = addr.Unmap().WithZone("")
	bits := bits6
	if addr.Is4() {
		bits = bits4
	}

	prefix := netip.PrefixFrom(addr, bits).Masked()
	if prefix.IsSingleIP() {
		return addr.String()
	}

	return prefix.String()
}
