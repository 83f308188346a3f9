package external

import (
	"context"
	"crypto"
	"errors"
	"fmt"

	"github.com/seed93082962/agenthost/hub/store"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/hub/user"
)

// Check returns an error if a required field is missing or invalid.
func (g GlobalClient) Check() error {
	_, err := g.client()
	return err
}

// client returns the global client.
func (g GlobalClient) client() (*client, error) {
	if g.Issuer == "" || g.ClientID == "" || g.ClientSecret == "" {
		return nil, errors.New("fields Issuer, ClientID and ClientSecret are required")
	}
	if err := checkIssuer(g.Issuer); err != nil {
		return nil, fmt.Errorf("field Issuer %w", err)
	}
	c := &client{Org: api.DefaultTenant, Provider: providerOIDC, Issuer: g.Issuer, ClientID: g.ClientID, global: &g}
	if g.Cert != "" {
		var err error
		if c.key, err = parseCert(g.Cert); err != nil {
			return nil, fmt.Errorf("field Cert %w", err)
		}
	}
	return c, nil
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
		return c, api.NotFound.New("The organization is not registered.")
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

// DefaultOrg returns the registered default organization. It fails with api.InvalidRequest if no
// organization is registered.
func (s *Service) DefaultOrg(ctx context.Context) (string, error) {
	c, err := defaultClient(ctx, s.store.Read())
	if errors.Is(err, errNoClient) {
		return "", api.InvalidRequest.New("No default organization is registered: name the organization as org.")
	}
	return c.Org, err
}

// ResolveOrg returns the organization that a request names, which need not be registered, or the
// default one for "".
func (s *Service) ResolveOrg(ctx context.Context, org string) (string, error) {
	if org == "" {
		return s.DefaultOrg(ctx)
	}
	faults := api.Fields{}
	checkOrg(faults, org)
	return org, faults.Err()
}

// Issuer returns the issuer of an organization, or api.NotFound.
func (s *Service) Issuer(ctx context.Context, org string) (string, error) {
	c, err := s.clientFor(ctx, org)
	return c.Issuer, err
}

// CheckOrg returns the organization that a login without or with this organization is for, or
// api.NotFound.
func (s *Service) CheckOrg(ctx context.Context, org string) (string, error) {
	c, err := s.clientFor(ctx, org)
	return c.Org, err
}

func (s *Service) secretOf(c client) (string, error) {
	if c.global != nil {
		return c.global.ClientSecret, nil
	}
	plain, err := s.store.Keyring.Open(c.SecretEnc, sealedSecret.Place(c.Org))
	if err != nil {
		return "", unusable(c, err)
	}
	return string(plain), nil
}

// certOf returns the key and the text of the client's certificate, or nil.
func (s *Service) certOf(c client) (crypto.PublicKey, string, error) {
	if c.global != nil {
		return c.key, c.global.Cert, nil
	}
	if c.CertEnc == nil {
		return nil, "", nil
	}
	plain, err := s.store.Keyring.Open(c.CertEnc, sealedCert.Place(c.Org))
	if err != nil {
		return nil, "", unusable(c, err)
	}
	key, err := parseCert(string(plain))
	if err != nil {
		return nil, "", unusable(c, err)
	}
	return key, string(plain), nil
}

// unusable is the error of a client whose secrets cannot be opened.
func unusable(c client, cause error) error {
	return &api.Error{Code: api.Unavailable, Message: "The login of the organization must be configured again.", Cause: fmt.Errorf("client of %s: %w", c.Org, cause)}
}

// DeleteClient deletes the client of an organization, without effect if there is none. It fails
// with api.DefaultTenantInUse if it is the default and others remain. The sessions and CLI tokens
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
				return api.DefaultTenantInUse
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
var errForeignData = api.Conflict.New(`The organization has data that belong to another identity provider or client. ` +
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
