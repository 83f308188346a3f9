package identity

import (
	"context"

	"github.com/seed93082962/agenthost/hub/store"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/rbac"
)

// Invitation is an invitation as the holder of its token sees it.
type Invitation struct {
	Valid     bool      `json:"valid"`
	Role      rbac.Role `json:"role"`
	ExpiresAt api.Time  `json:"expires_at"`
}

// CheckInvite returns the invitation of a token, or api.InviteInvalid.
func (s *Service) CheckInvite(ctx context.Context, token string) (Invitation, error) {
	i, err := pendingInvite(ctx, s.store.Read(), token, s.store.Now())
	return Invitation{true, i.Role, api.Time(i.ExpiresAt)}, err
}

// RegisterInput is the token of an invitation and the account of the new user.
type RegisterInput struct {
	Token       string `json:"token"`
	Username    string `json:"username"`
	Password    string `json:"password"`
	DisplayName string `json:"display_name"` // Defaults to the username.
}

func (in RegisterInput) validate() (member, error) {
	fields := api.Fields{}
	if in.Token == "" {
		fields.Add("token", "must be the token of an invitation")
	}
	m := checkAccount(fields, in.Username, in.Password, "display_name", in.DisplayName)
	return m, fields.Err()
}

// Register creates the user of an invitation and signs the user in.
func (s *Service) Register(ctx context.Context, from api.Caller, in RegisterInput) (SignIn, error) {
	m, err := in.validate()
	if err != nil {
		return SignIn{}, err
	}
	if err := s.keys.ready(ctx); err != nil {
		return SignIn{}, err
	}
	// Without a valid invitation, no password is hashed and the names in use are not revealed.
	i, err := pendingInvite(ctx, s.store.Read(), in.Token, s.store.Now())
	if err != nil {
		return SignIn{}, err
	}
	hash, err := s.hashPassword(ctx, knownShare("invite "+i.ID, from), in.Password)
	if err != nil {
		return SignIn{}, err
	}
	var signIn SignIn
	err = s.store.Change(ctx, store.Change{}, func(tx *store.Tx) error {
		i, err := useInvite(ctx, tx, in.Token, m.Username, s.store.Now())
		if err != nil {
			return err
		}
		m = s.newMember(m, i.TenantID, i.Role, hash)
		m.LastLoginAt = m.CreatedAt
		if err := insertUser(ctx, tx, m); err != nil {
			return err
		}
		if signIn, err = s.newSession(ctx, tx, m, from, ""); err != nil {
			return err
		}
		tx.Record(actionRegister.Record(selfEvent(from, m), registerDetail{i.ID, string(m.Role)}))
		return nil
	})
	return signIn, err
}
