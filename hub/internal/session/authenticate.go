package session

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/clitoken"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/internal/token"
	"github.com/seed93082962/agenthost/hub/internal/user"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
)

// Authenticate returns the caller of a request by its bearer token.
func (s *Service) Authenticate(r *http.Request) (api.Caller, error) {
	return s.AuthenticateToken(r.Context(), api.CallerOf(r), api.Bearer(r))
}

// AuthenticateToken returns the user of an access token or a CLI token. Both have the current role
// of the user. The error is one of the codes of api, or [db.ErrUnavailable].
func (s *Service) AuthenticateToken(ctx context.Context, from api.Caller, raw string) (api.Caller, error) {
	if raw == "" {
		return api.Caller{}, wire.Unauthenticated
	}

	var (
		st  *state
		err error
	)
	if strings.HasPrefix(raw, clitoken.Prefix) {
		st, err = s.cliState(ctx, raw)
	} else {
		st, err = s.sessionState(ctx, raw)
	}

	if err != nil {
		return api.Caller{}, err
	}

	switch {
	case st.foreign:
		return api.Caller{}, user.ErrOtherMode
	case st.disabled && st.valid(s.store.Now()):
		return api.Caller{}, api.Denied(st.caller, code.AccountDisabled)
	case st.disabled:
		return api.Caller{}, code.AccountDisabled
	case st.revoked:
		return api.Caller{}, wire.TokenRevoked
	case st.expired(s.store.Now()):
		return api.Caller{}, wire.TokenExpired
	}

	s.touch(from.RemoteIP, st)
	caller := st.caller
	caller.RemoteIP, caller.UserAgent = from.RemoteIP, from.UserAgent
	return caller, nil
}

// sessionState returns the session of an access token.
func (s *Service) sessionState(ctx context.Context, raw string) (*state, error) {
	claims, err := s.keys.Verify(ctx, raw)
	switch {
	case errors.Is(err, token.ErrExpired):
		return nil, &wire.Error{Code: wire.TokenExpired, Cause: err}
	case errors.Is(err, token.ErrInvalid):
		return nil, &wire.Error{Code: wire.Unauthenticated, Cause: err}
	case err != nil:
		return nil, err
	case !s.store.Now().Before(claims.ExpiresAt): // Verify permits a difference of clocks
		return nil, &wire.Error{Code: wire.TokenExpired, Cause: token.ErrExpired}
	}

	st, err := s.state(claims.Session, func(st *state) error { return s.readSession(ctx, claims.Session, st) })
	if err != nil {
		return nil, err
	}

	if err := s.keys.Follow(ctx, st.signing, st.read); err != nil {
		return nil, err
	}

	if st.caller.UserID != claims.Subject || !s.keys.Accepts(claims.Key) {
		return nil, wire.Unauthenticated
	}

	return st, nil
}

// cliState returns the state of a CLI token.
func (s *Service) cliState(ctx context.Context, raw string) (*state, error) {
	if len(raw) > token.MaxLength {
		return nil, wire.Unauthenticated
	}

	hash := token.Hash(raw)
	return s.state(string(hash), func(st *state) error {
		found, err := clitoken.Find(ctx, s.store.Read(), hash)
		if err != nil {
			return err
		}

		st.fill(s, found.User, found.Revoked, found.LastUsed)
		st.expires = found.ExpiresAt.Time
		st.caller.Kind, st.caller.TokenID = api.CLI, found.ID
		return nil
	})
}

// state returns the cached state, or reads it.
func (s *Service) state(key string, read func(*state) error) (*state, error) {
	now := s.store.Now()
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

func (st *state) fill(s *Service, u user.User, revoked bool, lastUsed int64) {
	st.foreign = !s.users.Signs(u)
	st.disabled = !u.Active()
	st.revoked = revoked
	st.lastUsed.Store(lastUsed)
	st.caller = u.Caller()
}

// useEvery is the minimum time between two recorded uses of a session or a CLI token.
const useEvery = time.Minute

// touch records the use of a session or CLI token in the background.
func (s *Service) touch(remoteIP string, st *state) {
	now, last := db.Micros(s.store.Now()), st.lastUsed.Load()
	if now-last >= useEvery.Microseconds() && st.lastUsed.CompareAndSwap(last, now) {
		s.worker.used(use{session: st.caller.SessionID, token: st.caller.TokenID}, seen{at: now, remoteIP: remoteIP})
	}
}
