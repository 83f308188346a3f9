package identity

import (
	"context"
	"encoding/base64"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/rbac"
)

// How users sign in.
const (
	modeBuiltin  = "builtin"
	modeExternal = "external"
)

// Mode is how users sign in.
type Mode struct {
	Mode          string `json:"mode"`
	SetupRequired bool   `json:"setup_required"`
}

func (s *Service) modeNow() string {
	if s.cfg.External {
		return modeExternal
	}
	return modeBuiltin
}

// Mode returns how users sign in, and whether the first user has to be created.
func (s *Service) Mode(ctx context.Context) (Mode, error) {
	if s.cfg.External {
		return Mode{Mode: modeExternal}, nil
	}
	required, err := setupRequired(ctx, s.store.Read())
	return Mode{Mode: modeBuiltin, SetupRequired: required}, err
}

type userinfoBody struct {
	ID          string        `json:"id"`
	Username    string        `json:"username"`
	DisplayName string        `json:"display_name"`
	Email       string        `json:"email,omitempty"`
	Role        rbac.Role     `json:"role"`
	TenantID    string        `json:"tenant_id"`
	OrgID       string        `json:"org_id"`
	AuthMode    string        `json:"auth_mode"`
	TokenType   api.TokenKind `json:"token_type"`
}

func (s *Service) userinfoOf(c api.Caller) userinfoBody {
	return userinfoBody{
		ID: c.UserID, Username: c.UserName, DisplayName: c.DisplayName, Email: c.Email, Role: c.RoleNow,
		TenantID: c.TenantID, OrgID: c.OrgID, AuthMode: s.modeNow(), TokenType: c.Kind,
	}
}

// JWK is a public key (RFC 8037, section 2).
type JWK struct {
	Type      string `json:"kty"`
	Curve     string `json:"crv"`
	ID        string `json:"kid"`
	Use       string `json:"use"`
	Algorithm string `json:"alg"`
	X         string `json:"x"`
}

// JWKS is a set of public keys (RFC 7517, section 5).
type JWKS struct {
	Keys []JWK `json:"keys"`
}

// PublicKeys returns the keys that verify access tokens that have not expired.
func (s *Service) PublicKeys(ctx context.Context) (JWKS, error) {
	if err := s.keys.reload(ctx); err != nil {
		return JWKS{}, err
	}
	set := JWKS{Keys: []JWK{}}
	for _, key := range s.keys.published() {
		set.Keys = append(set.Keys, JWK{
			Type: "OKP", Curve: "Ed25519", ID: key.id, Use: "sig", Algorithm: "EdDSA", X: base64.RawURLEncoding.EncodeToString(key.public),
		})
	}
	return set, nil
}
