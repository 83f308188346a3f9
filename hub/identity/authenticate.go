package identity

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
)

// Authenticate tells who sent a request, by its bearer token: an access token or a CLI token. Both have the rights that
// their user has now. Its errors are api's codes, and [db.ErrUnavailable] where the database could not be asked.
func (s *Service) Authenticate(r *http.Request) (api.Caller, error) {
	raw := api.Bearer(r)
	if raw == "" {
		return api.Caller{}, api.Unauthenticated
	}
	var (
		st  *state
		err error
	)
	if strings.HasPrefix(raw, cliPrefix) {
		st, err = s.cliState(r.Context(), raw)
	} else {
		st, err = s.sessionState(r.Context(), raw)
	}
	if err != nil {
		return api.Caller{}, err
	}
	switch {
	case st.disabled:
		return api.Caller{}, api.AccountDisabled
	case st.revoked:
		return api.Caller{}, api.TokenRevoked
	case !st.expires.IsZero() && !s.cfg.Now().Before(st.expires):
		return api.Caller{}, api.TokenExpired
	}
	s.touch(r, st)
	return st.caller, nil
}

// sessionState finds the session that an access token belongs to.
func (s *Service) sessionState(ctx context.Context, raw string) (*state, error) {
	key := sha256.Sum256([]byte(raw))
	token, ok := s.tokens.get(key)
	if !ok {
		claims, err := s.keys.verify(ctx, raw)
		switch {
		case errors.Is(err, errTokenExpired):
			return nil, &api.Error{Code: api.TokenExpired, Cause: err}
		case errors.Is(err, errTokenInvalid):
			return nil, &api.Error{Code: api.Unauthenticated, Cause: err}
		case err != nil:
			return nil, err
		}
		token = verified{session: claims.Session, user: claims.Subject, expires: claims.ExpiresAt.Time}
		s.tokens.put(key, token)
	}
	if !s.cfg.Now().Before(token.expires) {
		return nil, &api.Error{Code: api.TokenExpired, Cause: errTokenExpired}
	}
	st, err := s.state(token.session, func(st *state) error { return s.readSession(ctx, token.session, st) })
	if err != nil {
		return nil, err
	}
	if st.caller.UserID != token.user {
		return nil, api.Unauthenticated
	}
	return st, nil
}

// cliState finds a CLI token.
func (s *Service) cliState(ctx context.Context, raw string) (*state, error) {
	if len(raw) > maxToken {
		return nil, api.Unauthenticated
	}
	hash := hashToken(raw)
	return s.state(string(hash), func(st *state) error { return s.readCLIToken(ctx, hash, st) })
}

// state answers what is known, or reads it.
func (s *Service) state(key string, read func(*state) error) (*state, error) {
	now := s.cfg.Now()
	st, changes := s.states.get(key, now)
	if st != nil {
		return st, nil
	}
	st = &state{readAt: now}
	if err := read(st); err != nil {
		return nil, err
	}
	s.states.put(key, st, changes)
	return st, nil
}

// readSession reads a session and its member. One that is no more went with its member, or was swept long after its end.
func (s *Service) readSession(ctx context.Context, id string, st *state) error {
	var (
		revoked                 sql.NullInt64
		idle, expires, lastUsed int64
	)
	m, err := scanMember(s.db.Read().QueryRowContext(ctx, `SELECT `+memberColumns+`, s.revoked_at, s.idle_until, s.expires_at, s.last_used_at
		FROM sessions s JOIN members m ON m.id = s.user_id WHERE s.id = $1`, id), &revoked, &idle, &expires, &lastUsed)
	if errors.Is(err, sql.ErrNoRows) {
		return api.TokenRevoked
	}
	if err != nil {
		return fault("read session", err)
	}
	st.fill(m, revoked, lastUsed)
	st.expires = db.Time(min(idle, expires))
	st.caller.Kind, st.caller.SessionID = api.Session, id
	return nil
}

func (s *Service) readCLIToken(ctx context.Context, hash []byte, st *state) error {
	var (
		id                         string
		revoked, expires, lastUsed sql.NullInt64
	)
	m, err := scanMember(s.db.Read().QueryRowContext(ctx, `SELECT `+memberColumns+`, t.id, t.revoked_at, t.expires_at, t.last_used_at
		FROM cli_tokens t JOIN members m ON m.id = t.user_id WHERE t.token_hash = $1`, hash), &id, &revoked, &expires, &lastUsed)
	if errors.Is(err, sql.ErrNoRows) {
		return api.Unauthenticated
	}
	if err != nil {
		return fault("read CLI token", err)
	}
	st.fill(m, revoked, lastUsed.Int64)
	st.expires = timeOf(expires)
	st.caller.Kind, st.caller.TokenID = api.CLI, id
	return nil
}

func (st *state) fill(m member, revoked sql.NullInt64, lastUsed int64) {
	st.disabled, st.revoked = !m.active(), revoked.Valid
	st.lastUsed.Store(lastUsed)
	st.caller = api.Caller{
		UserID: m.ID, UserName: m.Username, DisplayName: m.DisplayName, Email: m.Email,
		TenantID: m.TenantID, OrgID: m.TenantID, RoleNow: m.Role,
	}
}

// useEvery is how often it is written down that a session or a CLI token is in use.
const useEvery = time.Minute

// touch has it written down that a session or CLI token is used, beside the request.
func (s *Service) touch(r *http.Request, st *state) {
	now, last := db.Micros(s.cfg.Now()), st.lastUsed.Load()
	if now-last >= useEvery.Microseconds() && st.lastUsed.CompareAndSwap(last, now) {
		s.worker.used(use{session: st.caller.SessionID, token: st.caller.TokenID}, seen{now, api.RemoteIP(r)})
	}
}
