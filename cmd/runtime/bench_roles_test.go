package main_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// roleVariable selects the role of a test binary that a benchmark starts as a server.
const roleVariable = "AGENTHOST_TEST_ROLE"

// TestRole is the entry point of such a process.
func TestRole(t *testing.T) {
	roles := map[string]func() error{
		"":                 func() error { return nil },
		"upstream":         serveUpstream,
		"limit":            func() error { return serveLimit(flushWhenDrained) },
		"limit-flush-each": func() error { return serveLimit(flushEachEvent) },
		"proxy":            serveProxy,
	}
	play, ok := roles[os.Getenv(roleVariable)]
	require.True(t, ok)
	require.NoError(t, play())
}

// serveRole serves on a free port, prints its address, and ends with standard input.
func serveRole(h http.Handler) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }()
	fmt.Printf("http://%s\n", listener.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
	return server.Close()
}
