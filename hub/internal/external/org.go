package external

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/internal/store"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/user"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
)

// Check returns an error if a required field is missing or invalid.
func (g GlobalClient) Check() error {
	if g.Issuer == "" || g.ClientID == "" || g.ClientSecret == "" {
		return errors.New("fields Issuer, ClientID and ClientSecret are required")
	}
	if err := checkIssuer(g.Issuer); err != nil {
		return fmt.Errorf("field Issuer %w", err)
	}
	if g.Cert != "" {
		if _, err := parseCert(g.Cert); err != nil {
			return fmt.Errorf("field Cert %w", err)
		}
	}
	if err := checkGroupsClaim(g.GroupsClaim); err != nil {
		return fmt.Errorf("field GroupsClaim %w", err)
	}
	return nil
}

// globalClient returns the client of Config.Global, which has no row.
func (s *Service) globalClient() (*client, error) {
	g := s.cfg.Global
	c := &client{global: true, TenantClient: TenantClient{
		Org: api.DefaultTenant, Provider: providerOIDC, Issuer: g.Issuer, ClientID: g.ClientID, GroupsClaim: g.GroupsClaim,
	}}
	c.secretEnc = s.store.Keyring.Seal([]byte(g.ClientSecret), sealedSecret.Place(c.Org, c.Issuer))
	if g.Cert != "" {
		c.certEnc = s.store.Keyring.Seal([]byte(g.Cert), sealedCert.Place(c.Org))
	}
	return c, g.Check()
}

// clientFor returns the client that an organization signs in with. Without an organization, it is
// that of the default one, or else the global client. An organization that is not registered is
// 404: there is no fallback.
func (s *Service) clientFor(ctx context.Context, org string) (client, error) {
	var (
		c   client
		err error
	)
	switch {
	case org == "":
		c, err = defaultClient(ctx, s.store.Read())
	case orgForm.MatchString(org):
		c, err = clientOf(ctx, s.store.Read(), org)
	default:
		err = errNoClient
	}
	if errors.Is(err, errNoClient) && s.global != nil && (org == "" || org == s.global.Org) {
		c, err = s.unregistered(ctx, s.store.Read())
	}
	if errors.Is(err, errNoClient) {
		return c, wire.NotFound.New("The organization is not registered.")
	}
	return c, err
}

// unregistered returns the global client, or errNoClient if its organization was registered with
// another issuer before: the data belong to the users of that issuer.
func (s *Service) unregistered(ctx context.Context, q db.Querier) (client, error) {
	former, err := ownerOf(ctx, q, s.global.Org)
	if err == nil && former.issuer != "" && former.issuer != s.global.Issuer {
		err = errNoClient
	}
	return *s.global, err
}

// ResolveOrg returns the organization that a request names, which need not be registered. For "" it
// is the registered default one, or fails with wire.InvalidRequest.
func (s *Service) ResolveOrg(ctx context.Context, org string) (string, error) {
	if org != "" {
		faults := api.Fields{}
		checkOrg(faults, org)
		return org, faults.Err()
	}
	c, err := defaultClient(ctx, s.store.Read())
	if errors.Is(err, errNoClient) {
		return "", wire.InvalidRequest.New("No default organization is registered: name the organization as org.")
	}
	return c.Org, err
}

// CheckOrg returns the organization that a login without or with this organization is for, and its
// issuer, or wire.NotFound.
func (s *Service) CheckOrg(ctx context.Context, org string) (name, issuer string, err error) {
	c, err := s.clientFor(ctx, org)
	return c.Org, c.Issuer, err
}

// open returns a secret of a client.
func (s *Service) open(c client, sealed, place []byte) (string, error) {
	plain, err := s.store.Keyring.Open(sealed, place)
	if err != nil {
		const message = "The login of the organization must be configured again."
		return "", &wire.Error{Code: wire.Unavailable, Message: message, Cause: fmt.Errorf("client of %s: %w", c.Org, err)}
	}
	return string(plain), nil
}

// DeleteClient deletes the client of an organization, without effect if there is none. It fails
// with wire.DefaultTenantInUse if it is the default and others remain. The sessions and CLI tokens
// of the organization end, and its deployments stop and get new keys. Its members and data remain.
func (s *Service) DeleteClient(ctx context.Context, from api.Caller, org string) error {
	return s.store.Change(ctx, store.Change{}, func(tx *store.Tx) error {
		if err := lockClients(ctx, tx); err != nil {
			return err
		}
		c, err := lockClient(ctx, tx, org)
		if errors.Is(err, errNoClient) {
			return store.ErrUnchanged
		}
		if err != nil {
			return err
		}
		if c.IsDefault {
			others, err := otherClients(ctx, tx, org)
			if err != nil {
				return err
			}
			if others {
				return wire.DefaultTenantInUse
			}
		}
		if err := deleteClient(ctx, tx, org); err != nil {
			return err
		}
		detail := deleteClientDetail{ClientID: c.ClientID, Issuer: c.Issuer}
		if detail.accessDetail, err = s.endAccess(ctx, tx, org, "", true); err != nil {
			return err
		}
		tx.Record(actionDeleteClient.Record(clientEvent(from, c), detail))
		return nil
	})
}

// errForeignData rejects a client that would get the data of another one.
var errForeignData = wire.Conflict.New(`The organization has data that belong to another identity provider or client. ` +
	`To give these data to the users of this client, repeat the request with "adopt": true; otherwise choose another name.`)

// adopt reports whether the client takes over data that belong to another issuer, or after a
// deletion to another client. The access of the users of other issuers ends, and the keys of
// deployments are replaced.
func (s *Service) adopt(ctx context.Context, tx *store.Tx, in ClientInput, before, after client) (bool, error) {
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

// endAccess ends the sessions and CLI tokens of the users of an organization, except those of an
// issuer, and its unfinished logins. It replaces the keys of its deployments, and stops them if
// stop is true.
func (s *Service) endAccess(ctx context.Context, tx *store.Tx, org, keepIssuer string, stop bool) (d accessDetail, err error) {
	if err := deleteLogins(ctx, tx, org); err != nil || s.cfg.Sessions == nil {
		return d, err
	}
	ended, err := s.cfg.Sessions.EndOrganization(ctx, tx, org, keepIssuer)
	if err != nil {
		return d, err
	}
	d.SessionsEnded, d.TokensRevoked = ended.Sessions, ended.Tokens
	if s.cfg.Logins || org != api.DefaultTenant { // in built-in mode, that tenant belongs to users with passwords
		d.DeploymentsEnded, err = s.cfg.EndDeployments(ctx, tx, org, stop)
	}
	return d, err
}

// UpsertClient registers the client of an organization or changes it, and reports whether it is
// new. The first one is the default. It fails with wire.Conflict if the organization has data that
// belong to another issuer, unless Adopt is true: the access of the users of that issuer then ends.
func (s *Service) UpsertClient(ctx context.Context, from api.Caller, in ClientInput) (view TenantClient, created bool, err error) {
	if err := in.validate(); err != nil {
		return view, false, err
	}
	var after client
	err = s.store.Change(ctx, store.Change{}, func(tx *store.Tx) error {
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
			return store.ErrUnchanged
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

// apply returns the client with the input applied.
func (s *Service) apply(tx *store.Tx, in ClientInput, before client, created bool) (after client, d clientDetail, err error) {
	after = before
	if created {
		after.TenantClient = TenantClient{Org: in.Org, Provider: providerOIDC, Issuer: s.cfg.Global.Issuer, CreatedAt: wire.Time{Time: tx.Now}}
	}
	after.ClientID, after.UpdatedAt = in.ClientID, wire.Time{Time: tx.Now}
	if in.Issuer != nil {
		after.Issuer = *in.Issuer
	}
	if in.Provider != nil {
		after.Provider = *in.Provider
	}
	if after.Issuer == "" {
		return after, d, api.Fields{"issuer": "is required, because the hub has no global client"}
	}
	moved := after.Issuer != before.Issuer || after.Provider != before.Provider
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

func (s *Service) applyCert(cert string, c *client) (changed bool) {
	if cert == "" {
		changed = c.certEnc != nil
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

// Clients returns a page of the registered organizations, by name.
func (s *Service) Clients(ctx context.Context, page api.Page) (list api.List[TenantClient], err error) {
	clients, total, err := clientsOf(ctx, s.store.Read(), page)
	list.Total = total
	for _, c := range clients {
		list.Items = append(list.Items, c.view())
	}
	return list, err
}

// opsUser is the user of audit entries of the operations interface.
const opsUser = "ops"

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

// isOpsKey compares in constant time.
func (s *Service) isOpsKey(key string) bool {
	given, want := sha256.Sum256([]byte(key)), sha256.Sum256([]byte(s.cfg.OpsKey))
	return s.cfg.OpsKey != "" && subtle.ConstantTimeCompare(given[:], want[:]) == 1
}

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
