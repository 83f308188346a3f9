package external

import "github.com/seed93082962/agenthost/auditlog"

// The audit actions of this package.
var (
	actionUpsertClient = auditlog.Define[clientDetail]("auth.upsert_tenant_client")
	actionDeleteClient = auditlog.Define[deleteClientDetail]("auth.delete_tenant_client")
)

const targetOrg = "organization"

type (
	clientDetail struct {
		Created       bool                     `json:"created"`
		ClientID      *auditlog.Change[string] `json:"clientId,omitempty"`
		Issuer        *auditlog.Change[string] `json:"issuer,omitempty"`
		Provider      *auditlog.Change[string] `json:"provider,omitempty"`
		IsDefault     *auditlog.Change[bool]   `json:"isDefault,omitempty"`
		SecretChanged bool                     `json:"secretChanged"`
		CertChanged   bool                     `json:"certChanged"`

		RequiredClaim       *auditlog.Change[string] `json:"requiredClaim,omitempty"` // as JSON
		RoleClaim           *auditlog.Change[string] `json:"roleClaim,omitempty"`     // as JSON
		LogoutRevokesTokens *auditlog.Change[bool]   `json:"logoutRevokesTokens,omitempty"`
		Adopted             bool                     `json:"adopted,omitempty"` // the data belonged to another issuer or client
	}
	deleteClientDetail struct {
		ClientID string `json:"clientId"`
		Issuer   string `json:"issuer"`
		accessDetail
	}
	// accessDetail is what ended with a client.
	accessDetail struct {
		SessionsEnded    int `json:"sessionsEnded"`
		TokensRevoked    int `json:"tokensRevoked"`
		DeploymentsEnded int `json:"deploymentsEnded"`
	}
)
