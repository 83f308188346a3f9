package chat

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/rbac"
)

// Results of a pushed session.
const (
	pushCreated   = "created"
	pushUpdated   = "updated"   // the messages are replaced: updated_at is newer
	pushUnchanged = "unchanged" // updated_at is equal
	pushStale     = "stale"     // updated_at is older
	pushInvalid   = "invalid"
)

// PushResult has the result of each session of a push, in the order of the request.
type PushResult struct {
	Accepted int             `json:"accepted"` // created
	Updated  int             `json:"updated"`
	Skipped  int             `json:"skipped"` // unchanged or stale
	Failed   int             `json:"failed"`  // invalid
	Results  []SessionResult `json:"results"`
}

// SessionResult is the result of one session. ServerUpdatedAt is the updated_at that is stored.
type SessionResult struct {
	ID              string   `json:"id"`
	Status          string   `json:"status"`
	ServerUpdatedAt api.Time `json:"server_updated_at,omitzero"`
	Error           string   `json:"error,omitempty"` // of an invalid one
}

// pushed is a session of a push with its messages.
type pushed struct {
	session  session
	messages []message
	result   *SessionResult
}

// validPushKey compares in constant time.
func (s *Service) validPushKey(key string) bool {
	want, got := sha256.Sum256([]byte(s.cfg.PushKey)), sha256.Sum256([]byte(key))
	return s.cfg.PushKey != "" && subtle.ConstantTimeCompare(want[:], got[:]) == 1
}

// Push stores sessions of the caller. A member must not name another user; the name that another
// role gives is only displayed. Org is ignored. All sessions are stored in one transaction.
func (s *Service) Push(ctx context.Context, caller api.Caller, in PushInput) (PushResult, error) {
	if err := rbac.AdminRead.Check(caller); err != nil {
		return PushResult{}, err
	}
	if err := in.validate(false); err != nil {
		return PushResult{}, err
	}
	member := rbac.AdminWrite.Check(caller) != nil
	for _, pushed := range in.Sessions {
		if member && pushed.UserName != "" && pushed.UserName != caller.UserName {
			return PushResult{}, &api.Error{Code: api.Forbidden, Message: "You may push only your own sessions: omit user_name.", Caller: &caller}
		}
	}
	return s.push(ctx, caller.TenantID, in.Sessions, func(in *session) {
		in.UserID, in.UserName = caller.UserID, cmp.Or(in.UserName, caller.UserName)
	})
}

// PushAll stores sessions of any users of an organization, for a caller with the key. The user name
// of a session is also the id of the user.
func (s *Service) PushAll(ctx context.Context, in PushInput) (PushResult, error) {
	if err := in.validate(true); err != nil {
		return PushResult{}, err
	}
	tenantID, err := s.cfg.ResolveOrg(ctx, in.Org)
	if err != nil {
		return PushResult{}, err
	}
	return s.push(ctx, tenantID, in.Sessions, func(in *session) { in.UserID = in.UserName })
}

func (in PushInput) validate(named bool) error {
	fields := api.Fields{}
	switch {
	case in.Sessions == nil:
		fields.Add("sessions", "must be an array")
	case len(in.Sessions) > maxPushed:
		fields.Add("sessions", fmt.Sprintf("must have at most %d sessions", maxPushed))
	}
	for i, pushed := range in.Sessions {
		if named && pushed.UserName == "" {
			fields.Add(fmt.Sprintf("sessions[%d].user_name", i), "must not be empty")
		}
	}
	return fields.Err()
}

func (s *Service) push(ctx context.Context, tenantID string, in []PushedSession, own func(*session)) (PushResult, error) {
	result := PushResult{Results: make([]SessionResult, len(in))}
	known := map[string]bool{} // agents
	var valid []*pushed
	for i := range in {
		r := &result.Results[i]
		r.ID = clean(in[i].ID)
		p, err := s.checkPushed(ctx, tenantID, in[i], own, known)
		if invalid, ok := errors.AsType[*invalidError](err); ok {
			r.Status, r.Error = pushInvalid, invalid.reason
		} else if err != nil {
			return PushResult{}, err
		} else {
			p.result = r
			valid = append(valid, p)
		}
	}
	// Concurrent pushes lock the sessions in the same order. Sessions with the same id keep theirs.
	slices.SortStableFunc(valid, func(a, b *pushed) int {
		return cmp.Or(cmp.Compare(a.session.UserID, b.session.UserID), cmp.Compare(a.session.ID, b.session.ID))
	})
	if len(valid) > 0 {
		if err := s.db.Tx(ctx, func(tx *sql.Tx) error { return s.store(ctx, tx, valid) }); err != nil {
			return PushResult{}, err
		}
	}
	result.count()
	return result, nil
}

// invalidError is the reason why one session cannot be stored.
type invalidError struct{ reason string }

func (e *invalidError) Error() string { return e.reason }

func (s *Service) checkPushed(ctx context.Context, tenantID string, in PushedSession, own func(*session), agents map[string]bool) (*pushed, error) {
	row, messages, err := in.check()
	if err != nil {
		return nil, &invalidError{err.Error()}
	}
	if in.UserName != "" {
		if reason := checkUserName(in.UserName); reason != "" {
			return nil, &invalidError{"user_name " + reason}
		}
	}
	if _, ok := agents[in.AgentName]; !ok {
		_, err := s.cfg.Agent(ctx, tenantID, in.AgentName)
		if err != nil && !errors.Is(err, api.NotFound) {
			return nil, err
		}
		agents[in.AgentName] = err == nil
	}
	if !agents[in.AgentName] {
		return nil, &invalidError{"there is no agent with this agent_name"}
	}
	row.TenantID = tenantID
	own(&row)
	return &pushed{session: row, messages: messages}, nil
}

// store stores the sessions, which are sorted by user. It may run again.
func (s *Service) store(ctx context.Context, tx *sql.Tx, valid []*pushed) (err error) {
	var sum quota // of the user
	for i, p := range valid {
		if i == 0 || valid[i-1].session.UserID != p.session.UserID {
			if sum, err = quotaOf(ctx, tx, p.session.TenantID, p.session.UserID); err != nil {
				return err
			}
		}
		r := p.result
		r.Status, r.Error, r.ServerUpdatedAt = pushCreated, "", api.Time(p.session.UpdatedAt)
		created, err := insertSession(ctx, tx, p.session)
		if err == nil && !created {
			err = s.replace(ctx, tx, p, &sum)
		} else if err == nil {
			err = s.fill(ctx, tx, p, &sum)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fill stores the messages of a new session, or deletes the session if the user has too many.
func (s *Service) fill(ctx context.Context, tx *sql.Tx, p *pushed, sum *quota) error {
	if !p.fits(sum, quota{1, p.session.Size}) {
		_, err := deleteSession(ctx, tx, p.session)
		return err
	}
	return insertMessages(ctx, tx, p.session, p.messages...)
}

// fits adds to what the user has stored. If that is too much, it sets the result of the session and
// returns false.
func (p *pushed) fits(sum *quota, more quota) bool {
	next := quota{sum.sessions + more.sessions, sum.bytes + more.bytes}
	if err, ok := errors.AsType[*api.Error](next.check()); ok && (more.sessions > 0 || more.bytes > 0) {
		p.result.Status, p.result.Error, p.result.ServerUpdatedAt = pushInvalid, err.Message, api.Time{}
		return false
	}
	*sum = next
	return true
}

// replace replaces an older session. Sessions that began in the hub are never replaced.
func (s *Service) replace(ctx context.Context, tx *sql.Tx, p *pushed, sum *quota) error {
	old, err := lockSession(ctx, tx, p.session)
	if err != nil {
		return err
	}
	running, err := hasRun(ctx, tx, old, s.now())
	if err != nil {
		return err
	}
	r := p.result
	r.ServerUpdatedAt = api.Time(old.UpdatedAt)
	switch {
	case old.Source != sourcePush:
		r.Status, r.Error = pushInvalid, "a session of the hub has this id"
	case old.UpdatedAt.Equal(p.session.UpdatedAt):
		r.Status = pushUnchanged
	case old.UpdatedAt.After(p.session.UpdatedAt):
		r.Status = pushStale
	case running:
		r.Status, r.Error = pushInvalid, "an answer is in progress in this session: push it again later"
	case !p.fits(sum, quota{0, p.session.Size - old.Size}):
		r.ServerUpdatedAt = api.Time(old.UpdatedAt)
	default:
		r.Status, r.ServerUpdatedAt = pushUpdated, api.Time(p.session.UpdatedAt)
		row := p.session
		row.Key = old.Key
		if err := insertTranscript(ctx, tx, old, s.now()); err != nil {
			return err
		}
		if err := replaceSession(ctx, tx, row); err != nil {
			return err
		}
		return insertMessages(ctx, tx, row, p.messages...)
	}
	return nil
}

func (r *PushResult) count() {
	for _, one := range r.Results {
		switch one.Status {
		case pushCreated:
			r.Accepted++
		case pushUpdated:
			r.Updated++
		case pushUnchanged, pushStale:
			r.Skipped++
		default:
			r.Failed++
		}
	}
}
