package agent

import (
	"strconv"

	"github.com/seed93082962/agenthost/internal/pattern"
	"github.com/seed93082962/agenthost/internal/quantity"
)

// Bounds of a [Deployment].
const (
	minMemory    = 32 << 20 // bytes
	maxMemory    = 16 << 40
	minCPU       = 10 // thousandths of a processor
	maxCPU       = 1_024_000
	minProcesses = 16
	maxProcesses = 1 << 22 // of Linux
	maxReplicas  = 100
)

// Deployment is what the runtime of an agent may use. Of several replicas, each one may use that. A
// zero field has the value of the settings of the hub.
type Deployment struct {
	Memory    string `json:"memory,omitempty"`   // a whole number with Mi or Gi, such as "512Mi"
	CPU       string `json:"cpu,omitempty"`      // thousandths of a processor, such as "500m"
	Processes int64  `json:"processes,omitzero"` // with threads
	Replicas  int64  `json:"replicas,omitzero"`
}

var (
	memoryForm = pattern.Compile(`^([1-9][0-9]{0,7})(Mi|Gi)$`)
	cpuForm    = pattern.Compile(`^([1-9][0-9]{0,7})m$`)
)

// Bytes returns Memory in bytes, or 0 if it is not set.
func (d Deployment) Bytes() int64 {
	parts := memoryForm().FindStringSubmatch(d.Memory)
	if parts == nil {
		return 0
	}

	n, _ := strconv.ParseInt(parts[1], 10, 64) // of at most eight digits
	if parts[2] == "Gi" {
		n <<= 10
	}

	return n << 20
}

// MilliCPU returns CPU in thousandths of a processor, or 0 if it is not set.
func (d Deployment) MilliCPU() int64 {
	parts := cpuForm().FindStringSubmatch(d.CPU)
	if parts == nil {
		return 0
	}

	n, _ := strconv.ParseInt(parts[1], 10, 64) // of at most eight digits
	return n
}

// Validate returns the faults of the fields, as [Faults] without lines.
func (d Deployment) Validate() error {
	var faults Faults
	number := func(key string, value, least, most int64) {
		if value != 0 && (value < least || value > most) {
			faults.add(key, "must be from %d to %d", least, most)
		}
	}
	if bytes := d.Bytes(); d.Memory != "" && (bytes < minMemory || bytes > maxMemory) {
		faults.add("memory", "must be a whole number from %s to %s, such as 512Mi or 2Gi", quantity.Memory(minMemory), quantity.Memory(maxMemory))
	}

	if milli := d.MilliCPU(); d.CPU != "" && (milli < minCPU || milli > maxCPU) {
		faults.add("cpu", "must be from %s to %s, in thousandths of a processor, such as 500m", quantity.CPU(minCPU), quantity.CPU(maxCPU))
	}

	number("processes", d.Processes, minProcesses, maxProcesses)
	number("replicas", d.Replicas, 1, maxReplicas)
	return faults.err()
}
