package relay

import (
	"errors"
	"sync"
)

// Limits of the memory of all answers in progress, in bytes: the decoders of the events of
// runtimes, the text that is stored, and the transcripts that are read.
const (
	maxMemory       = 512 << 20
	maxTenantMemory = maxMemory / 4
	freeMemory      = 64 << 10 // of each answer, which is always available
)

// errMemory ends an answer.
var errMemory = errors.New("the answers in progress use too much memory")

// budget bounds the memory of all answers.
type budget struct {
	mu       sync.Mutex // guards the fields below, and all accounts
	used     int
	byTenant map[string]int
}

// account is the memory of one answer.
type account struct {
	budget *budget
	tenant string
	used   int
}

// reserve adds to the memory of the answer, or releases it. It fails with errMemory if that is too
// much: only answers that use much fail.
func (a *account) reserve(bytes int) error {
	b := a.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	more := max(0, a.used+bytes-freeMemory) - max(0, a.used-freeMemory)
	if more > 0 && (b.used+more > maxMemory || b.byTenant[a.tenant]+more > maxTenantMemory) {
		return errMemory
	}

	a.used += bytes
	b.used += more
	if b.byTenant[a.tenant] += more; b.byTenant[a.tenant] == 0 {
		delete(b.byTenant, a.tenant)
	}

	return nil
}

// release releases all memory of the answer.
func (a *account) release() {
	a.budget.mu.Lock()
	used := a.used
	a.budget.mu.Unlock()
	_ = a.reserve(-used)
}

// Hold reserves memory for a stored answer that is sent, until the caller calls the function.
func (r *Relay) Hold(tenantID string, bytes int) (func(), error) {
	memory := &account{budget: &r.memory, tenant: tenantID}
	if err := memory.reserve(bytes); err != nil {
		return nil, err
	}

	return memory.release, nil
}
