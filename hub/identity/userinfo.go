package identity

import (
	"encoding/base64"
	"net/http"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/rbac"
)

const modeBuiltin = "builtin"

type modeBody struct {
	Mode          string `json:"mode"`
	SetupRequired bool   `json:"setup_required"`
}

func (s *Service) mode(w http.ResponseWriter, r *http.Request) error {
	required, err := s.setupRequired(r.Context(), s.db.Read())
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusOK, modeBody{modeBuiltin, required})
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

func (s *Service) userinfo(w http.ResponseWriter, r *http.Request) error {
	c := api.CallerOf(r)
	return api.Encode(w, http.StatusOK, userinfoBody{
		ID: c.UserID, Username: c.UserName, DisplayName: c.DisplayName, Email: c.Email, Role: c.RoleNow,
		TenantID: c.TenantID, OrgID: c.OrgID, AuthMode: modeBuiltin, TokenType: c.Kind,
	})
}

// jwk is RFC 8037, section 2.
type jwk struct {
	Type      string `json:"kty"`
	Curve     string `json:"crv"`
	ID        string `json:"kid"`
	Use       string `json:"use"`
	Algorithm string `json:"alg"`
	X         string `json:"x"`
}

type jwksBody struct {
	Keys []jwk `json:"keys"`
}

// jwks publishes the keys with which access tokens may be signed that still live.
func (s *Service) jwks(w http.ResponseWriter, r *http.Request) error {
	if err := s.keys.refresh(r.Context()); err != nil {
		return err
	}
	body := jwksBody{Keys: []jwk{}}
	for _, key := range s.keys.published() {
		body.Keys = append(body.Keys, jwk{
			Type: "OKP", Curve: "Ed25519", ID: key.id, Use: "sig", Algorithm: "EdDSA", X: base64.RawURLEncoding.EncodeToString(key.public),
		})
	}
	return api.Encode(w, http.StatusOK, body)
}
