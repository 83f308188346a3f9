package outbound

import (
	"context"
	"errors"
	"net"
)

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// withoutResolver returns dial with lookup errors that do not contain the address of a resolver:
// errors reach models and clients, and the address belongs to the network of the host.
func withoutResolver(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		lookup, ok := errors.AsType[*net.DNSError](err)
		if !ok {
			return conn, err
		}
		reason := "the lookup failed"
		switch {
		case lookup.IsNotFound:
			reason = "no such host"
		case lookup.IsTimeout:
			reason = "the lookup timed out"
		}
		return nil, &net.OpError{Op: "dial", Net: network, Err: &net.DNSError{
			Err: reason, Name: lookup.Name,
			IsNotFound: lookup.IsNotFound, IsTimeout: lookup.IsTimeout, IsTemporary: lookup.IsTemporary,
		}}
	}
}
