package session

import (
	"context"
	"errors"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/bodies"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/internal/password"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/internal/user"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/wire"
)

const (
	// reuseGrace is how long after its rotation a refresh token may be used again without
	// consequence: a lost race, or a client that did not receive the response.
	reuseGrace = 10 * time.Second

	// clockDifference is how far the clock of the replica that rotated the token may be ahead.
	clockDifference = 5 * time.Second

	maxRefreshes = 10 // of a session within a minute
)

// family is the session that a refresh token belongs to.
type family struct {
	user    user.User
	session string
	device  string
	revoked bool
	why     string // why the session ended
	idle    time.Time
	limit   time.Time
	issued  time.Time
	rotated time.Time // when the token was rotated; the zero time for the newest token
}

// usable returns why the newest token of a session cannot be refreshed, or nil.
func (f family) usable(now time.Time) error {
	expired := !now.Before(f.idle) || !now.Before(f.limit)
	switch {
	case !f.user.Active() && (!f.revoked || f.why == user.EndedByDisable) && !expired:
		return api.Denied(f.user.Caller(), code.AccountDisabled)
	case !f.user.Active():
		return code.AccountDisabled
	case f.revoked:
		return wire.TokenRevoked
	case expired:
		return wire.TokenExpired
	}

	return nil
}

// Refresh returns the next pair of tokens of a session. One of several calls with the same token
// succeeds.
func (s *Service) Refresh(ctx context.Context, from api.Caller, in bodies.RefreshRequest) (SignIn, error) {
	if in.RefreshToken == "" {
		return SignIn{}, api.Fields{"refresh_token": "must not be empty"}
	}

	if err := s.keys.Ready(ctx); err != nil {
		return SignIn{}, err
	}

	hash := refreshHash(in)
	f, err := readFamily(ctx, s.store.Read(), hash) // an unknown token does not begin a transaction
	if err != nil {
		return SignIn{}, err
	}

	if !s.users.Signs(f.user) {
		return SignIn{}, user.ErrOtherMode
	}

	if !f.rotated.IsZero() {
		return SignIn{}, s.rejectReuse(ctx, from, f)
	}

	exchange := in.Verifier != ""
	var signIn SignIn
	err = s.store.Change(ctx, store.Change{}, func(tx *store.Tx) error {
		if exchange { // may evict sessions
			if err := user.LockTenant(ctx, tx.Tx, f.user.TenantID); err != nil {
				return err
			}
		}

		rotated, err := rotateRefreshToken(ctx, tx, hash)
		if err != nil {
			return err
		}

		if !rotated {
			return code.RefreshReused // another call was first
		}

		f, err := readFamily(ctx, tx, hash)
		if err != nil {
			return err
		}

		if err := f.usable(tx.Now); err != nil {
			return err
		}

		if exchange {
			live, err := isLive(ctx, tx, f.user, authorizer(in.RefreshToken))
			if err != nil {
				return err
			}

			if !live {
				return wire.TokenRevoked
			}
		}

		if err := checkRefreshRate(ctx, tx, f.session); err != nil {
			return err
		}

		// The session may have ended since it was read.
		extended, err := extendSession(ctx, tx, f.user.TenantID, f.session, from)
		if err != nil {
			return err
		}

		if !extended {
			return wire.TokenRevoked
		}

		if signIn, err = s.newTokens(ctx, tx, f.user, origin{id: f.session, limit: f.limit, device: f.device}); err != nil || !exchange {
			return err
		}

		signIn.evicted, err = evictSessions(ctx, tx, f.user, f.session)
		return err
	})
	if signIn.evicted > 0 {
		s.forget(f.user.ID)
	}

	return signIn, err
}

// isReused reports whether a second party has a copy of the token: its session continues, and it
// was rotated too long ago for a retry.
func (f family) isReused(now time.Time) bool {
	age := now.Sub(f.rotated)
	return !f.rotated.IsZero() && !f.revoked && (age < -clockDifference || age > reuseGrace)
}

// checkReuse ends the session of a reused token and returns code.RefreshReused. It returns nil for
// any other token.
func (s *Service) checkReuse(ctx context.Context, from api.Caller, raw string) error {
	if raw == "" {
		return nil
	}

	f, err := readFamily(ctx, s.store.Read(), hashOf(raw))
	switch {
	case errors.Is(err, wire.Unauthenticated):
		return nil
	case err != nil:
		return err
	case f.isReused(s.store.Now()):
		return s.rejectReuse(ctx, from, f)
	}

	return nil
}

// rejectReuse rejects a token that was rotated before, and ends the session of a reused one.
func (s *Service) rejectReuse(ctx context.Context, from api.Caller, f family) error {
	if !f.isReused(s.store.Now()) {
		return code.RefreshReused
	}

	ctx, cancel := password.Detached(ctx)
	defer cancel()
	err := s.store.Change(ctx, store.Change{}, func(tx *store.Tx) error {
		ended, err := endSession(ctx, tx, f.user.TenantID, f.user.ID, f.session, user.EndedByReuse)
		if err != nil || !ended {
			return err
		}

		e := target(f.user.Event(from), f.session, f.user.Username)
		e.Status = auditlog.Failure
		tx.Record(actionRefreshReuse.Record(e, sessionDetail{SessionID: f.session}))
		return nil
	})
	s.forget(f.user.ID)
	if err != nil {
		return err
	}

	return code.RefreshReused
}

// checkRefreshRate fails with 429 if the session was refreshed more than maxRefreshes times within
// a minute, this time included.
func checkRefreshRate(ctx context.Context, tx *store.Tx, session string) error {
	from, to := tx.Now.Add(-time.Minute), tx.Now.Add(time.Minute) // a later rotation was stored with an incorrect clock
	first, err := refreshBefore(ctx, tx, session, from, to, maxRefreshes)
	if err != nil || first.IsZero() {
		return err
	}

	return &wire.Error{Code: wire.RateLimited, RetryAfter: min(first.Sub(from), time.Minute)}
}

// Logout ends the session of the bearer token, or revokes a bearer token that is a CLI token. If
// the bearer token is missing or invalid, it ends the session of the refresh token. A rotated
// refresh token next to a valid bearer token is reuse too, unless it may be a retry: then only the
// bearer token counts.
func (s *Service) Logout(ctx context.Context, from api.Caller, bearer, refresh string) error {
	caller, err := s.AuthenticateToken(ctx, from, bearer)
	switch {
	case err == nil:
		reuse := s.checkReuse(ctx, from, refresh) // before the session ends: an ended one hides the reuse
		if err := s.logoutCaller(ctx, caller); err != nil && reuse == nil {
			return err
		}

		return reuse
	case refresh == "":
		return err
	}

	if disabled, ok := errors.AsType[*api.Refusal](err); ok && disabled.Caller != nil { // is recorded as denied
		return err
	}

	f, err := readFamily(ctx, s.store.Read(), hashOf(refresh)) // also if the access token has expired
	switch {
	case err != nil:
		return err
	case !f.rotated.IsZero():
		return s.rejectReuse(ctx, from, f)
	case !f.user.Active():
		return f.usable(s.store.Now())
	}

	return s.logoutSession(ctx, from, f.user, f.session)
}

// logoutCaller ends the session of the caller, or revokes the CLI token.
func (s *Service) logoutCaller(ctx context.Context, caller api.Caller) error {
	if caller.Kind == api.CLI {
		return s.cliTokens.RevokeCaller(ctx, caller)
	}

	return s.logoutSession(ctx, caller, user.Self(caller), caller.SessionID)
}

func (s *Service) logoutSession(ctx context.Context, from api.Caller, u user.User, session string) error {
	err := s.store.Change(ctx, store.Change{}, func(tx *store.Tx) error {
		ended, err := endSession(ctx, tx, u.TenantID, u.ID, session, user.EndedByLogout)
		if err != nil {
			return err
		}

		if !ended {
			return wire.TokenRevoked
		}

		tx.Record(actionLogout.Record(target(u.Event(from), session, u.Username), sessionDetail{SessionID: session}))
		return nil
	})
	s.forget(u.ID)
	return err
}
