//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"testing"
	"time"
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

// SimulateNoLandlock makes sandboxes that are opened during the test those of a kernel with
// namespaces and without Landlock.
func SimulateNoLandlock(t testing.TB) {
	former := kernel
	t.Cleanup(func() { kernel = former })
	kernel.landlock = func() int { return 0 }
}

// AllowAddresses makes proxies that are opened during the test connect to loopback addresses.
func AllowAddresses(t testing.TB, allow func(netip.Addr) bool) {
	allowAddress = allow
	t.Cleanup(func() { allowAddress = nil })
}

// WorkerCalls are the calls that a confined worker can make with any arguments.
var WorkerCalls = workerCalls

// SimulateNoGroups makes sandboxes that are opened during the test those of a process that cannot
// create control groups.
func SimulateNoGroups(t testing.TB) {
	former := kernel
	t.Cleanup(func() { kernel = former })
	kernel.groups = func() []hierarchy { return nil }
}

// UseUnifiedGroup makes commands that are started during the test members of groups of version 2
// without limits in dir.
func UseUnifiedGroup(t testing.TB, dir string) {
	former := kernel
	t.Cleanup(func() { kernel = former })
	kernel.groups = func() []hierarchy { return []hierarchy{{dir: dir, unified: true}} }
}

// FindGroups returns the directories in which control groups can be created.
func FindGroups() (result []string) {
	for _, h := range findHierarchies() {
		result = append(result, h.dir)
	}
	return result
}

// NextGroup returns the name of the control group of this process that is created after some
// others.
func NextGroup(others uint64) string {
	return fmt.Sprintf("%s%d-%d", groupPrefix, os.Getpid(), groupNumber.Load()+others+1)
}

// ParseGroups returns the directories that mountinfo and cgroup, files of /proc, describe.
func ParseGroups(mounts, own string) (result []string) {
	for _, h := range hierarchies(mounts, own) {
		result = append(result, h.dir)
	}
	return result
}

// Delegated reports whether groups may be created in a group next to that of a service.
var Delegated = delegated

// NewWorkerFilter returns the seccomp program of a worker.
var NewWorkerFilter = newWorkerFilter

// SetTunnelIdle changes the time after which an idle tunnel is closed.
func SetTunnelIdle(t testing.TB, d time.Duration) {
	former := tunnelIdle
	tunnelIdle = d
	t.Cleanup(func() { tunnelIdle = former })
}
