// Package apisix is a deploy.Gateway on the admin interface of Apache APISIX 3.
//
//	gateway, err := apisix.New(apisix.Config{AdminURL: "http://127.0.0.1:9180", AdminKey: key})
//	if err != nil { ... }
//	cfg := hub.Config{Gateway: gateway, GatewayURL: "https://agents.example.com"}
//
// A route is one route of APISIX, whose id is the key of the deployment. The id of a key with more
// than 64 characters is its beginning and a hash. The labels agenthost-owner and agenthost-key mark
// the routes of the hub. Others are neither changed nor deleted.
package apisix

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/gateway/internal/admin"
	"github.com/seed93082962/agenthost/internal/jsonlimit"
)

// Config configures [New].
type Config struct {
	// AdminURL is the base URL of the admin interface, without /apisix/admin. Required.
	AdminURL string

	// AdminKey is sent in the header X-API-KEY. Defaults to none.
	AdminKey string
}

// Gateway manages the routes of deployments. It is safe for concurrent use.
type Gateway struct{ client *admin.Client }

var _ deploy.Gateway = (*Gateway)(nil)

// New returns a Gateway. It does not call APISIX.
func New(cfg Config) (*Gateway, error) {
	client, err := admin.New(cfg.AdminURL, "X-API-KEY", cfg.AdminKey)
	if err != nil {
		return nil, err
	}

	return &Gateway{client}, nil
}

// CloseIdleConnections closes the connections to the admin interface that no call uses.
func (g *Gateway) CloseIdleConnections() { g.client.CloseIdleConnections() }

// Put implements deploy.Gateway.
func (g *Gateway) Put(ctx context.Context, owner string, r deploy.Route) error {
	want, err := routeOf(owner, r)
	if err != nil {
		return err
	}

	old, err := g.get(ctx, r.Key)
	switch {
	case err != nil:
		return err
	case old == nil:
	case !old.owned(owner, r.Key):
		return deploy.ErrForeignRoute
	case old.equal(want):
		return nil
	}

	path := routes + "/" + id(r.Key)
	found, err := g.client.Do(ctx, http.MethodPut, path, want, nil)
	if err == nil && !found {
		err = &admin.StatusError{Method: http.MethodPut, Path: path, Status: http.StatusNotFound}
	}

	return err
}

const routes = "/apisix/admin/routes"

// get returns the route of a key, or nil if there is none.
func (g *Gateway) get(ctx context.Context, key string) (*entity, error) {
	e := &entity{}
	found, err := g.client.Do(ctx, http.MethodGet, routes+"/"+url.PathEscape(id(key)), nil, e)
	if err != nil || !found {
		return nil, err
	}

	return e, nil
}

// Remove implements deploy.Gateway.
func (g *Gateway) Remove(ctx context.Context, owner, key string) error {
	old, err := g.get(ctx, key)
	if err != nil || old == nil || !old.owned(owner, key) {
		return err
	}

	_, err = g.client.Do(ctx, http.MethodDelete, routes+"/"+url.PathEscape(id(key)), nil, nil)
	return err
}

// pageSize bounds a response, in which a route of another owner may have many KiB. The interface
// permits 10 to 500.
const pageSize = 100

// Routes implements deploy.Gateway. It reads the routes of all owners, because the filters of the
// interface differ between versions.
func (g *Gateway) Routes(ctx context.Context, owner string) (map[string]deploy.Route, error) {
	all := map[string]deploy.Route{}
	for page := 1; page <= admin.MaxPages; page++ {
		var found struct {
			List entities `json:"list"`
		}
		path := fmt.Sprintf("%s?page=%d&page_size=%d", routes, page, pageSize)
		ok, err := g.client.Do(ctx, http.MethodGet, path, nil, &found)
		if err == nil && !ok {
			err = &admin.StatusError{Method: http.MethodGet, Path: routes, Status: http.StatusNotFound}
		}

		if err != nil {
			return nil, err
		}

		for _, e := range found.List {
			key := e.labels[labelKey]
			if e.owned(owner, key) && e.id == id(key) {
				all[key] = e.read(owner, key)
			}
		}

		if len(found.List) < pageSize {
			return all, nil
		}
	}

	return nil, admin.ErrTooMany
}

// entities is a list, which is an empty object if it is empty in some versions.
type entities []entity

// UnmarshalJSON implements json.Unmarshaler.
func (l *entities) UnmarshalJSON(text []byte) error {
	if string(text) == "{}" {
		return nil
	}

	return jsonlimit.Unmarshal(text, (*[]entity)(l))
}

// maxID bounds the ids of APISIX.
const maxID = 64

// id returns the id of the route of a key. A key has no dot, so that no other key has the id of a
// longer one.
func id(key string) string {
	if len(key) <= maxID {
		return key
	}

	sum := sha256.Sum256([]byte(key))
	hash := "." + hex.EncodeToString(sum[:16])
	return key[:maxID-len(hash)] + hash
}
