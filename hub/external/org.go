package external

import (
	"context"
	"crypto"
	"errors"
	"fmt"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/identity"
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
	c := &client{Org: identity.DefaultTenant, Provider: providerOIDC, Issuer: g.Issuer, ClientID: g.ClientID, global: &g}
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
		c, err = defaultClient(ctx, s.db.Read())
	case orgForm.MatchString(org):
		c, err = clientOf(ctx, s.db.Read(), org)
	default:
		err = errNoClient
	}
	if errors.Is(err, errNoClient) && s.global != nil && (org == "" || org == s.global.Org) {
		return *s.global, nil
	}
	if errors.Is(err, errNoClient) {
		return c, api.NotFound.New("The organization is not registered.")
	}
	return c, err
}

// DefaultOrg returns the registered default organization. It fails with api.InvalidRequest if no
// organization is registered.
func (s *Service) DefaultOrg(ctx context.Context) (string, error) {
	c, err := defaultClient(ctx, s.db.Read())
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
	plain, err := s.cfg.Keyring.Open(c.SecretEnc, secretPlace(c.Org))
	if err != nil {
		return "", unusable(c, err)
	}
	return string(plain), nil
}

// certOf returns the key of the client's certificate, or nil.
func (s *Service) certOf(c client) (crypto.PublicKey, error) {
	if c.global != nil || c.CertEnc == nil {
		return c.key, nil
	}
	plain, err := s.cfg.Keyring.Open(c.CertEnc, certPlace(c.Org))
	if err != nil {
		return nil, unusable(c, err)
	}
	key, err := parseCert(string(plain))
	if err != nil {
		return nil, unusable(c, err)
	}
	return key, nil
}

// unusable is the error of a client whose secrets cannot be opened.
func unusable(c client, cause error) error {
	return &api.Error{Code: api.Unavailable, Message: "The login of the organization must be configured again.", Cause: fmt.Errorf("client of %s: %w", c.Org, cause)}
}
