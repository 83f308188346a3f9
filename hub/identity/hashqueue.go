package identity

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/hub/api"
)

const (
	maxWaiting  = 64               // hashes that wait for a slot
	maxHashWait = 10 * time.Second // how long each of them waits
	retryHash   = 2 * time.Second  // Retry-After of a rejected one
	shareWindow = 10 * time.Second
)

// A share names the parties that a password hash is charged to. Each hash counts for all of its
// parties. A party is known if it has proved an identity before: it is signed in, has a setup token
// or an invitation, or signed in from the same network within a day.
//
// A login of such an account counts only for the account, and apart from the logins of that account
// from elsewhere: a guest in the same network, or a stranger who guesses the password, cannot take
// the share of its owner.
type share struct {
	parties []string
	network string // decides between equal shares
	known   bool   // precedes unknown parties with an equal share
}

// knownAllowance is how many hashes of a known party in a window do not count. The change of a
// password takes two.
const knownAllowance = 2

// hashQueue shares the hash slots fairly: a free slot goes to the waiting hash whose parties had
// the fewest hashes in the current window. When the queue is full, the party with the most waiting
// hashes loses its newest one. Between equal parties, known ones come first, and then those of the
// network with the fewest hashes. A client that has many networks, as with an IPv6 /32, is a new
// party with each attempt. It cannot keep out known parties, whose share is never larger than its
// own.
type hashQueue struct {
	mu      sync.Mutex // guards the fields below
	free    int        // slots in use by no hash; positive only while none waits
	waiting []*waitingHash
	served  map[string]int // hashes by party and by network in the current window
	window  time.Time      // when the current window began
}

// networkKey is the key of a network in served. No party has it.
func (s share) networkKey() string { return "/" + s.network }

// unknown returns 1 for an unknown party.
func (s share) unknown() int {
	if s.known {
		return 0
	}
	return 1
}

type waitingHash struct {
	share
	done chan error // receives nil for a slot, or the error of a rejected hash
}

func newHashQueue(slots int) *hashQueue {
	return &hashQueue{free: slots, served: map[string]int{}}
}

// acquire waits for a slot, which the caller releases. It fails with errShareUsed if a party of the
// share has other hashes in the queue or had some in the current window, and with errHasherBusy
// otherwise.
func (q *hashQueue) acquire(ctx context.Context, s share) error {
	q.mu.Lock()
	if q.free > 0 {
		q.free--
		q.serve(s)
		q.mu.Unlock()
		return nil
	}
	w := &waitingHash{share: s, done: make(chan error, 1)}
	q.waiting = append(q.waiting, w)
	if len(q.waiting) > maxWaiting {
		q.reject(q.greediest())
	}
	q.mu.Unlock()
	patience := time.NewTimer(maxHashWait)
	defer patience.Stop()
	select {
	case err := <-w.done:
		return err
	case <-patience.C:
		return q.leave(w, nil)
	case <-ctx.Done():
		return q.leave(w, context.Cause(ctx))
	}
}

// leave stops the wait because of reason, or because of the time limit if reason is nil. At the
// time limit it keeps a slot that was assigned concurrently.
func (q *hashQueue) leave(w *waitingHash, reason error) error {
	q.mu.Lock()
	if i := slices.Index(q.waiting, w); i >= 0 {
		q.reject(i)
	}
	q.mu.Unlock()
	err := <-w.done
	if err == nil && reason != nil {
		q.release()
	}
	if reason != nil {
		return reason
	}
	return err
}

// release passes the slot to the next waiting hash, or frees it.
func (q *hashQueue) release() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w := q.next(); w != nil {
		w.done <- nil
	} else {
		q.free++
	}
}

// next removes the waiting hash that gets the next slot from the queue. It returns nil if none
// waits.
func (q *hashQueue) next() *waitingHash {
	if len(q.waiting) == 0 {
		return nil
	}
	next, least := 0, []int(nil)
	for i, w := range q.waiting {
		if n := []int{q.use(w), w.unknown(), q.served[w.networkKey()]}; least == nil || slices.Compare(n, least) < 0 {
			next, least = i, n
		}
	}
	w := q.waiting[next]
	q.waiting = slices.Delete(q.waiting, next, next+1)
	q.serve(w.share)
	return w
}

// serve counts a hash that gets a slot.
func (q *hashQueue) serve(s share) {
	if now := time.Now(); now.Sub(q.window) >= shareWindow {
		q.window = now
		clear(q.served)
	}
	q.served[s.networkKey()]++
	for _, party := range s.parties {
		q.served[party]++
	}
}

// use returns the largest number of hashes that a party of w had in the current window.
func (q *hashQueue) use(w *waitingHash) (most int) {
	for _, party := range w.parties {
		most = max(most, q.served[party])
	}
	if w.known {
		most = max(0, most-knownAllowance)
	}
	return most
}

// reject removes a waiting hash from the queue.
func (q *hashQueue) reject(i int) {
	w := q.waiting[i]
	err := errHasherBusy
	if party, network := q.count()(w); party > 1 || network > 1 || q.use(w) > 0 {
		err = errShareUsed
	}
	q.waiting = slices.Delete(q.waiting, i, i+1)
	w.done <- err
}

// greediest returns the index of the newest waiting hash of the party with the most waiting ones.
// Between equal parties, an unknown one is greedier, and then that of the network with the most.
func (q *hashQueue) greediest() (found int) {
	count := q.count()
	var most []int
	for i, w := range q.waiting {
		party, network := count(w)
		if n := []int{party, w.unknown(), network}; slices.Compare(n, most) >= 0 {
			found, most = i, n
		}
	}
	return found
}

// count returns a function that returns the number of waiting hashes of the party of w that has the
// most, and of its network.
func (q *hashQueue) count() func(w *waitingHash) (party, network int) {
	parties, networks := map[string]int{}, map[string]int{}
	for _, w := range q.waiting {
		networks[w.network]++
		for _, name := range w.parties {
			parties[name]++
		}
	}
	return func(w *waitingHash) (party, network int) {
		for _, name := range w.parties {
			party = max(party, parties[name])
		}
		return party, networks[w.network]
	}
}

var (
	errHasherBusy = &api.Error{
		Code: api.Unavailable, Message: "Too many clients sign in at this moment: try again.", RetryAfter: retryHash,
		Cause: errors.New("hash queue is full"),
	}
	errShareUsed = &api.Error{
		Code: api.RateLimited, RetryAfter: retryHash,
		Message: "Too many sign-ins of this account or network at this moment: wait for as long as Retry-After says.",
	}
)
