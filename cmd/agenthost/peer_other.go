//go:build !linux

package main

import "net/netip"

// ofAnotherUser returns false: there is no portable way to find the user of a connection.
func ofAnotherUser(netip.AddrPort, netip.AddrPort) bool { return false }
