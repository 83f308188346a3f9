package js

import "time"

// SetLimits sets the time limits of a host that was not used yet.
func (h *Host) SetLimits(load, build, warm, cold time.Duration) {
	h.limits = loadLimits{load: load, build: build, warm: warm, cold: cold}
}

// Workers returns the ids of the processes.
func (h *Host) Workers() (ids []int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for p := range h.all {
		ids = append(ids, p.child.PID())
	}
	return ids
}

// ErrClosed is compared by tests.
var ErrClosed = errClosed
