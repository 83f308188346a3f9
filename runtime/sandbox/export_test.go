//go:build linux

package sandbox

import (
	"errors"
	"net/netip"
	"testing"
)

// SimulateKernel makes sandboxes that are opened during the test those of a kernel with the version
// abi of Landlock, without namespaces. With abi -1, Landlock is that of the kernel.
func SimulateKernel(t testing.TB, abi int) {
	former := kernel
	t.Cleanup(func() { kernel = former })
	if abi >= 0 {
		kernel.landlock = func() int { return abi }
	}
	kernel.isolate = func(variant) error { return errors.New("operation not permitted") }
}

// AllowAddresses makes proxies that are opened during the test connect to loopback addresses.
func AllowAddresses(t testing.TB, allow func(netip.Addr) bool) {
	allowAddress = allow
	t.Cleanup(func() { allowAddress = nil })
}

// WorkerCalls are the calls that a confined worker can make with any arguments.
var WorkerCalls = workerCalls
