package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/hub/api"
)

// Each cancel that is forwarded holds a connection, and may be sent to several runtimes, of which
// some do not respond. A deployment has a share, so that one of them cannot delay all others.
const (
	maxCancels = 64              // at once
	maxShare   = 16              // at once of a deployment
	cancelWait = 3 * time.Second // the time for which a cancel waits for the end of another one
)

var errCancels = &api.Error{
	Code: api.RateLimited, RetryAfter: cancelWait,
	Message: "Too many cancels are in progress, or the runtime does not respond to them: send it again.",
}

// cancels counts the cancels that are forwarded.
type cancels struct {
	all chan struct{} // has an element for each cancel

	mu     sync.Mutex // guards the shares, and their users
	shares map[string]*cancelShare
}

// cancelShare is that of one deployment.
type cancelShare struct {
	places chan struct{} // has an element for each cancel
	users  int           // cancels that are forwarded or wait
}

func newCancels() *cancels {
	return &cancels{all: make(chan struct{}, maxCancels), shares: map[string]*cancelShare{}}
}

// enter waits until a cancel of a deployment may be forwarded. The caller must call leave.
func (c *cancels) enter(ctx context.Context, deployment string) (leave func(), err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, cancelWait, errCancels)
	defer cancel()
	share := c.share(deployment)
	if err := take(ctx, share.places); err != nil {
		c.drop(deployment)
		return nil, err
	}
	if err := take(ctx, c.all); err != nil {
		<-share.places
		c.drop(deployment)
		return nil, err
	}
	return func() {
		<-c.all
		<-share.places
		c.drop(deployment)
	}, nil
}

// share returns the share of a deployment, with one more user.
func (c *cancels) share(deployment string) *cancelShare {
	c.mu.Lock()
	defer c.mu.Unlock()
	share := c.shares[deployment]
	if share == nil {
		share = &cancelShare{places: make(chan struct{}, maxShare)}
		c.shares[deployment] = share
	}
	share.users++
	return share
}

// drop removes a user of the share of a deployment.
func (c *cancels) drop(deployment string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	share := c.shares[deployment]
	if share.users--; share.users == 0 {
		delete(c.shares, deployment)
	}
}

// take takes one of the places.
func take(ctx context.Context, places chan struct{}) error {
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for other cancels: %w", context.Cause(ctx))
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
func (s *Service) cancel(w http.ResponseWriter, r *http.Request, x exchange) error {
	leave, err := s.cancels.enter(r.Context(), x.target.Key)
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
