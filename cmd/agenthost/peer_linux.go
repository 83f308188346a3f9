package main

import (
	"bufio"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// ofAnotherUser reports whether the client of a connection to a loopback port is a program of
// another user of this computer. A program of root may forward the connection of a browser.
func ofAnotherUser(client, server netip.AddrPort) bool {
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} { // a socket of IPv6 can have an address of IPv4
		file, err := os.Open(table)
		if err != nil {
			continue
		}
		uid := ownerOf(file, client.Port(), server.Port())
		_ = file.Close()
		if uid >= 0 {
			return uid != 0 && uid != os.Getuid()
		}
	}
	return false // the connection is of another network namespace: a port was forwarded
}

// ownerOf returns the user of the socket with a local and a remote port in a table of
// proc_net_tcp(5), or -1.
func ownerOf(table io.Reader, local, remote uint16) int {
	const address, peer, user = 1, 2, 7
	for lines := bufio.NewScanner(table); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) <= user || hexPort(fields[address]) != local || hexPort(fields[peer]) != remote {
			continue
		}
		if uid, err := strconv.Atoi(fields[user]); err == nil {
			return uid
		}
	}
	return -1
}

// hexPort returns the port of an address in the form "0100007F:1F90", or 0.
func hexPort(address string) uint16 {
	_, text, _ := strings.Cut(address, ":")
	port, _ := strconv.ParseUint(text, 16, 16) // 0 if it is none
	return uint16(port)
}
