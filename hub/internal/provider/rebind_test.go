package provider_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/db/dbtest"
)

// A name may have a permitted address once and another one later: each connection is checked. The
// test is not parallel because it replaces the resolver of the process.
func TestANameThatResolvesToAnotherAddressLater(t *testing.T) {
	var address atomic.Value
	address.Store(net.IPv4(127, 0, 0, 1))
	former := net.DefaultResolver
	t.Cleanup(func() { net.DefaultResolver = former })
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go serveName(server, func() net.IP { return address.Load().(net.IP) })
		return client, nil
	}}
	s := open(t, dbtest.SQLite(t, series...), nil)
	server := serve(t, reply(200, `{"data":[]}`))
	url := "http://rebind.example.com" + server.URL[strings.LastIndexByte(server.URL, ':'):]
	require.Equal(t, true, s.probe(url, nil)["ok"])
	address.Store(net.IPv4(169, 254, 169, 254))
	require.Equal(t, "address_denied", s.probe(url, nil)["errorCode"])
	address.Store(net.IPv4(100, 100, 100, 200))
	require.Equal(t, "address_denied", s.probe(url, nil)["errorCode"])
}

// serveName responds to the DNS queries of a connection (RFC 1035): to those for an IPv4 address
// with the given one, and to others without an answer.
func serveName(conn net.Conn, address func() net.IP) {
	defer conn.Close()
	for {
		var size [2]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(conn, query); err != nil {
			return
		}
		end := 12 // after the header
		for query[end] != 0 {
			end += 1 + int(query[end])
		}
		end += 5 // the root label, type and class
		isA := query[end-3] == 1
		answer := append([]byte{0, 0, query[0], query[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, query[12:end]...)
		if isA {
			answer[9] = 1
			answer = append(answer, 0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
			answer = append(answer, address().To4()...)
		}
		binary.BigEndian.PutUint16(answer, uint16(len(answer)-2))
		if _, err := conn.Write(answer); err != nil {
			return
		}
	}
}
