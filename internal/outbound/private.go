package outbound

import "net/netip"

// IsPrivate reports whether addr is an address of a private network or of the own host, for
// [Public] of a caller whose users may reach these. Link-local addresses, addresses of metadata
// services and addresses that embed another one are not private in this sense.
func IsPrivate(addr netip.Addr) bool {
	addr = addr.Unmap()
	if addr.Zone() != "" {
		return false
	}
	for _, block := range metadata {
		if block.Contains(addr) {
			return false
		}
	}
	for _, block := range private {
		if block.Contains(addr) {
			return true
		}
	}
	return false
}

var private = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"), // shared by the customers of a provider, and used by overlay networks
	netip.MustParsePrefix("127.0.0.0/8"),
	netip.MustParsePrefix("172.16.0.0/12"),
	netip.MustParsePrefix("192.168.0.0/16"),
	netip.MustParsePrefix("::1/128"),
	netip.MustParsePrefix("fc00::/7"),
}

// metadata lists blocks in private that clouds use for their metadata. Other metadata services have
// link-local addresses.
var metadata = []netip.Prefix{
	netip.MustParsePrefix("100.100.100.200/32"), // Alibaba Cloud
	netip.MustParsePrefix("fd00:42::/32"),       // Scaleway
	netip.MustParsePrefix("fd00:ec2::/32"),      // Amazon
	netip.MustParsePrefix("fd20:ce::/32"),       // Google
}
