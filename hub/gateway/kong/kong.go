// Package kong is a deploy.Gateway on the admin interface of Kong 3.
//
//	gateway, err := kong.New(kong.Config{AdminURL: "http://127.0.0.1:8001"})
//	if err != nil { ... }
//	cfg := hub.Config{Gateway: gateway, GatewayURL: "https://agents.example.com"}
//
// A route is a service and a route of Kong with the key of the deployment as their name, and with
// the tag agenthost-OWNER. Entities without the tag are neither changed nor deleted. A PUT replaces
// a whole entity, so that each one states all fields that have an effect on agents.
package kong

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/gateway/internal/admin"
)

// Config configures [New].
type Config struct {
	// AdminURL is the base URL of the admin interface. Required.
	AdminURL string

	// AdminKey is sent in the header Kong-Admin-Token. Defaults to none.
	AdminKey string
}

// Gateway manages the routes of deployments. It is safe for concurrent use.
type Gateway struct{ client *admin.Client }

var _ deploy.Gateway = (*Gateway)(nil)

// New returns a Gateway. It does not call Kong.
func New(cfg Config) (*Gateway, error) {
	client, err := admin.New(cfg.AdminURL, "Kong-Admin-Token", cfg.AdminKey)
	if err != nil {
		return nil, err
	}

	return &Gateway{client}, nil
}

// CloseIdleConnections closes the connections to the admin interface that no call uses.
func (g *Gateway) CloseIdleConnections() { g.client.CloseIdleConnections() }

// Put implements deploy.Gateway. The service is written first: a route that exists then leads to
// the next target.
func (g *Gateway) Put(ctx context.Context, owner string, r deploy.Route) error {
	wantService, err := serviceOf(owner, r)
	if err != nil {
		return err
	}

	s, err := g.get(ctx, "/services/", r.Key)
	if err != nil {
		return err
	}

	old, err := g.get(ctx, "/routes/", r.Key)
	if err != nil {
		return err
	}

	if s != nil && !s.tagged(owner) || old != nil && !old.tagged(owner) {
		return deploy.ErrForeignRoute
	}

	if s == nil || !s.equal(wantService, serviceDefaults) {
		s = &entity{}
		if err := g.put(ctx, "/services/"+r.Key, wantService, s); err != nil {
			return err
		}
	}

	if s.id == "" {
		return errors.New("the gateway returned a service without an id")
	}

	want := routeOf(owner, r, s.id)
	if old != nil && old.equal(want, routeDefaults) {
		return nil
	}

	return g.put(ctx, "/routes/"+r.Key, want, nil)
}

// put writes an entity. The interface creates it if it does not exist.
func (g *Gateway) put(ctx context.Context, path string, in, out any) error {
	found, err := g.client.Do(ctx, http.MethodPut, path, in, out)
	if err == nil && !found {
		err = &admin.StatusError{Method: http.MethodPut, Path: path, Status: http.StatusNotFound}
	}

	return err
}

// get returns an entity, or nil if there is none.
func (g *Gateway) get(ctx context.Context, kind, name string) (*entity, error) {
	e := &entity{}
	found, err := g.client.Do(ctx, http.MethodGet, kind+url.PathEscape(name), nil, e)
	if err != nil || !found {
		return nil, err
	}

	return e, nil
}

// Remove implements deploy.Gateway. The route is deleted first: a service that is in use cannot be
// deleted.
func (g *Gateway) Remove(ctx context.Context, owner, key string) error {
	r, err := g.get(ctx, "/routes/", key)
	if err == nil && r != nil && r.tagged(owner) {
		_, err = g.client.Do(ctx, http.MethodDelete, "/routes/"+url.PathEscape(key), nil, nil)
	}

	if err != nil {
		return err
	}

	s, err := g.get(ctx, "/services/", key)
	if err != nil || s == nil || !s.tagged(owner) {
		return err
	}

	_, err = g.client.Do(ctx, http.MethodDelete, "/services/"+url.PathEscape(key), nil, nil)
	if e, ok := errors.AsType[*admin.StatusError](err); ok && (e.Status == http.StatusBadRequest || e.Status == http.StatusConflict) {
		return errors.New("the gateway does not delete the service of the deployment: another route, which the hub did not create, uses it")
	}

	return err
}

// Routes implements deploy.Gateway.
func (g *Gateway) Routes(ctx context.Context, owner string) (map[string]deploy.Route, error) {
	services, err := g.list(ctx, "/services", owner)
	if err != nil {
		return nil, err
	}

	routes, err := g.list(ctx, "/routes", owner)
	if err != nil {
		return nil, err
	}

	all := make(map[string]deploy.Route, len(routes))
	for name := range services { // without a route, unless it follows
		all[name] = deploy.Route{Key: name}
	}

	for name, r := range routes {
		all[name] = read(owner, name, services[name], r)
	}

	return all, nil
}

// list returns all entities of an owner by their names. It follows the offset of each page, and not
// its link, which could lead elsewhere.
func (g *Gateway) list(ctx context.Context, path, owner string) (map[string]*entity, error) {
	all := map[string]*entity{}
	query := url.Values{"size": {"1000"}, "tags": {tag(owner)}}
	for range admin.MaxPages {
		var page struct {
			Data   []*entity `json:"data"`
			Offset string    `json:"offset"`
		}
		found, err := g.client.Do(ctx, http.MethodGet, path+"?"+query.Encode(), nil, &page)
		if err == nil && !found {
			err = &admin.StatusError{Method: http.MethodGet, Path: path, Status: http.StatusNotFound}
		}

		if err != nil {
			return nil, err
		}

		for _, e := range page.Data {
			if e != nil && e.name != "" && e.tagged(owner) {
				all[e.name] = e
			}
		}

		if page.Offset == "" {
			return all, nil
		}

		query.Set("offset", page.Offset)
	}

	return nil, admin.ErrTooMany
}
