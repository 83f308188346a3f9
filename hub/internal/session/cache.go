package session

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/api"
)

const (
	// stateTTL is the maximum age of a cached session or CLI token, from before it was read. A
	// change by another replica takes effect here within this time and the time of a request.
	stateTTL  = 1500 * time.Millisecond
	maxStates = 1 << 14
)

// state is a session or a CLI token and its user, as stored at readAt.
type state struct {
	caller   api.Caller
	disabled bool
	revoked  bool
	foreign  bool      // the user signs in in the other mode
	expires  time.Time // the zero time means never
	readAt   time.Time
	signing  string       // id of the key that the hub signs with; unset for a CLI token
	read     uint64       // the value of token.Keys.Reads when signing was read
	device   string       // of a session
	lastUsed atomic.Int64 // as stored, or about to be stored

	endedByDisable bool // disabling the user ended the session
}

func (st *state) expired(now time.Time) bool { return !st.expires.IsZero() && !now.Before(st.expires) }

// valid reports whether the request would be authenticated if the user were active.
func (st *state) valid(now time.Time) bool {
	return (!st.revoked || st.endedByDisable) && !st.expired(now)
}

// stateCache holds states by session id, or digest of the CLI token.
type stateCache struct {
	mu      sync.RWMutex // guards the fields below
	states  map[string]*state
	changes uint64 // number of calls of forget
}

func newStateCache() *stateCache { return &stateCache{states: map[string]*state{}} }

// get returns the state, or nil. It also returns the number of changes so far, for put.
func (c *stateCache) get(key string, now time.Time) (*state, uint64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	st := c.states[key]
	if st != nil && (now.Before(st.readAt) || now.Sub(st.readAt) >= stateTTL) {
		st = nil
	}

	return st, c.changes
}

// put stores a state, unless forget was called since get returned changes: the state may be older
// than the change.
func (c *stateCache) put(key string, st *state, changes uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changes != changes {
		return
	}

	if len(c.states) >= maxStates {
		maps.DeleteFunc(c.states, func(_ string, old *state) bool { return st.readAt.Sub(old.readAt) >= stateTTL })
	}

	if len(c.states) >= maxStates {
		clear(c.states)
	}

	c.states[key] = st
}

// forgetTenant drops all states of a tenant.
func (c *stateCache) forgetTenant(tenantID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	maps.DeleteFunc(c.states, func(_ string, st *state) bool { return st.caller.TenantID == tenantID })
}

// forget drops all states of a user.
func (c *stateCache) forget(userID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	maps.DeleteFunc(c.states, func(_ string, st *state) bool { return st.caller.UserID == userID })
}
