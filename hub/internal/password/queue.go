package password

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/wire"
)

// Limits of the hashes that are computed or wait at the same time. They are counted apart for known
// parties and for strangers: no flood of strangers takes a place of a known party. Of each of the
// two, one account or one network leaves places for all others.
const (
	maxOfAccount = 8
	maxOfNetwork = 16
	maxStrangers = 48  // 0.8 s of one core
	maxKnown     = 512 // 32 networks with their whole share
	maxHashWait  = 10 * time.Second
	retryHash    = 2 * time.Second // Retry-After of a rejected hash
)

// Party is who causes a hash. A party is known if it has proved an identity before: it is signed
// in, has an invitation, or a device token of the account. Its account is apart from the same
// account elsewhere: a guest in the same network, or a stranger who guesses the password, cannot
// take the places of its owner. The zero value has no limit.
type Party struct {
	account string
	network string
	known   bool
}

// Known returns a known party, such as "user" and an id.
func Known(account string, from api.Caller) Party {
	return Party{account: account, network: api.NetworkOf(from.RemoteIP), known: true}
}

// queue bounds the hashes that are computed at the same time, and those that wait.
type queue struct {
	slots chan struct{}

	mu   sync.Mutex // guards used
	used map[string]int
}

func newQueue(slots int) *queue {
	return &queue{slots: make(chan struct{}, slots), used: map[string]int{}}
}

// load returns the hashes that are computed and that wait, without those of parties without limits.
func (q *queue) load() (int, int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	computed := len(q.slots)
	return computed, max(0, q.used["known"]+q.used["stranger"]-computed)
}

// acquire waits for a slot. The caller calls the returned function.
func (q *queue) acquire(ctx context.Context, p Party) (func(), error) {
	if err := q.enter(p); err != nil {
		return nil, err
	}

	patience := time.NewTimer(maxHashWait)
	defer patience.Stop()
	var err error
	select {
	case q.slots <- struct{}{}:
		return func() {
			<-q.slots
			q.leave(p)
		}, nil
	case <-patience.C:
		err = errBusy
	case <-ctx.Done():
		err = context.Cause(ctx)
	}

	q.leave(p)
	return nil, err
}

// place is what one hash of a party counts for.
type place struct {
	name string
	most int
	full error
}

func (p Party) places() []place {
	class, most := "stranger", maxStrangers
	if p.known {
		class, most = "known", maxKnown
	}

	if p.account == "" {
		return nil
	}

	return []place{
		{name: class + " account " + p.account, most: maxOfAccount, full: errShareUsed},
		{name: class + " network " + p.network, most: maxOfNetwork, full: errShareUsed},
		{name: class, most: most, full: errBusy},
	}
}

// enter takes the places of a party. It fails with errShareUsed if the party has too many hashes,
// and with errBusy if all parties together have.
func (q *queue) enter(p Party) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, place := range p.places() {
		if q.used[place.name] >= place.most {
			return place.full
		}
	}

	for _, place := range p.places() {
		q.used[place.name]++
	}

	return nil
}

func (q *queue) leave(p Party) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, place := range p.places() {
		if q.used[place.name]--; q.used[place.name] == 0 {
			delete(q.used, place.name)
		}
	}
}

var (
	errBusy = &wire.Error{
		Code: wire.Unavailable, Message: "Too many clients sign in at this moment: try again.", RetryAfter: retryHash,
		Cause: errors.New("hash queue is full"),
	}
	errShareUsed = &api.Refusal{Limit: api.LimitSignIn, Err: &wire.Error{
		Code: wire.RateLimited, RetryAfter: retryHash,
		Message: "Too many sign-ins of this account or network at this moment: wait for as long as Retry-After says.",
	}}
)
