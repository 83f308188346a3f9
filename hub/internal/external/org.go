package external

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/internal/store"

	"github.com/seed93082962/agenthost/hub/internal/api"
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
	c := &client{global: true, TenantClient: wire.TenantClient{
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
func (s *Service) CheckOrg(ctx context.Context, org string) (string, string, error) {
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
// with code.DefaultTenantInUse if it is the default and others remain. The sessions and CLI tokens
// of the organization end, and its deployments stop and get new keys. Its members and data remain.
func (s *Service) DeleteClient(ctx context.Context, from api.Caller, org string) error {
	return s.store.Change(ctx, store.Change{}, func(tx *store.Tx) error {
		if err := lockClients(ctx, tx); err != nil {
			return err
		}

		c, err := lockClient(ctx, tx, org)
		if errors.Is(err, errNoClient) {
			return tx.Unchanged()
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
				return code.DefaultTenantInUse
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

// endAccess ends the sessions and CLI tokens of the users of an organization, except those of an
// issuer, and its unfinished logins. It replaces the keys of its deployments, and stops them if
// stop is true.
func (s *Service) endAccess(ctx context.Context, tx *store.Tx, org, keepIssuer string, stop bool) (accessDetail, error) {
	if err := deleteLogins(ctx, tx, org); err != nil || s.cfg.Sessions == nil {
		return accessDetail{}, err
	}

	ended, err := s.cfg.Sessions.EndOrganization(ctx, tx, org, keepIssuer)
	if err != nil {
		return accessDetail{}, err
	}

	var d accessDetail
	d.SessionsEnded, d.TokensRevoked = ended.Sessions, ended.Tokens
	if s.cfg.Logins || org != api.DefaultTenant { // in built-in mode, that tenant belongs to users with passwords
		d.DeploymentsEnded, err = s.cfg.EndDeployments(ctx, tx, org, stop)
	}

	return d, err
}

// Clients returns a page of the registered organizations, by name.
func (s *Service) Clients(ctx context.Context, page api.Page) (api.List[wire.TenantClient], error) {
	clients, total, err := clientsOf(ctx, s.store.Read(), page)
	var list api.List[wire.TenantClient]
	list.Total = total
	for _, c := range clients {
		list.Items = append(list.Items, c.view())
	}

	return list, err
}

// opsUser is the user of audit entries of the operations interface.
const opsUser = "ops"

// isOpsKey compares in constant time.
func (s *Service) isOpsKey(key string) bool {
	given, want := sha256.Sum256([]byte(key)), sha256.Sum256([]byte(s.cfg.OpsKey))
	return s.cfg.OpsKey != "" && subtle.ConstantTimeCompare(given[:], want[:]) == 1
}
