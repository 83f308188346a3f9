package identity

import (
	"context"
	"database/sql"
	"net/http"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/rbac"
)

// invitation is what the holder of an invite's token gets to know of it.
type invitation struct {
	Valid     bool      `json:"valid"`
	Role      rbac.Role `json:"role"`
	ExpiresAt api.Time  `json:"expires_at"`
}

func (s *Service) checkInvite(w http.ResponseWriter, r *http.Request) error {
	i, err := s.pendingInvite(r.Context(), r.PathValue("token"))
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusOK, invitation{true, i.Role, api.Time(i.ExpiresAt)})
}

// registration is the body of POST /auth/register.
type registration struct {
	Token       string `json:"token"`
	Username    string `json:"username"`
	Password    string `json:"password"`
	DisplayName string `json:"display_name"` // Defaults to the username.
}

func (s *Service) register(w http.ResponseWriter, r *http.Request) error {
	in, err := api.Decode[registration](w, r)
	if err != nil {
		return err
	}
	faults := api.Fields{}
	if in.Token == "" {
		faults.Add("token", "must be the token of an invitation")
	}
	m := checkAccount(faults, in.Username, in.Password, "display_name", in.DisplayName)
	if err := faults.Err(); err != nil {
		return err
	}
	// A stranger costs no hash, and learns nothing of names that are taken.
	if _, err := s.pendingInvite(r.Context(), in.Token); err != nil {
		return err
	}
	hash, err := s.hashPassword(r.Context(), in.Password)
	if err != nil {
		return err
	}
	var body loginBody
	ctx := r.Context()
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		body, err = s.registerTx(ctx, tx, r, in.Token, m, hash)
		return err
	})
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusCreated, body)
}

// registerTx uses the invite up, makes the user and signs them in.
func (s *Service) registerTx(ctx context.Context, tx *sql.Tx, r *http.Request, token string, m member, hash string) (loginBody, error) {
	i, err := s.useInvite(ctx, tx, token, m.Username)
	if err != nil {
		return loginBody{}, err
	}
	m = s.newMember(m, i.TenantID, i.Role, hash)
	m.LastLoginAt = m.CreatedAt
	if err := insertUser(ctx, tx, m); err != nil {
		return loginBody{}, err
	}
	body, err := s.newSession(ctx, tx, m, r)
	if err != nil {
		return loginBody{}, err
	}
	return body, s.record(ctx, tx, actionRegister.Record(selfEvent(r, m), registerDetail{i.ID, string(m.Role)}))
}
