package deployment

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub/deploy"
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

	// maxCalls bounds the calls at a time that change routes, of all deployments.
	maxCalls = 8

	// maxUnowned bounds the routes without a deployment that are removed at a time.
	maxUnowned = 50

	// routeMargin is how much longer than a run a response may be silent.
	routeMargin = time.Minute
	maxRoute    = 24 * 24 * time.Hour
)

// gatewayHost returns the host of the routes, which is that of the public address: on a gateway
// with other users, an agent cannot take requests for other hosts. Gateways cannot match an
// address. With the host of the hub, an agent could take the paths of the hub.
func gatewayHost(cfg Config) (string, error) {
	u, err := url.Parse(cfg.GatewayURL)
	if err != nil || u.Hostname() == "" || u.Path != "" {
		return "", fmt.Errorf("GatewayURL %q is not a base URL without a path, which Gateway requires", cfg.GatewayURL)
	}

	hub, err := url.Parse(cfg.PublicURL)
	if err != nil {
		return "", fmt.Errorf("PublicURL is not a URL: %w", err)
	}

	host := strings.ToLower(u.Hostname())
	addr, err := netip.ParseAddr(host)
	isAddress := err == nil
	if !isAddress && !(deploy.Route{Host: host}).HasHost() {
		return "", fmt.Errorf("GatewayURL: the host %q is not a name of letters, digits, hyphens and dots, which Gateway requires", host)
	}

	machine := host == "localhost" || addr.IsLoopback() // which may have both on different ports
	if host == strings.TrimSuffix(strings.ToLower(hub.Hostname()), ".") && (!machine || u.Port() == hub.Port()) {
		return "", fmt.Errorf("GatewayURL and PublicURL have the same host %q, where an agent could take the paths of the hub: use another host name", host)
	}

	if isAddress {
		return "", nil
	}

	return host, nil
}

// published is what a worker knows of the route of its deployment.
type published struct {
	wanted deploy.Route // zero: none
	since  time.Time    // when wanted changed
	route  deploy.Route // that the gateway has, if known is true; zero: none
	known  bool
	at     time.Time // the end of the last call, and of the last listing that was used

	edition  int64 // of the deployment at the last failure
	failures int   // in sequence
	retryAt  time.Time

	revision int64 // whose run limit is limit
	limit    time.Duration
}

// listing is the route of a deployment as the gateway listed it last, and when. The zero listing is
// one that failed.
type listing struct {
	begin time.Time
	route deploy.Route
}

// done reports whether the gateway has what is wanted.
func (p *published) done() bool { return p.known && p.route == p.wanted }

// route returns the route of a deployment that is ready.
func (w *worker) route(ctx context.Context, d deployment) deploy.Route {
	p := &w.published
	if p.revision != d.Serving {
		request, err := w.s.request(ctx, w.s.store.Read(), d, d.Serving) // otherwise, the default limit
		limit := request.RunLimit() + routeMargin + time.Second - time.Nanosecond
		p.limit = min(limit.Truncate(time.Second), maxRoute)
		if err == nil {
			p.revision = d.Serving
		}
	}

	return deploy.Route{
		Key: d.Key, Host: w.s.gatewayHost, Path: strings.TrimPrefix(w.s.publicURL(d.TenantID, d.AgentName), w.s.cfg.GatewayURL),
		Target: d.RuntimeURL, Timeout: p.limit,
	}
}

// publish gives the gateway the wanted route, and returns the pause until the next attempt. A
// failure is only a condition: it delays nothing but the end of a former revision.
func (w *worker) publish(ctx context.Context, d *deployment, wanted deploy.Route) time.Duration {
	p := &w.published
	if w.s.cfg.Gateway == nil {
		d.removeCondition(conditionRouted)
		return idlePause
	}

	l := w.listed.Load()
	if l != nil && l.begin.After(p.at) {
		p.route, p.known, p.at = l.route, true, l.begin
	}

	if wanted != p.wanted {
		p.wanted, p.since = wanted, time.Now()
	}

	switch {
	case l == nil: // the first listing wakes the worker
		return w.s.inspectEvery()
	case p.done():
		p.failures = 0
		w.noteRoute(&d.view, wanted)
		return w.s.inspectEvery()
	case wanted == (deploy.Route{}) && !p.known && d.Desired == desiredRunning:
		return w.s.inspectEvery() // the next listing has it
	}

	if d.Edition != p.edition { // a user changed the deployment
		p.failures, p.retryAt = 0, time.Time{}
	}

	if pause := time.Until(p.retryAt); pause > 0 {
		return pause
	}

	select {
	case w.s.gatewayCalls <- struct{}{}:
	default:
		return w.s.cfg.WatchEvery // other deployments have all of them
	}

	err := w.callGateway(ctx, d.Key, wanted)
	<-w.s.gatewayCalls
	p.route, p.known, p.at = wanted, err == nil, time.Now()
	if err == nil {
		p.failures = 0
		w.noteRoute(&d.view, wanted)
		return w.s.inspectEvery()
	}

	pause := min(w.s.cfg.Backoff<<min(p.failures, 10), maxBackoff)
	p.edition, p.retryAt = d.Edition, p.at.Add(pause)
	p.failures++
	w.s.store.Logger.Warn("change route of deployment", "deployment", d.Key, "err", logged(err))
	d.condition(w.s.store.Now(), conditionRouted, false, text(err))
	return pause
}

func (w *worker) callGateway(ctx context.Context, key string, wanted deploy.Route) error {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	if wanted == (deploy.Route{}) {
		return w.s.cfg.Gateway.Remove(ctx, w.s.owner, key)
	}

	return w.s.cfg.Gateway.Put(ctx, w.s.owner, wanted)
}

// logged returns the text of an error of the gateway with what it hides from users.
func logged(err error) string {
	if cause := errors.Unwrap(err); cause != nil {
		return err.Error() + ": " + cause.Error()
	}

	return err.Error()
}

// noteRoute records that the gateway has the route, or that it has none.
func (w *worker) noteRoute(v *view, route deploy.Route) {
	if route == (deploy.Route{}) {
		v.removeCondition(conditionRouted)
		return
	}

	v.condition(w.s.store.Now(), conditionRouted, true, "")
}

// holds reports whether the gateway may still send new runs to a former revision because its route
// cannot be changed.
func (w *worker) holds() bool {
	p := &w.published
	return w.s.cfg.Gateway != nil && !p.done() && time.Since(p.since) < heldProbes*w.s.cfg.WatchEvery
}

// retireAfter is how long a former revision accepts runs after another one serves, because other
// hubs and the gateway may still send runs to it.
func (c Config) retireAfter() time.Duration {
	if c.Gateway == nil {
		return formerKeyFor
	}

	return max(formerKeyFor, settled*c.WatchEvery)
}

// inspectEvery is the pause until the routes of the gateway are read again.
func (s *Service) inspectEvery() time.Duration { return listEvery * s.cfg.WatchEvery }

// inspectRoutes reads the routes of the gateway at once, then from time to time and for new
// workers, until ctx ends. The workers repair those that differ.
func (r *reconciler) inspectRoutes(ctx context.Context) {
	ticker := time.NewTicker(r.s.cfg.WatchEvery)
	defer ticker.Stop()
	every := r.s.inspectEvery()
	for pause, at := every, (time.Time{}); ctx.Err() == nil; {
		if time.Since(at) >= pause || r.unlisted() {
			err := r.inspect(ctx)
			at = time.Now()
			switch {
			case err == nil:
				pause = every
			case ctx.Err() == nil:
				r.s.store.Logger.Warn("inspect routes of the gateway", "err", logged(err))
				pause = min(2*pause, max(every, maxBackoff))
			}
		}

		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// unlisted reports whether a worker waits for its first listing.
func (r *reconciler) unlisted() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.workers {
		if w.listed.Load() == nil {
			return true
		}
	}

	return false
}

// inspect reads the routes once. A worker that began in the meantime gets the next listing: its
// deployment may have been changed by another hub since. One whose route differs from that of the
// former listing is woken.
func (r *reconciler) inspect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	r.mu.Lock()
	workers := maps.Clone(r.workers)
	r.mu.Unlock()
	begin := time.Now()
	routes, err := r.s.cfg.Gateway.Routes(ctx, r.s.owner)
	for key, w := range workers {
		former := w.listed.Load()
		switch {
		case err == nil:
			w.listed.Store(&listing{begin: begin, route: routes[key]})
		case former == nil:
			w.listed.Store(&listing{})
		}

		if former == nil || err == nil && former.route != routes[key] {
			w.wake()
		}
	}

	if err != nil {
		return err
	}

	keys, err := readKeys(ctx, r.s.store.DB.Read()) // after the routes: one that has a row by now has it
	if err != nil {
		return err
	}

	for _, key := range keys {
		delete(routes, key)
	}

	return r.removeUnowned(ctx, routes)
}

// removeUnowned removes routes of keys without a deployment. One that cannot be removed stops
// neither the others nor the next listing.
func (r *reconciler) removeUnowned(ctx context.Context, routes map[string]deploy.Route) error {
	left := maxUnowned
	for key := range routes { // in another order each time
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

		if err := r.s.cfg.Gateway.Remove(ctx, r.s.owner, key); err != nil {
			r.s.store.Logger.Warn("remove route without a deployment", "deployment", key, "err", logged(err))
			continue
		}

		r.s.store.Logger.Info("removed route without a deployment", "deployment", key)
	}

	return nil
}
