package identity

import (
	"context"
	"database/sql"
	"net/http"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/rbac"
)

const (
	maxTokenName  = 100 // characters
	maxTokenDays  = 365
	cliPrefix     = "cli_"
	shownOfToken  = len(cliPrefix) + 8 // characters by which an owner knows the token
	day           = 24 * time.Hour
	tokenNotFound = "There is no such token, or it was revoked."
)

func (s *Service) cliTokenRoutes() []api.Route {
	route := func(method, path string, handle func(http.ResponseWriter, *http.Request) error) api.Route {
		return api.Route{Method: method, Path: "/api/v1/cli" + path, Group: rbac.AdminWrite, Category: "token", Handle: handle}
	}
	return []api.Route{
		route(http.MethodPost, "/issue-token", s.issueToken),
		route(http.MethodGet, "/tokens", s.listTokens),
		route(http.MethodDelete, "/tokens/:id", s.revokeToken),
	}
}

// cliToken is a row of the table. Zero times were never set; a token whose ExpiresAt is zero lives until it is revoked.
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

// issuedToken is the one answer that has the token itself.
type issuedToken struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	Token     string   `json:"token"`
	Prefix    string   `json:"prefix"`
	CreatedAt api.Time `json:"createdAt"`
	ExpiresAt api.Time `json:"expiresAt"`
}

type tokenView struct {
	ID         string   `json:"id"`
	Name       string   `json:"name"`
	Prefix     string   `json:"prefix"`
	CreatedAt  api.Time `json:"createdAt"`
	ExpiresAt  api.Time `json:"expiresAt"`
	LastUsedAt api.Time `json:"lastUsedAt"`
	LastUsedIP *string  `json:"lastUsedIp"`
}

func viewToken(t cliToken) tokenView {
	v := tokenView{
		ID: t.ID, Name: t.Name, Prefix: t.Prefix, CreatedAt: api.Time(t.CreatedAt),
		ExpiresAt: api.Time(t.ExpiresAt), LastUsedAt: api.Time(t.LastUsedAt),
	}
	if t.LastUsedIP != "" {
		v.LastUsedIP = &t.LastUsedIP
	}
	return v
}

// newCLIToken is the body of POST /api/v1/cli/issue-token. A token without days, left out or null, does not expire.
type newCLIToken struct {
	Name          string `json:"name"`
	ExpiresInDays *int   `json:"expiresInDays"`
}

// issueToken may be called with a CLI token too: it has all permissions of its user.
func (s *Service) issueToken(w http.ResponseWriter, r *http.Request) error {
	in, err := api.Decode[newCLIToken](w, r)
	if err != nil {
		return err
	}
	faults := api.Fields{}
	name := faults.Line("name", in.Name, 1, maxTokenName)
	if in.ExpiresInDays != nil && (*in.ExpiresInDays < 1 || *in.ExpiresInDays > maxTokenDays) {
		faults.Add("expiresInDays", "must be an integer from 1 to 365, or null for a token that does not expire")
	}
	if err := faults.Err(); err != nil {
		return err
	}
	raw, hash := newToken(cliPrefix)
	caller := api.CallerOf(r)
	t := cliToken{
		ID: ids.New(), TenantID: caller.TenantID, UserID: caller.UserID, Name: name, Prefix: raw[:shownOfToken], CreatedAt: s.now(),
	}
	if in.ExpiresInDays != nil {
		t.ExpiresAt = t.CreatedAt.Add(time.Duration(*in.ExpiresInDays) * day)
	}
	err = s.change(r, rbac.AdminWrite, func(ctx context.Context, tx *sql.Tx) error {
		if err := insertToken(ctx, tx, t, hash); err != nil {
			return err
		}
		return s.record(ctx, tx, actionIssueToken.Record(tokenEvent(r, t), tokenDetail{t.Prefix, t.expiry()}))
	})
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusCreated, issuedToken{t.ID, t.Name, raw, t.Prefix, api.Time(t.CreatedAt), api.Time(t.ExpiresAt)})
}

func (s *Service) listTokens(w http.ResponseWriter, r *http.Request) error {
	return s.answerTokens(w, r, api.CallerOf(r).UserID)
}

// answerTokens lists the tokens of a user that were not revoked: one that has expired is shown, so that its owner sees why
// it no longer works.
func (s *Service) answerTokens(w http.ResponseWriter, r *http.Request, userID string) error {
	page, err := api.Paging(r)
	if err != nil {
		return err
	}
	tokens, total, err := tokensOf(r.Context(), s.db.Read(), userID, page)
	if err != nil {
		return err
	}
	list := api.List[tokenView]{Total: total}
	for _, t := range tokens {
		list.Items = append(list.Items, viewToken(t))
	}
	return api.Encode(w, http.StatusOK, list)
}

func (s *Service) revokeToken(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "id")
	if err != nil {
		return err
	}
	caller := api.CallerOf(r)
	return s.answerRevoke(w, r, id, rbac.AdminWrite, func(context.Context, *sql.Tx) (member, error) {
		return member{ID: caller.UserID, Username: caller.UserName}, nil
	})
}

// answerRevoke revokes a token of the user whom find names.
func (s *Service) answerRevoke(w http.ResponseWriter, r *http.Request, id string, group rbac.Group,
	find func(context.Context, *sql.Tx) (owner member, err error),
) error {
	var owner member
	err := s.change(r, group, func(ctx context.Context, tx *sql.Tx) (err error) {
		if owner, err = find(ctx, tx); err != nil {
			return err
		}
		t, err := s.endToken(ctx, tx, owner.ID, id)
		if err != nil {
			return err
		}
		return s.record(ctx, tx, revokedToken(r, t, owner.Username))
	})
	s.invalidateUser(owner.ID)
	if err != nil {
		return err
	}
	return api.NoContent(w)
}

func tokenEvent(r *http.Request, t cliToken) auditlog.Event {
	e := api.RequestEvent(r)
	e.TargetType, e.TargetID, e.TargetName = targetToken, t.ID, t.Name
	return e
}

func revokedToken(r *http.Request, t cliToken, owner string) auditlog.Record {
	return actionRevokeToken.Record(tokenEvent(r, t), revokeTokenDetail{Owner: owner, Prefix: t.Prefix, ExpiresAt: t.expiry()})
}

// expiry is for the audit log, whose details hold no types that write themselves.
func (t cliToken) expiry() *string {
	if t.ExpiresAt.IsZero() {
		return nil
	}
	text := api.Time(t.ExpiresAt).String()
	return &text
}
