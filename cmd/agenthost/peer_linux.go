package main

import (
	"bufio"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// ofAnotherUser reports whether the client of a connection to a loopback port is a program of
// another user of this computer, or may be one, because it has closed or reset the connection and
// so its socket has no user or does not exist. A program of root may forward the connection of a
// browser.
func ofAnotherUser(client, server netip.AddrPort) bool {
	if _, err := os.Stat("/proc/net/tcp"); err != nil {
		return false // as on other systems
	}

	end, found := endOf(client.Port(), server.Port())
	return !found || !end.established || end.uid != 0 && end.uid != os.Getuid()
}

// connectionEnd is the socket at one end of a connection.
type connectionEnd struct {
	uid         int // 0 also for a socket that was closed
	established bool
}

// endOf returns the socket with a local and a remote port in the tables of proc_net_tcp(5). One of
// IPv6 can have an address of IPv4.
func endOf(local, remote uint16) (connectionEnd, bool) {
	const address, peer, state, user, established = 1, 2, 3, 7, "01"
	var end connectionEnd
	var found bool
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		file, err := os.Open(table)
		if err != nil {
			continue
		}

		for lines := bufio.NewScanner(file); lines.Scan() && !found; {
			fields := strings.Fields(lines.Text())
			if len(fields) <= user || hexPort(fields[address]) != local || hexPort(fields[peer]) != remote {
				continue
			}

			uid, err := strconv.Atoi(fields[user])
			end, found = connectionEnd{uid, fields[state] == established}, err == nil
		}

		_ = file.Close()
	}

	return end, found
}

// hexPort returns the port of an address in the form "0100007F:1F90", or 0.
func hexPort(address string) uint16 {
	_, text, _ := strings.Cut(address, ":")
	port, _ := strconv.ParseUint(text, 16, 16) // 0 if it is none
	return uint16(port)
}
