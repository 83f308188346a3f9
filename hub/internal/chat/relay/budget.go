package relay

import (
	"errors"
	"sync"
)

// Limits of memory, in bytes: of all answers in progress (the decoders of the events of runtimes,
// the text that is stored, and the transcripts that are read), of all journals, of all readers, and
// of the images and files that runs begin with. Each has its own, so that the others do not end
// answers.
const (
	maxMemory        = 512 << 20
	maxTenantMemory  = maxMemory / 4
	maxJournalMemory = 256 << 20
	maxReaderMemory  = 128 << 20
	maxFileMemory    = 512 << 20
	freeMemory       = 64 << 10 // of each account, which is always available
)

// errMemory ends an answer.
var errMemory = errors.New("the answers in progress use too much memory")

// budget bounds the memory of all accounts.
type budget struct {
	most, ofHolder int

	mu       sync.Mutex // guards the fields below, and all accounts
	used     int
	byHolder map[string]int
}

// newBudget returns a budget of which each holder may have a quarter.
func newBudget(most int) *budget {
	return &budget{most: most, ofHolder: most / 4, byHolder: map[string]int{}}
}

// account is the memory of one answer, one journal or one reader.
type account struct {
	budget *budget
	holder string // the tenant, or the user of a reader
	used   int
}

// reserve adds to the memory of the account, or releases it. It fails with errMemory if that is too
// much: only answers that use much fail.
func (a *account) reserve(bytes int) error {
	b := a.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	more := max(0, a.used+bytes-freeMemory) - max(0, a.used-freeMemory)
	if more > 0 && (b.used+more > b.most || b.byHolder[a.holder]+more > b.ofHolder) {
		return errMemory
	}

	a.used += bytes
	b.used += more
	if b.byHolder[a.holder] += more; b.byHolder[a.holder] == 0 {
		delete(b.byHolder, a.holder)
	}

	return nil
}

// release releases all memory of the account.
func (a *account) release() {
	a.budget.mu.Lock()
	used := a.used
	a.budget.mu.Unlock()
	_ = a.reserve(-used)
}

// Reserve returns a function that reserves memory of the answers of a tenant for a request, or
// releases it if the number is negative.
func (r *Relay) Reserve(tenantID string) func(bytes int) error {
	memory := &account{budget: r.memory, holder: tenantID}
	return memory.reserve
}

// reader returns the memory of a reader of the answer of a run.
func (r *Relay) reader(run AnswerRun) account {
	return account{budget: r.readers, holder: run.TenantID + "/" + run.UserID}
}

// Hold reserves memory for a stored answer that is sent, until the caller calls the function.
func (r *Relay) Hold(run AnswerRun, bytes int) (func(), error) {
	memory := r.reader(run)
	if err := memory.reserve(bytes); err != nil {
		return nil, err
	}

	return memory.release, nil
}
