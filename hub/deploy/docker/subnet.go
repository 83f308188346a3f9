package docker

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"

	"github.com/moby/moby/api/types/network"
)

// A network of a tenant has a subnet of subnetBits bits, with addresses for maxMembers runtimes,
// the gateway and the hubs that are containers.
const (
	subnetBits = 26
	maxMembers = 50
)

// checkSubnets returns an error if subnets cannot be divided among the tenants.
func checkSubnets(all []netip.Prefix) error {
	for _, p := range all {
		if !p.Addr().Is4() || p.Bits() < 8 || p.Bits() > subnetBits || p != p.Masked() {
			return fmt.Errorf("make docker deployer: subnet %v is not an IPv4 network from /8 to /%d", p, subnetBits)
		}
	}

	return nil
}

// freeSubnet returns a part of the configured subnets that overlaps no network of the engine and no
// network of this machine. It begins at a random one: hubs that choose at the same time choose
// different ones.
func (d *Driver) freeSubnet(networks []network.Summary) (netip.Prefix, error) {
	used := subnets(networks)
	local, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("read the addresses of this machine: %w", err)
	}

	for _, a := range local {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			used = append(used, p)
		}
	}

	total := 0
	for _, p := range d.cfg.Subnets {
		total += parts(p)
	}

	first := rand.IntN(total) //nolint:gosec // it is not a secret
	for i := range total {
		if p := d.part((first + i) % total); !overlaps(p, used) {
			return p, nil
		}
	}

	names := make([]string, len(d.cfg.Subnets))
	for i, p := range d.cfg.Subnets {
		names[i] = p.String()
	}

	return netip.Prefix{}, fmt.Errorf("all %d networks for tenants in %s are in use: the operator adds a range to docker.subnets", total, strings.Join(names, ", "))
}

// parts returns the number of networks in a configured subnet.
func parts(p netip.Prefix) int { return 1 << (subnetBits - p.Bits()) }

// part returns a network of the configured subnets by its number.
func (d *Driver) part(i int) netip.Prefix {
	for _, p := range d.cfg.Subnets {
		if n := parts(p); i >= n {
			i -= n
			continue
		}

		first := p.Addr().As4()
		var addr [4]byte
		binary.BigEndian.PutUint32(addr[:], binary.BigEndian.Uint32(first[:])+uint32(i)<<(32-subnetBits)) //nolint:gosec // it is inside the subnet
		return netip.PrefixFrom(netip.AddrFrom4(addr), subnetBits)
	}

	return netip.Prefix{}
}

func overlaps(p netip.Prefix, used []netip.Prefix) bool {
	for _, u := range used {
		if u.IsValid() && p.Overlaps(u) {
			return true
		}
	}

	return false
}
