package runtimecmd

import (
	"context"
	"fmt"
	"net"
	"os"
)

// listen returns the inherited listener, or one on the address.
func (s *settings) listen(ctx context.Context) (net.Listener, error) {
	if s.ListenFD == 0 {
		return new(net.ListenConfig).Listen(ctx, "tcp", s.Addr) // the error contains "listen tcp" and the address
	}
	f := os.NewFile(uintptr(s.ListenFD), "listener")
	if f == nil {
		return nil, fmt.Errorf("use inherited listener: %d is not a file", s.ListenFD)
	}
	defer func() { _ = f.Close() }() // the listener has a copy, which child processes do not inherit
	listener, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("use inherited listener: %w", err)
	}
	return listener, nil
}
