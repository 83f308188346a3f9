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
	"reflect"
	"slices"
	"strings"
	"time"

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

// Put implements deploy.Gateway. The service is written first: a route that exists then leads to
// the next target.
func (g *Gateway) Put(ctx context.Context, owner string, r deploy.Route) error {
	wantService, err := serviceOf(owner, r)
	if err != nil {
		return err
	}
	s, err := get[service](ctx, g, "/services/", r.Key)
	if err != nil {
		return err
	}
	old, err := get[route](ctx, g, "/routes/", r.Key)
	if err != nil {
		return err
	}
	if s != nil && !tagged(s.Tags, owner) || old != nil && !tagged(old.Tags, owner) {
		return deploy.ErrForeignRoute
	}
	if s == nil || !s.equal(wantService) {
		s = &service{}
		if err := g.put(ctx, "/services/"+r.Key, wantService, s); err != nil {
			return err
		}
	}
	if s.ID == "" {
		return errors.New("the gateway returned a service without an id")
	}
	want := routeOf(owner, r, s.ID)
	if old != nil && old.equal(want) {
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
func get[T any](ctx context.Context, g *Gateway, kind, name string) (*T, error) {
	e := new(T)
	found, err := g.client.Do(ctx, http.MethodGet, kind+url.PathEscape(name), nil, e)
	if err != nil || !found {
		return nil, err
	}
	return e, nil
}

// Remove implements deploy.Gateway. The route is deleted first: a service that is in use cannot be
// deleted.
func (g *Gateway) Remove(ctx context.Context, owner, key string) error {
	r, err := get[route](ctx, g, "/routes/", key)
	if err == nil && r != nil && tagged(r.Tags, owner) {
		_, err = g.client.Do(ctx, http.MethodDelete, "/routes/"+url.PathEscape(key), nil, nil)
	}
	if err != nil {
		return err
	}
	s, err := get[service](ctx, g, "/services/", key)
	if err != nil || s == nil || !tagged(s.Tags, owner) {
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
	services, err := list(ctx, g, "/services", owner, func(s service) string { return s.Name })
	if err != nil {
		return nil, err
	}
	routes, err := list(ctx, g, "/routes", owner, func(r route) string { return r.Name })
	if err != nil {
		return nil, err
	}
	all := make(map[string]deploy.Route, len(routes))
	for name := range services { // without a route, unless it follows
		all[name] = deploy.Route{Key: name}
	}
	for name, r := range routes {
		s := services[name]
		found := read(name, s, r)
		if want, err := serviceOf(owner, found); err != nil || !s.equal(want) || !r.equal(routeOf(owner, found, s.ID)) {
			found = deploy.Route{Key: name}
		}
		all[name] = found
	}
	return all, nil
}

// list returns all entities of an owner by their names. It follows the offset of each page, and not
// its link, which could lead elsewhere.
func list[T any](ctx context.Context, g *Gateway, path, owner string, name func(T) string) (map[string]T, error) {
	all := map[string]T{}
	query := url.Values{"size": {"1000"}, "tags": {tag(owner)}}
	for range admin.MaxPages {
		var page struct {
			Data   []T    `json:"data"`
			Offset string `json:"offset"`
		}
		found, err := g.client.Do(ctx, http.MethodGet, path+"?"+query.Encode(), nil, &page)
		if err == nil && !found {
			err = &admin.StatusError{Method: http.MethodGet, Path: path, Status: http.StatusNotFound}
		}
		if err != nil {
			return nil, err
		}
		for _, e := range page.Data {
			if name(e) != "" {
				all[name(e)] = e
			}
		}
		if page.Offset == "" {
			return all, nil
		}
		query.Set("offset", page.Offset)
	}
	return nil, admin.ErrTooMany
}

func tag(owner string) string { return "agenthost-" + owner }

func tagged(tags []string, owner string) bool { return slices.Contains(tags, tag(owner)) }

// read returns the route that two entities may have been made of.
func read(name string, s service, r route) deploy.Route {
	found := deploy.Route{
		Key: name, Target: admin.Target{Scheme: s.Protocol, Host: s.Host, Port: s.Port}.URL(),
		Timeout: time.Duration(s.ReadTimeout) * time.Millisecond,
	}
	if len(r.Hosts) == 1 {
		found.Host = r.Hosts[0]
	}
	for _, path := range r.Paths {
		if strings.HasPrefix(path, "/") {
			found.Path = strings.TrimSuffix(path, "/")
		}
	}
	return found
}

// equal reports whether an entity has the fields of another one.
func (s service) equal(want service) bool {
	s.ID, want.ID = "", ""
	if s.Enabled != nil && *s.Enabled { // the default
		s.Enabled = nil
	}
	return reflect.DeepEqual(s, want)
}

func (r route) equal(want route) bool {
	r.ID, want.ID = "", ""
	for _, list := range []*[]string{&r.Paths, &r.Protocols, &want.Paths, &want.Protocols} { // they are sets
		*list = slices.Sorted(slices.Values(*list))
	}
	return reflect.DeepEqual(r, want)
}

func milliseconds(d time.Duration) int64 { return max(d.Milliseconds(), 1) }
