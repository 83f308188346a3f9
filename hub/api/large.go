package api

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// Limits of the large responses of one caller: their memory is occupied until the client has read
// them, which may be slow.
const (
	maxLarge        = 8               // responses at once
	maxLargeWaiting = 64              // requests that wait for the end of one of them
	largeWait       = 2 * time.Second // the time for which a request waits
)

var errLarge = &Error{
	Code: RateLimited, RetryAfter: largeWait,
	Message: "Eight large responses to this user are in progress: read them first, or send fewer requests at once.",
}

// shares counts the large responses in progress by their caller.
type shares struct {
	mu       sync.Mutex // guards byCaller and the users of its shares
	byCaller map[string]*share
}

// share is that of one caller.
type share struct {
	places chan struct{} // has an element for each response
	users  int           // responses and requests that wait
}

// take takes a place of a caller. It fails with RateLimited if none becomes free in time.
func (s *shares) take(ctx context.Context, caller string) (release func(), err error) {
	s.mu.Lock()
	own := s.byCaller[caller]
	if own == nil {
		own = &share{places: make(chan struct{}, maxLarge)}
		s.byCaller[caller] = own
	}
	own.users++
	crowded := own.users > maxLarge+maxLargeWaiting
	s.mu.Unlock()
	leave := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if own.users--; own.users == 0 {
			delete(s.byCaller, caller)
		}
	}
	release = func() {
		<-own.places
		leave()
	}
	select {
	case own.places <- struct{}{}:
		return release, nil
	default:
	}
	if crowded {
		leave()
		return nil, errLarge
	}
	late := time.NewTimer(largeWait)
	defer late.Stop()
	select {
	case own.places <- struct{}{}:
		return release, nil
	case <-late.C:
		err = errLarge
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	leave()
	return nil, err
}

// TakeShare counts a request as one with a large body or a large response of that owner until its
// handler returns. It fails with RateLimited if the owner has eight of them. It is for handlers
// that authenticate their callers; other routes are Large.
func TakeShare(r *http.Request, owner string) error {
	c := callOf(r)
	if c == nil || c.release != nil {
		return nil
	}
	release, err := c.server.shares.take(r.Context(), owner)
	c.release = release
	return err
}

// takeShare takes the share of the caller, which is an address on routes that are Open.
func takeShare(r *http.Request) error {
	caller := CallerOf(r)
	if caller.UserID == "" {
		return TakeShare(r, "address "+caller.RemoteIP)
	}
	return TakeShare(r, ShareOwner(caller))
}

// ShareOwner returns the owner of the large responses to a user.
func ShareOwner(caller Caller) string { return "user " + caller.TenantID + "/" + caller.UserID }
