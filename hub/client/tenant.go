package client

import (
	"context"
	"iter"
	"net/http"
	"time"

	"github.com/seed93082962/agenthost/rbac"
)

// TenantClients registers identity providers of organizations. It requires [Config.OpsKey].
type TenantClients struct{ c *Client }

const tenantsPath = "/api/v1/ops/tenant-clients"

// List yields the registered organizations.
func (t TenantClients) List(ctx context.Context) iter.Seq2[TenantClient, error] {
	return list[TenantClient](ctx, t.c, tenantsPath, nil)
}

// Set registers an organization, or changes it.
func (t TenantClients) Set(ctx context.Context, req TenantClientRequest) (TenantClient, error) {
	return send[TenantClient](ctx, t.c, http.MethodPost, tenantsPath, req)
}

// Delete deletes an organization. One that does not exist is not an error.
func (t TenantClients) Delete(ctx context.Context, org string) error {
	return done(ctx, t.c, http.MethodDelete, tenantsPath+"/"+segment(org), nil)
}

// RequiredClaim is a claim that users must have at each login with one of the values.
type RequiredClaim struct {
	Name   string   `json:"name"`
	Values []string `json:"values,omitzero"`
}

// RoleClaim is a claim that decides the role at each login.
type RoleClaim struct {
	Name string               `json:"name"`
	Map  map[string]rbac.Role `json:"map,omitzero"`
}

// TenantClient is the identity provider application of an organization.
type TenantClient struct {
	Org       string `json:"org"`
	ClientID  string `json:"clientId"`
	Issuer    string `json:"issuer"`
	Provider  string `json:"provider"`
	IsDefault bool   `json:"isDefault"`
	HasSecret bool   `json:"hasSecret"`
	HasCert   bool   `json:"hasCert"`
	// Absent if there is none.
	RequiredClaim *RequiredClaim `json:"requiredClaim,omitempty"`
	// Absent if there is none.
	RoleClaim *RoleClaim `json:"roleClaim,omitempty"`
	// Absent if there is none.
	GroupsClaim string `json:"groupsClaim,omitempty"`
	// Absent if it is false.
	LogoutRevokesTokens bool      `json:"logoutRevokesTokens,omitempty"`
	CreatedAt           time.Time `json:"createdAt"`
	UpdatedAt           time.Time `json:"updatedAt"`
}

// TenantClientRequest registers an application for an organization.
type TenantClientRequest struct {
	Org          string `json:"org"`
	ClientID     string `json:"clientId"`
	ClientSecret string `json:"clientSecret,omitempty"`
	// A certificate or a public key in PEM, instead of the published keys.
	Cert string `json:"cert,omitempty"`
	// An https URL. Defaults to IDP_ISSUER.
	Issuer string `json:"issuer,omitempty"`
	// Defaults to oidc. With casdoor, the claim owner must be the organization.
	Provider string `json:"provider,omitempty"`
	// true makes it the default instead of another; false has no effect.
	IsDefault *bool `json:"isDefault,omitempty"`
	// A claim that users must have at each login with one of the values, such as a group or a
	// domain. An empty name removes it.
	RequiredClaim *RequiredClaim `json:"requiredClaim,omitempty"`
	// A claim that decides the role at each login; a user without one of the values is a member.
	// An empty name removes it.
	RoleClaim *RoleClaim `json:"roleClaim,omitempty"`
	// The name of a claim with the groups of a user, a text or a list of texts. They are stored at
	// each login, at most 256 with 8 KiB. An empty name removes it.
	GroupsClaim string `json:"groupsClaim,omitempty"`
	// A back-channel logout revokes the CLI tokens of the user too.
	LogoutRevokesTokens *bool `json:"logoutRevokesTokens,omitempty"`
	// The client may take over data that belong to another issuer or client.
	Adopt *bool `json:"adopt,omitempty"`
}
