package identity

import (
	"context"
	"time"

	"github.com/seed93082962/agenthost/hub/store"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/rbac"
)

const (
	maxTokenName = 100 // characters
	maxTokenDays = 365

	maxTokensPerUser = 100 // valid ones, and as many revoked ones

	cliPrefix    = "cli_"
	shownOfToken = len(cliPrefix) + 8 // characters that identify the token to its owner
	day          = 24 * time.Hour
)

// cliToken is a row of the table. A zero time is NULL; a token without ExpiresAt is valid until it
// is revoked.
type cliToken struct {
	ID         string
	TenantID   string
	UserID     string
	Name       string
	Prefix     string
	CreatedAt  time.Time
	ExpiresAt  time.Time
	LastUsedAt time.Time
	LastUsedIP string
}

// IssuedToken is a new CLI token. No other value contains the token itself.
type IssuedToken struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	Token     string   `json:"token"`
	Prefix    string   `json:"prefix"`
	CreatedAt api.Time `json:"createdAt"`
	ExpiresAt api.Time `json:"expiresAt"`
}

// Token is a CLI token as its owner and administrators see it.
type Token struct {
	ID         string   `json:"id"`
	Name       string   `json:"name"`
	Prefix     string   `json:"prefix"`
	CreatedAt  api.Time `json:"createdAt"`
	ExpiresAt  api.Time `json:"expiresAt"`
	LastUsedAt api.Time `json:"lastUsedAt"`
	LastUsedIP *string  `json:"lastUsedIp"`
}

func (t cliToken) view() Token {
	v := Token{
		ID: t.ID, Name: t.Name, Prefix: t.Prefix, CreatedAt: api.Time(t.CreatedAt),
		ExpiresAt: api.Time(t.ExpiresAt), LastUsedAt: api.Time(t.LastUsedAt),
	}
	if t.LastUsedIP != "" {
		v.LastUsedIP = &t.LastUsedIP
	}
	return v
}

// TokenInput is the name of a CLI token and its validity. A token without days does not expire.
type TokenInput struct {
	Name          string `json:"name"`
	ExpiresInDays *int   `json:"expiresInDays"`
}

func (in TokenInput) validate() (TokenInput, error) {
	fields := api.Fields{}
	in.Name = fields.Line("name", in.Name, 1, maxTokenName)
	if in.ExpiresInDays != nil && (*in.ExpiresInDays < 1 || *in.ExpiresInDays > maxTokenDays) {
		fields.Add("expiresInDays", "must be an integer from 1 to 365, or null for a token that does not expire")
	}
	return in, fields.Err()
}

// IssueToken creates a CLI token of the caller. A caller with a CLI token may do so too, for at most
// as long as its own is valid.
func (s *Service) IssueToken(ctx context.Context, caller api.Caller, in TokenInput) (IssuedToken, error) {
	in, err := in.validate()
	if err != nil {
		return IssuedToken{}, err
	}
	raw, hash := newToken(cliPrefix)
	t := cliToken{
		ID: ids.New(), TenantID: caller.TenantID, UserID: caller.UserID, Name: in.Name, Prefix: raw[:shownOfToken], CreatedAt: s.store.Now(),
	}
	if in.ExpiresInDays != nil {
		t.ExpiresAt = t.CreatedAt.Add(time.Duration(*in.ExpiresInDays) * day)
	}
	err = s.change(ctx, caller, rbac.AdminWrite, func(tx *store.Tx) error {
		if err := checkTokens(ctx, tx, t); err != nil {
			return err
		}
		limit, err := tokenExpiry(ctx, tx, caller)
		if err != nil {
			return err
		}
		if !limit.IsZero() && (t.ExpiresAt.IsZero() || limit.Before(t.ExpiresAt)) {
			t.ExpiresAt = limit
		}
		if err := insertToken(ctx, tx, t, hash); err != nil {
			return err
		}
		tx.Record(actionIssueToken.Record(t.event(caller.Event()), tokenDetail{Prefix: t.Prefix, ExpiresAt: t.expiry()}))
		return nil
	})
	return IssuedToken{t.ID, t.Name, raw, t.Prefix, api.Time(t.CreatedAt), api.Time(t.ExpiresAt)}, err
}

// Tokens returns the CLI tokens of the caller that were not revoked, the newest first. Expired
// tokens are included.
func (s *Service) Tokens(ctx context.Context, caller api.Caller, page api.Page) (api.List[Token], error) {
	return s.tokensOf(ctx, caller.TenantID, caller.UserID, page)
}

func (s *Service) tokensOf(ctx context.Context, tenantID, userID string, page api.Page) (api.List[Token], error) {
	tokens, total, err := tokensOf(ctx, s.store.Read(), tenantID, userID, page)
	list := api.List[Token]{Total: total}
	for _, t := range tokens {
		list.Items = append(list.Items, t.view())
	}
	return list, err
}

// RevokeToken revokes a CLI token of the caller.
func (s *Service) RevokeToken(ctx context.Context, caller api.Caller, id string) error {
	return s.revokeTokenOf(ctx, caller, id, rbac.AdminWrite, func(*store.Tx) (member, error) {
		return member{ID: caller.UserID, TenantID: caller.TenantID, Username: caller.UserName}, nil
	})
}

// revokeTokenOf revokes a CLI token of the user that find returns.
func (s *Service) revokeTokenOf(ctx context.Context, caller api.Caller, id string, group rbac.Group, find func(*store.Tx) (owner member, err error)) error {
	id, err := parseID(id)
	if err != nil {
		return err
	}
	var owner member
	err = s.change(ctx, caller, group, func(tx *store.Tx) (err error) {
		if owner, err = find(tx); err != nil {
			return err
		}
		t, err := revokeToken(ctx, tx, owner.TenantID, owner.ID, id, s.store.Now())
		if err != nil {
			return err
		}
		tx.Record(t.revoked(caller.Event(), owner.Username))
		return nil
	})
	s.invalidateUser(owner.ID)
	return err
}

// event returns e with the token as its target.
func (t cliToken) event(e auditlog.Event) auditlog.Event {
	e.TargetType, e.TargetID, e.TargetName = targetToken, t.ID, t.Name
	return e
}

// revoked returns the entry of the revocation.
func (t cliToken) revoked(e auditlog.Event, owner string) auditlog.Record {
	return actionRevokeToken.Record(t.event(e), revokeTokenDetail{Owner: owner, Prefix: t.Prefix, ExpiresAt: t.expiry()})
}

// expiry returns the expiry in the form of audit details, or nil.
func (t cliToken) expiry() *string {
	if t.ExpiresAt.IsZero() {
		return nil
	}
	text := api.Time(t.ExpiresAt).String()
	return &text
}
