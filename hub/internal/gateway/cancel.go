package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/hub/wire"
)

// Each cancel that is forwarded holds a connection, and may be sent to several runtimes, of which
// some do not respond. A tenant and each of its deployments have a share, so that one of them
// cannot delay all others.
const (
	maxCancels         = 256             // at once
	maxTenantCancels   = 64              // at once of a tenant
	maxDeployedCancels = 16              // at once of a deployment
	cancelWait         = 3 * time.Second // the time for which a cancel waits for the end of another one
)

var errCancels = &wire.Error{
	Code: wire.RateLimited, RetryAfter: cancelWait,
	Message: "Too many cancels are in progress, or the runtime does not respond to them: send it again.",
}

// places counts what callers do at once.
type places struct {
	mu     sync.Mutex // guards the shares, and their users
	shares map[caller]*share
}

// caller has a share: a deployment, a tenant without a deployment, or all tenants together.
type caller struct{ tenant, deployment string }

// share is that of one caller.
type share struct {
	places chan struct{} // has an element for each of them that is taken
	users  int           // that have a place or wait for one
}

// enterCancel waits until a cancel of a deployment may be forwarded. The caller must call the
// returned function.
func (c *places) enterCancel(ctx context.Context, tenant, deployment string) (func(), error) {
	ctx, cancel := context.WithTimeoutCause(ctx, cancelWait, errCancels)
	defer cancel()
	var taken []func()
	leave := func() {
		for _, release := range slices.Backward(taken) {
			release()
		}
	}
	for _, share := range []struct {
		of   caller
		most int
	}{
		{caller{tenant, deployment}, maxDeployedCancels},
		{caller{tenant: tenant}, maxTenantCancels},
		{caller{}, maxCancels},
	} {
		release, err := c.take(ctx, share.of, share.most)
		if err != nil {
			leave()
			return nil, err
		}

		taken = append(taken, release)
	}

	return leave, nil
}

// take takes one of the places of a share. The caller must call the returned function.
func (c *places) take(ctx context.Context, of caller, most int) (func(), error) {
	share := c.share(of, most)
	select {
	case share.places <- struct{}{}:
		return func() {
			<-share.places
			c.drop(of)
		}, nil
	case <-ctx.Done():
		c.drop(of)
		return nil, fmt.Errorf("wait for others: %w", context.Cause(ctx))
	}
}

// share returns the share of a caller, with one more user.
func (c *places) share(of caller, most int) *share {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := c.shares[of]
	if found == nil {
		found = &share{places: make(chan struct{}, most)}
		c.shares[of] = found
	}

	found.users++
	return found
}

// drop removes a user of the share of a caller.
func (c *places) drop(of caller) {
	c.mu.Lock()
	defer c.mu.Unlock()
	share := c.shares[of]
	if share.users--; share.users == 0 {
		delete(c.shares, of)
	}
}

// isCancel reports whether a path is v1/runs/<id>/cancel.
func isCancel(path string) bool {
	id, found := strings.CutPrefix(path, "v1/runs/")
	_, action, _ := strings.Cut(id, "/")
	return found && action == "cancel"
}

// errUnknownRun reports that a runtime does not know the run of a cancel.
var errUnknownRun = errors.New("the runtime does not know the run")

// formerPatience bounds the wait for the runtime of a former revision, which may have ended.
const formerPatience = 3 * time.Second

// cancel forwards a cancel to the runtime that knows the run: the one that serves, or one of a
// former revision. If there is none, the response is that of the one that serves.
func (s *Service) cancel(w http.ResponseWriter, r *http.Request, tenant string, x exchange) error {
	leave, err := s.cancels.enterCancel(r.Context(), tenant, x.target.Key)
	if err != nil {
		return err
	}
	defer leave()
	r.Body, r.ContentLength = http.NoBody, 0 // a cancel has none, and it may be sent several times
	x.within = patience
	last := x
	x.check = func(res *http.Response) error {
		if res.StatusCode == http.StatusNotFound {
			return errUnknownRun
		}

		return nil
	}
	err = s.forward(w, r, x)
	if err == nil || r.Context().Err() != nil {
		return err
	}

	unknown := errors.Is(err, errUnknownRun) // otherwise, the runtime that serves does not respond
	urls, failed := s.cfg.Draining(r.Context(), x.target)
	if failed != nil {
		if unknown {
			err = failed
		}

		return err
	}

	x.within = formerPatience
	x.check = func(res *http.Response) error {
		if res.StatusCode != http.StatusAccepted && res.StatusCode != http.StatusConflict {
			return errUnknownRun
		}

		return nil
	}
	for _, x.target.URL = range urls {
		if s.forward(w, r, x) == nil { // a runtime that does not respond does not hide the others
			return nil
		}
	}

	if !unknown {
		return err
	}

	return s.forward(w, r, last)
}
