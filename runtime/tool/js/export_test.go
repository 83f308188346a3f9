package js

import "time"

// SetLimits sets the time limits of a host that was not used yet.
func (h *Host) SetLimits(load, build, warm, cold time.Duration) {
	h.limits = loadLimits{load: load, build: build, warm: warm, cold: cold}
}
