package identity

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed93082962/agenthost/hub/api"
)

const (
	// stateTTL is how old, since before it was read, may be what is known of a session or a CLI token. What another replica
	// changes acts here within this and the time of a request.
	stateTTL  = 1500 * time.Millisecond
	maxStates = 1 << 14
	maxTokens = 1 << 13 // in each of two generations
)

// digest is the SHA-256 of a token: a cache that somebody reads gives none away.
type digest = [32]byte

// tokenCache remembers whose signature was checked, which takes 51 us. It says nothing of whether the session still lives.
type tokenCache struct {
	mu         sync.RWMutex // guards the rest
	young, old map[digest]verified
}

// verified is what an access token said.
type verified struct {
	session, user string
	expires       time.Time
}

func newTokenCache() *tokenCache { return &tokenCache{young: map[digest]verified{}} }

func (c *tokenCache) get(key digest) (verified, bool) {
	c.mu.RLock()
	v, ok := c.young[key]
	if ok {
		c.mu.RUnlock()
		return v, true
	}
	v, ok = c.old[key]
	c.mu.RUnlock()
	if ok {
		c.put(key, v)
	}
	return v, ok
}

// put makes room by dropping the generation that was not used since the last time there was none.
func (c *tokenCache) put(key digest, v verified) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.young) >= maxTokens {
		c.old, c.young = c.young, make(map[digest]verified, maxTokens)
	}
	c.young[key] = v
}

// state is a session or a CLI token and its member, as they stood in the database at readAt.
type state struct {
	caller   api.Caller
	disabled bool
	revoked  bool
	expires  time.Time // the zero time is never
	readAt   time.Time
	lastUsed atomic.Int64 // as the database has it, or is about to
}

// stateCache holds states by session id, or digest of the CLI token.
type stateCache struct {
	mu      sync.RWMutex // guards the rest
	states  map[string]*state
	changes uint64 // how often something was forgotten
}

func newStateCache() *stateCache { return &stateCache{states: map[string]*state{}} }

// get also tells how many changes there had been, which put wants to know.
func (c *stateCache) get(key string, now time.Time) (st *state, changes uint64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	st = c.states[key]
	if st != nil && (now.Before(st.readAt) || now.Sub(st.readAt) >= stateTTL) {
		st = nil
	}
	return st, c.changes
}

// put keeps a state, unless something changed since it was begun to be read: then it may be of before.
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

// forget drops all states of a user.
func (c *stateCache) forget(userID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	maps.DeleteFunc(c.states, func(_ string, st *state) bool { return st.caller.UserID == userID })
}
