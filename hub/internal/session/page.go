package session

import (
	"context"
	"errors"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/bodies"
	"github.com/seed93082962/agenthost/hub/internal/password"
	"github.com/seed93082962/agenthost/hub/internal/user"
	"github.com/seed93082962/agenthost/hub/wire"
)

const (
	pageRotation     = 5 * time.Minute // between two rotations of a session by its pages
	maxPageRefreshes = 120             // of a session within a minute
)

// RefreshPage is [Service.Refresh] for the pages of a browser, which share a session. Each page
// that is loaded needs an access token. A token that is at most five minutes old is not rotated:
// the result has no refresh token. A session has 120 refreshes a minute in each process.
func (s *Service) RefreshPage(ctx context.Context, from api.Caller, refresh string) (SignIn, error) {
	if err := s.keys.Ready(ctx); err != nil {
		return SignIn{}, err
	}

	f, err := readFamily(ctx, s.store.Read(), hashOf(refresh))
	if err != nil {
		return SignIn{}, err
	}

	if count := s.pages.Count(f.session); count.Exceeded {
		return SignIn{}, &wire.Error{Code: wire.RateLimited, RetryAfter: count.Reset}
	}

	now := s.store.Now()
	age := now.Sub(f.issued)
	if !f.rotated.IsZero() || age > pageRotation || age < -clockDifference {
		return s.Refresh(ctx, from, bodies.RefreshRequest{RefreshToken: refresh})
	}

	if !s.users.Signs(f.user) {
		return SignIn{}, user.ErrOtherMode
	}

	if err := f.usable(now); err != nil {
		return SignIn{}, err
	}

	return s.access(f.user, f.session, now, f.limit)
}

// UserOf returns the user of the session of a refresh token, or the zero Name if it is unknown or
// has ended.
func (s *Service) UserOf(ctx context.Context, refresh string) (Name, error) {
	f, err := readFamily(ctx, s.store.Read(), hashOf(refresh))
	if errors.Is(err, wire.Unauthenticated) {
		return Name{}, nil
	}

	if err != nil {
		return Name{}, err
	}

	if f.usable(s.store.Now()) != nil {
		return Name{}, nil //nolint:nilerr // it has ended
	}

	return nameOf(f.user), nil
}

// Name is who a user is to people. Issuer and Subject are those of the identity provider, or "".
type Name struct {
	wire.Name

	Issuer  string
	Subject string
}

func nameOf(u user.User) Name {
	return Name{Name: wire.Name{Username: u.Username, OrgID: u.TenantID}, Issuer: u.Issuer, Subject: u.Subject}
}

// Is reports whether both are the same user. Users of an identity provider have any username.
func (n Name) Is(other Name) bool {
	same := n.OrgID == other.OrgID && n.Issuer == other.Issuer && n.Subject == other.Subject
	return same && (n.Subject != "" || password.Fold(n.Username) == password.Fold(other.Username))
}
