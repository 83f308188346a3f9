package relay

// journals are those of a relay, whose mutex guards them.
type journals struct {
	byRun    map[string]*journal // of answers in progress, and of those that ended recently
	kept     []*journal          // of answers that have ended, the oldest first
	bytes    int                 // of kept
	byTenant map[string]int      // the bytes of kept
}

// journalOf returns the journal of a run, or nil if this hub has none. An answer in progress that
// had no journal has one from now on.
func (r *Relay) journalOf(runID string) *journal {
	r.expireJournals()
	r.mu.Lock()
	j, a := r.journals.byRun[runID], r.answers[runID]
	r.mu.Unlock()
	if j != nil || a == nil {
		return j
	}

	a.mu.Lock()
	defer a.mu.Unlock()
	if a.journal == nil && a.begun && a.end == nil {
		a.journal = a.newJournal(2) // the first event at least is missing
		r.mu.Lock()
		r.journals.byRun[runID] = a.journal
		r.mu.Unlock()
	}

	return a.journal
}

// dropJournal removes the journal of an answer that did not begin: readers get what is stored.
func (r *Relay) dropJournal(a *Answer) {
	a.mu.Lock()
	j := a.journal
	a.journal = nil
	a.mu.Unlock()
	if j == nil {
		return
	}

	r.mu.Lock()
	if r.journals.byRun[j.run] == j {
		delete(r.journals.byRun, j.run)
	}

	r.mu.Unlock()
	j.end()
	j.discard()
}

// endJournal ends the journal of an answer, which is kept for a while.
func (r *Relay) endJournal(a *Answer) {
	a.mu.Lock()
	j := a.journal
	a.mu.Unlock()
	if j == nil {
		return
	}

	j.end()
	now := r.store.Now()
	size := j.held()
	r.mu.Lock()
	defer r.mu.Unlock()
	j.ended = now
	all := &r.journals
	all.kept = append(all.kept, j)
	all.bytes += size
	all.byTenant[j.tenant] += size
	for i := 0; all.byTenant[j.tenant] > maxTenantKept; i++ {
		if all.kept[i].tenant == j.tenant {
			all.remove(i)
			i--
		}
	}

	for all.bytes > maxKept {
		all.remove(0)
	}
}

// remove removes a journal of an answer that has ended.
func (all *journals) remove(i int) {
	j := all.kept[i]
	size := j.held()
	all.kept = append(all.kept[:i], all.kept[i+1:]...)
	if all.byRun[j.run] == j {
		delete(all.byRun, j.run)
	}

	all.bytes -= size
	if all.byTenant[j.tenant] -= size; all.byTenant[j.tenant] == 0 {
		delete(all.byTenant, j.tenant)
	}

	j.discard()
}

// expireJournals removes the journals of answers that ended five minutes ago.
func (r *Relay) expireJournals() {
	until := r.store.Now().Add(-keepJournal)
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.journals.kept) > 0 && r.journals.kept[0].ended.Before(until) {
		r.journals.remove(0)
	}
}

// nextJournal returns the journal of an answer that begins. If it continues a run, its numbers go
// on after those of the former journal, and the events before are missing.
func (r *Relay) nextJournal(a *Answer, formerRun string) *journal {
	j := a.newJournal(1)
	if formerRun == "" {
		return j
	}

	j.first, j.next = 2, 2
	r.mu.Lock()
	former := r.journals.byRun[formerRun]
	r.mu.Unlock()
	if former != nil {
		former.mu.Lock()
		j.tag, j.first, j.next = former.tag, former.next, former.next
		former.mu.Unlock()
	}

	a.before = j.idOf(j.first - 1)
	return j
}
