package wire

import "github.com/seed93082962/agenthost/rbac"

// RequiredClaim is a claim that users must have at each login with one of the values, such as a
// group or a domain. A claim may be a text, a truth value or a list of texts. Names and values are
// compared exactly.
type RequiredClaim struct {
	Name   string   `json:"name"`
	Values []string `json:"values,omitempty"`
}

// RoleClaim is a claim that decides the role of a user at each login, by its values. The highest
// role counts; a user without one of the values is a member.
type RoleClaim struct {
	Name string               `json:"name"`
	Map  map[string]rbac.Role `json:"map,omitempty"`
}

// TenantClient is the registration of the hub with the identity provider of an organization.
type TenantClient struct {
	Org       string `json:"org"`
	ClientID  string `json:"clientId"`
	Issuer    string `json:"issuer"`
	Provider  string `json:"provider"`
	IsDefault bool   `json:"isDefault"`
	HasSecret bool   `json:"hasSecret"`
	HasCert   bool   `json:"hasCert"`

	RequiredClaim       *RequiredClaim `json:"requiredClaim,omitempty"`
	RoleClaim           *RoleClaim     `json:"roleClaim,omitempty"`
	GroupsClaim         string         `json:"groupsClaim,omitempty"`
	LogoutRevokesTokens bool           `json:"logoutRevokesTokens,omitempty"`

	CreatedAt Time `json:"createdAt"`
	UpdatedAt Time `json:"updatedAt"`
}

// TenantClientRequest registers a client, or changes it. A nil field keeps the stored value.
// ClientSecret is required for a new client, and if the issuer or the provider changes: the stored
// secret must not be sent to another server.
type TenantClientRequest struct {
	Org          string  `json:"org"`
	ClientID     string  `json:"clientId"`
	ClientSecret *string `json:"clientSecret,omitempty"`
	// A certificate or a public key in PEM, instead of the published keys. "" removes it.
	Cert *string `json:"cert,omitempty"`
	// An https URL. Defaults to that of the global client.
	Issuer *string `json:"issuer,omitempty"`
	// Defaults to oidc. With casdoor, the claim owner must be the organization.
	Provider *string `json:"provider,omitempty"`
	// True makes it the default instead of another; false has no effect.
	IsDefault *bool `json:"isDefault,omitempty"`

	// An empty name removes the rule.
	RequiredClaim *RequiredClaim `json:"requiredClaim,omitempty"`
	// An empty name removes the rule.
	RoleClaim *RoleClaim `json:"roleClaim,omitempty"`
	// The name of a claim with the groups of a user, a text or a list of texts. They are stored at
	// each login, at most 256 with 8 KiB. An empty name removes it.
	GroupsClaim *string `json:"groupsClaim,omitempty"`
	// A back-channel logout revokes the CLI tokens of the user too.
	LogoutRevokesTokens *bool `json:"logoutRevokesTokens,omitempty"`

	// The client may take over data that belong to another issuer or client.
	Adopt bool `json:"adopt,omitempty"`
}
