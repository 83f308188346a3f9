//go:build !linux

package httpserve

import "net"

// refuse does nothing: connections that are opened while the listener ends are reset.
func refuse(net.Listener) func() uint32 { return none }
