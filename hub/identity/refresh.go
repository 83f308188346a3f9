package identity

import (
	"context"
	"errors"
	"time"

	"github.com/seed93082962/agenthost/hub/store"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
)

const (
	// reuseGrace is how long after its rotation a refresh token may be used again without
	// consequence: a lost race, or a client that did not receive the response.
	reuseGrace = 10 * time.Second

	// clockDifference is how far the clock of the replica that rotated the token may be ahead.
	clockDifference = 5 * time.Second

	maxRefreshes = 10 // of a session within a minute
)

// RefreshInput is a refresh token.
type RefreshInput struct {
	RefreshToken string `json:"refresh_token"`
}

// family is the session that a refresh token belongs to.
type family struct {
	member  member
	session string
	revoked bool
	why     string // why the session ended
	idle    time.Time
	limit   time.Time
	rotated time.Time // when the token was rotated; the zero time for the newest token
}

// usable returns why the newest token of a session cannot be refreshed, or nil.
func (f family) usable(now time.Time) error {
	expired := !now.Before(f.idle) || !now.Before(f.limit)
	switch {
	case !f.member.active() && (!f.revoked || f.why == endedByDisable) && !expired:
		return api.AccountDisabled.Of(f.member.caller())
	case !f.member.active():
		return api.AccountDisabled
	case f.revoked:
		return api.TokenRevoked
	case expired:
		return api.TokenExpired
	}
	return nil
}

// Refresh returns the next pair of tokens of a session. One of several calls with the same token
// succeeds.
func (s *Service) Refresh(ctx context.Context, from api.Caller, in RefreshInput) (signIn SignIn, err error) {
	if in.RefreshToken == "" {
		return SignIn{}, api.Fields{"refresh_token": "must not be empty"} //nolint:gosec // a field's name, no credential
	}
	if err := s.keys.ready(ctx); err != nil {
		return SignIn{}, err
	}
	hash := hashToken(in.RefreshToken)
	f, err := readFamily(ctx, s.store.Read(), hash) // an unknown token does not begin a transaction
	if err != nil {
		return SignIn{}, err
	}
	if f.member.AuthSource != s.source() {
		return SignIn{}, errOtherMode
	}
	if !f.rotated.IsZero() {
		return SignIn{}, s.rejectReuse(ctx, from, f)
	}
	err = s.store.Change(ctx, store.Change{}, func(tx *store.Tx) error {
		now := s.store.Now()
		rotated, err := rotateRefreshToken(ctx, tx, hash, now)
		if err != nil {
			return err
		}
		if !rotated {
			return api.RefreshReused // another call was first
		}
		f, err := readFamily(ctx, tx, hash)
		if err != nil {
			return err
		}
		if err := f.usable(now); err != nil {
			return err
		}
		if err := checkRefreshRate(ctx, tx, f.session, now); err != nil {
			return err
		}
		// The session may have ended since it was read.
		extended, err := extendSession(ctx, tx, f.member.TenantID, f.session, now, from)
		if err != nil {
			return err
		}
		if !extended {
			return api.TokenRevoked
		}
		signIn, err = s.newTokens(ctx, tx, f.member, f.session, now, f.limit)
		return err
	})
	return signIn, err
}

// isReused reports whether a second party has a copy of the token: its session continues, and it
// was rotated too long ago for a retry.
func (f family) isReused(now time.Time) bool {
	age := now.Sub(f.rotated)
	return !f.rotated.IsZero() && !f.revoked && (age < -clockDifference || age > reuseGrace)
}

// checkReuse ends the session of a reused token and returns api.RefreshReused. It returns nil for
// any other token.
func (s *Service) checkReuse(ctx context.Context, from api.Caller, token string) error {
	if token == "" {
		return nil
	}
	f, err := readFamily(ctx, s.store.Read(), hashToken(token))
	switch {
	case errors.Is(err, api.Unauthenticated):
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
		return api.RefreshReused
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	err := s.store.Change(ctx, store.Change{}, func(tx *store.Tx) error {
		ended, err := s.endSession(ctx, tx, f.member.TenantID, f.member.ID, f.session, endedByReuse)
		if err != nil || !ended {
			return err
		}
		e := aboutSession(selfEvent(from, f.member), f.session, f.member.Username)
		e.Status = auditlog.Failure
		tx.Record(actionRefreshReuse.Record(e, sessionDetail{f.session}))
		return nil
	})
	s.invalidateUser(f.member.ID)
	if err != nil {
		return err
	}
	return api.RefreshReused
}

// checkRefreshRate fails with 429 if the session was refreshed more than maxRefreshes times within
// a minute, this time included.
func checkRefreshRate(ctx context.Context, tx *store.Tx, session string, now time.Time) error {
	from, to := now.Add(-time.Minute), now.Add(time.Minute) // a later rotation was stored with an incorrect clock
	first, err := refreshBefore(ctx, tx, session, from, to, maxRefreshes)
	if err != nil || first.IsZero() {
		return err
	}
	return &api.Error{Code: api.RateLimited, RetryAfter: min(first.Sub(from), time.Minute)}
}
