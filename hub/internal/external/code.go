package external

import (
	"context"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/session"
)

// CodeUser returns who exchanges a code, which stays valid.
func (s *Service) CodeUser(ctx context.Context, code, browser string) (session.Name, error) {
	if code == "" {
		return session.Name{}, api.Fields{"code": "must not be empty"}
	}

	return readCode(ctx, s.store.Read(), hash(code), hash(browser), s.store.Now())
}
