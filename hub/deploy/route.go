package deploy

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub/api"
)

const (
	publishTimeout = 3 * time.Second // of a call of the gateway: a deployment waits for it
	listTimeout    = 10 * time.Second

	// heldProbes is the number of probes for which a former revision continues while the gateway
	// cannot be changed.
	heldProbes = 60

	// settled is the number of probes until a gateway uses a changed route. Kong needs 10 s.
	settled = 15

	// listEvery is the number of probes until the routes of the gateway are read again.
	listEvery = 10

	// maxUnowned bounds the routes without a deployment that are removed at a time.
	maxUnowned = 50

	// routeMargin is how much longer than a run a response may be silent.
	routeMargin = time.Minute
	maxRoute    = 24 * 24 * time.Hour
)

// gatewayHost returns the host of the routes, which is that of the public address: on a gateway
// with other users, an agent cannot take requests for other hosts. Gateways cannot match an
// address.
func gatewayHost(publicURL string) (string, error) {
	u, err := url.Parse(publicURL)
	if err != nil || u.Hostname() == "" || u.Path != "" {
		return "", fmt.Errorf("GatewayURL %q is not a base URL without a path, which Gateway requires", publicURL)
	}
	if _, err := netip.ParseAddr(u.Hostname()); err == nil {
		return "", nil
	}
	return strings.ToLower(u.Hostname()), nil
}

// published is what a worker knows of the route of its deployment.
type published struct {
	wanted Route     // zero: none
	since  time.Time // when wanted changed
	route  Route     // that the gateway has, if known is true; zero: none
	known  bool
	at     time.Time // the end of the last call, and of the last listing that was used

	edition  int64 // of the deployment at the last failure
	failures int   // in sequence
	retryAt  time.Time

	revision int64 // whose run limit is limit
	limit    time.Duration
}

// listing is the route of a deployment as the gateway listed it last, and when.
type listing struct {
	begin time.Time
	route Route
}

// done reports whether the gateway has what is wanted.
func (p *published) done() bool { return p.known && p.route == p.wanted }

// route returns the route of a deployment that is ready, and otherwise the zero Route.
func (w *worker) route(ctx context.Context, d deployment, v *view) (Route, error) {
	if v.State != StateRunning || v.RuntimeURL == "" || w.s.cfg.Gateway == nil {
		return Route{}, nil
	}
	revision := v.Serving
	if w.published.revision != revision {
		request, err := w.s.request(ctx, w.s.store.Read(), d, revision)
		if err != nil {
			return Route{}, err
		}
		w.published.revision, w.published.limit = revision, min(request.RunLimit()+routeMargin, maxRoute)
	}
	return Route{
		Key: d.Key, Host: w.s.gatewayHost, Path: strings.TrimPrefix(w.s.publicURL(d.TenantID, d.AgentName), w.s.cfg.GatewayURL),
		Target: v.RuntimeURL, Timeout: w.published.limit,
	}, nil
}

// publish gives the gateway the wanted route, and returns the pause until the next attempt. A
// failure is only a condition: it delays nothing but the end of a former revision. The error is
// that of a lost lease.
func (w *worker) publish(ctx context.Context, d deployment, v *view, wanted Route) (time.Duration, error) {
	p := &w.published
	if w.s.cfg.Gateway == nil {
		v.removeCondition(conditionRouted)
		return idlePause, nil
	}
	if l := w.listed.Load(); l != nil && l.begin.After(p.at) {
		p.route, p.known, p.at = l.route, true, l.begin
	}
	if wanted != p.wanted {
		p.wanted, p.since = wanted, time.Now()
	}
	switch {
	case p.done():
		p.failures = 0
		w.noteRoute(v, wanted)
		return w.s.inspectEvery(), nil
	case wanted == (Route{}) && !p.known && d.Desired == desiredRunning && !d.Purge:
		return w.s.inspectEvery(), nil // the next listing has it
	}
	if d.Edition != p.edition { // a user changed the deployment
		p.failures, p.retryAt = 0, time.Time{}
	}
	if pause := time.Until(p.retryAt); pause > 0 {
		return pause, nil
	}
	err := w.callGateway(ctx, d.Key, wanted)
	if lost(err) {
		return 0, err
	}
	p.route, p.known, p.at = wanted, err == nil, time.Now()
	if err == nil {
		p.failures = 0
		w.noteRoute(v, wanted)
		return w.s.inspectEvery(), nil
	}
	pause := min(w.s.cfg.Backoff<<min(p.failures, 10), maxBackoff)
	p.edition, p.retryAt = d.Edition, p.at.Add(pause)
	p.failures++
	w.s.store.Logger.Warn("change route of deployment", "deployment", d.Key, "err", err)
	w.condition(v, conditionRouted, false, text(err))
	v.setCode(conditionRouted, api.GatewayFailed)
	return pause, nil
}

func (w *worker) callGateway(ctx context.Context, key string, wanted Route) error {
	if _, err := w.claim(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	if wanted == (Route{}) {
		return w.s.cfg.Gateway.Remove(ctx, w.owner, key)
	}
	return w.s.cfg.Gateway.Put(ctx, w.owner, wanted)
}

// noteRoute records that the gateway has the route, or that it has none.
func (w *worker) noteRoute(v *view, route Route) {
	if route == (Route{}) {
		v.removeCondition(conditionRouted)
		return
	}
	w.condition(v, conditionRouted, true, "")
}

// holds reports whether the gateway may still send new runs to a former revision because its route
// cannot be changed.
func (w *worker) holds() bool {
	p := &w.published
	return w.s.cfg.Gateway != nil && !p.done() && time.Since(p.since) < heldProbes*w.s.cfg.WatchEvery
}

// retireAfter is how long a former revision accepts runs after another one serves, because other
// hubs and the gateway may still send runs to it.
func (s *Service) retireAfter() time.Duration {
	if s.cfg.Gateway == nil {
		return formerKeyFor
	}
	return max(formerKeyFor, settled*s.cfg.WatchEvery)
}

// inspectEvery is the pause until the routes of the gateway are read again.
func (s *Service) inspectEvery() time.Duration { return listEvery * s.cfg.WatchEvery }

// inspectRoutes reads the routes of the gateway from time to time, until ctx ends. The workers
// repair those that differ.
func (r *reconciler) inspectRoutes(ctx context.Context, owner string) {
	every := r.s.inspectEvery()
	pause := every
	for {
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		err := r.inspect(ctx, owner)
		switch {
		case err == nil:
			pause = every
		case ctx.Err() == nil:
			r.s.store.Logger.Warn("inspect routes of the gateway", "err", err)
			pause = min(2*pause, max(every, maxBackoff))
		}
	}
}

func (r *reconciler) inspect(ctx context.Context, owner string) error {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	begin := time.Now()
	routes, err := r.s.cfg.Gateway.Routes(ctx, owner)
	if err != nil {
		return err
	}
	r.mu.Lock()
	for key, w := range r.workers {
		w.listed.Store(&listing{begin: begin, route: routes[key]})
	}
	r.mu.Unlock()
	keys, err := readKeys(ctx, r.s.store.DB.Read()) // after the routes: one that has a row by now has it
	if err != nil {
		return err
	}
	for _, key := range keys {
		delete(routes, key)
	}
	return r.removeUnowned(ctx, owner, routes)
}

// removeUnowned removes routes of keys without a deployment. One that cannot be removed does not
// stop the others.
func (r *reconciler) removeUnowned(ctx context.Context, owner string, routes map[string]Route) error {
	left := maxUnowned
	var errs []error
	for key := range routes {
		if left--; left < 0 {
			break
		}
		has, err := hasKey(ctx, r.s.store.DB.Read(), key)
		if err != nil {
			return err
		}
		if has {
			continue
		}
		r.s.store.Logger.Info("remove route without a deployment", "deployment", key)
		errs = append(errs, r.s.cfg.Gateway.Remove(ctx, owner, key))
	}
	return errors.Join(errs...)
}
