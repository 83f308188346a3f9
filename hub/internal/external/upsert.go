package external

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/internal/store"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/user"
	"github.com/seed93082962/agenthost/hub/wire"
)

// errForeignData rejects a client that would get the data of another one.
var errForeignData = wire.Conflict.New(`The organization has data that belong to another identity provider or client. ` +
	`To give these data to the users of this client, repeat the request with "adopt": true; otherwise choose another name.`)

// adopt reports whether the client takes over data that belong to another issuer, or after a
// deletion to another client. The access of the users of other issuers ends, and the keys of
// deployments are replaced.
func (s *Service) adopt(ctx context.Context, tx *store.Tx, in wire.TenantClientRequest, before, after client) (bool, error) {
	if before.Issuer == after.Issuer {
		return false, nil
	}

	former, err := ownerOf(ctx, tx, in.Org)
	if err != nil {
		return false, err
	}

	if former == (owner{}) && s.global != nil && s.global.Org == in.Org {
		former = owner{s.global.Issuer, s.global.ClientID}
	}

	if before.Issuer == "" && former == (owner{after.Issuer, after.ClientID}) {
		return false, nil
	}

	has, err := s.cfg.HasData(ctx, tx, in.Org)
	if err == nil && !has {
		has, err = user.HasUsers(ctx, tx, in.Org)
	}

	if err != nil || !has {
		return false, err
	}

	if !in.Adopt {
		return false, errForeignData
	}

	_, err = s.endAccess(ctx, tx, in.Org, after.Issuer, false)
	return true, err
}

// UpsertClient registers the client of an organization or changes it, and reports whether it is
// new. The first one is the default. It fails with wire.Conflict if the organization has data that
// belong to another issuer, unless Adopt is true: the access of the users of that issuer then ends.
func (s *Service) UpsertClient(ctx context.Context, from api.Caller, in wire.TenantClientRequest) (wire.TenantClient, bool, error) {
	if err := validate(in); err != nil {
		return wire.TenantClient{}, false, err
	}

	var after client
	var created bool
	err := s.store.Change(ctx, store.Change{}, func(tx *store.Tx) error {
		if err := lockClients(ctx, tx); err != nil {
			return err
		}

		before, err := lockClient(ctx, tx, in.Org)
		if created = errors.Is(err, errNoClient); err != nil && !created {
			return err
		}

		former, err := defaultClient(ctx, tx)
		if err != nil && !errors.Is(err, errNoClient) {
			return err
		}

		var detail clientDetail
		if after, detail, err = s.apply(tx, in, before, created); err != nil {
			return err
		}

		after.IsDefault = former.Org == "" || former.Org == in.Org || in.IsDefault != nil && *in.IsDefault
		detail.IsDefault = auditlog.Diff(before.IsDefault, after.IsDefault)
		if detail == (clientDetail{}) { // nothing changes
			after = before
			return tx.Unchanged()
		}

		if detail.Adopted, err = s.adopt(ctx, tx, in, before, after); err != nil {
			return err
		}

		tx.Record(actionUpsertClient.Record(clientEvent(from, after), detail))
		if after.IsDefault && former.Org != "" && former.Org != after.Org {
			if err := clearDefault(ctx, tx, former.Org); err != nil {
				return err
			}

			tx.Record(actionUpsertClient.Record(clientEvent(from, former), clientDetail{IsDefault: auditlog.Diff(true, false)}))
		}

		if err := putClient(ctx, tx, after); err != nil {
			return err
		}

		return putOwner(ctx, tx, after)
	})
	return after.view(), created, err
}

// apply returns the client with the input applied, and what the audit log says of it.
func (s *Service) apply(tx *store.Tx, in wire.TenantClientRequest, before client, created bool) (client, clientDetail, error) {
	after := before
	if created {
		after.TenantClient = wire.TenantClient{Org: in.Org, Provider: providerOIDC, Issuer: s.cfg.Global.Issuer, CreatedAt: wire.Time{Time: tx.Now}}
	}

	after.ClientID, after.UpdatedAt = in.ClientID, wire.Time{Time: tx.Now}
	if in.Issuer != nil {
		after.Issuer = *in.Issuer
	}

	if in.Provider != nil {
		after.Provider = *in.Provider
	}

	if after.Issuer == "" {
		return after, clientDetail{}, api.Fields{"issuer": "is required, because the hub has no global client"}
	}

	moved := after.Issuer != before.Issuer || after.Provider != before.Provider
	var d clientDetail
	switch {
	case in.ClientSecret != nil:
		old, err := s.store.Keyring.Open(before.secretEnc, sealedSecret.Place(in.Org, after.Issuer))
		if err != nil || subtle.ConstantTimeCompare(old, []byte(*in.ClientSecret)) == 0 { // also one that cannot be opened
			after.secretEnc = s.store.Keyring.Seal([]byte(*in.ClientSecret), sealedSecret.Place(in.Org, after.Issuer))
			d.SecretChanged = true
		}
	case created:
		return after, d, api.Fields{"clientSecret": "is required for a new client"}
	case moved:
		return after, d, api.Fields{"clientSecret": "is required if issuer or provider changes"}
	}

	if in.Cert != nil {
		d.CertChanged = s.applyCert(*in.Cert, &after)
	}

	if r := in.RequiredClaim; r != nil {
		after.RequiredClaim = named(r, r.Name)
	}

	if r := in.RoleClaim; r != nil {
		after.RoleClaim = named(r, r.Name)
	}

	if in.GroupsClaim != nil {
		after.GroupsClaim = *in.GroupsClaim
	}

	if in.LogoutRevokesTokens != nil {
		after.LogoutRevokesTokens = *in.LogoutRevokesTokens
	}

	d.Created = created
	d.ClientID = auditlog.Diff(before.ClientID, after.ClientID)
	d.Issuer = auditlog.Diff(before.Issuer, after.Issuer)
	d.Provider = auditlog.Diff(before.Provider, after.Provider)
	d.RequiredClaim = auditlog.Diff(ruleText(before.RequiredClaim), ruleText(after.RequiredClaim))
	d.RoleClaim = auditlog.Diff(ruleText(before.RoleClaim), ruleText(after.RoleClaim))
	d.GroupsClaim = auditlog.Diff(before.GroupsClaim, after.GroupsClaim)
	d.LogoutRevokesTokens = auditlog.Diff(before.LogoutRevokesTokens, after.LogoutRevokesTokens)
	return after, d, nil
}

func (s *Service) applyCert(cert string, c *client) bool {
	if cert == "" {
		changed := c.certEnc != nil
		c.certEnc = nil
		return changed
	}

	if c.certEnc != nil {
		if old, err := s.store.Keyring.Open(c.certEnc, sealedCert.Place(c.Org)); err == nil && string(old) == cert {
			return false
		}
	}

	c.certEnc = s.store.Keyring.Seal([]byte(cert), sealedCert.Place(c.Org))
	return true
}

func clientEvent(from api.Caller, c client) auditlog.Event {
	e := from.Event().WithTarget("organization", c.Org, c.Org)
	e.TenantID, e.UserName = c.Org, cmp.Or(e.UserName, opsUser)
	return e
}

// Sealed returns the columns of the secrets of clients.
func Sealed() []store.Sealed { return []store.Sealed{sealedSecret, sealedCert} }

const registerAgain = "register the client of the organization with its secret and certificate again"

var (
	sealedSecret = store.Sealed{Table: "tenant_clients", Column: "client_secret_enc", ID: "org", Bound: []string{"issuer"}, Unbound: true, Advice: registerAgain}
	sealedCert   = store.Sealed{Table: "tenant_clients", Column: "cert_enc", ID: "org", Advice: registerAgain}
)

// The audit actions of this package.
var (
	actionUpsertClient = auditlog.Define[clientDetail]("auth.upsert_tenant_client")
	actionDeleteClient = auditlog.Define[deleteClientDetail]("auth.delete_tenant_client")
)

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
		GroupsClaim         *auditlog.Change[string] `json:"groupsClaim,omitempty"`
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
