package client

import (
	"context"
	"iter"
	"net/http"

	"github.com/seed93082962/agenthost/hub/wire"
)

// TenantClients registers identity providers of organizations. It requires [Config.OpsKey].
type TenantClients struct{ c *Client }

const tenantsPath = "/api/v1/ops/tenant-clients"

// List yields the registered organizations.
func (t TenantClients) List(ctx context.Context) iter.Seq2[wire.TenantClient, error] {
	return list[wire.TenantClient](ctx, t.c, tenantsPath, nil)
}

// Set registers an organization, or changes it.
func (t TenantClients) Set(ctx context.Context, req wire.TenantClientRequest) (wire.TenantClient, error) {
	return send[wire.TenantClient](ctx, t.c, http.MethodPost, tenantsPath, req)
}

// Delete deletes an organization. One that does not exist is not an error.
func (t TenantClients) Delete(ctx context.Context, org string) error {
	return done(ctx, t.c, http.MethodDelete, tenantsPath+"/"+segment(org), nil)
}
