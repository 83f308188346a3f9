package provider

import (
	"context"
	"database/sql"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/rbac"
)

// RevealedKey is the key of a provider.
type RevealedKey struct {
	APIKey string `json:"apiKey"`
}

// RevealKey returns the key of a provider. It fails with api.NotFound if it has none, and with
// api.Conflict if the key cannot be opened.
func (s *Service) RevealKey(ctx context.Context, caller api.Caller, id string) (RevealedKey, error) {
	if err := rbac.AdminWrite.Check(caller); err != nil {
		return RevealedKey{}, err
	}
	var key string
	err := s.db.Tx(ctx, func(tx *sql.Tx) error {
		p, err := find(ctx, tx, caller.TenantID, id)
		if err != nil {
			return err
		}
		if p.SealedKey == nil {
			return api.NotFound.New("The provider has no key.")
		}
		if key, err = s.usableKey(p); err != nil {
			return err
		}
		return s.record(ctx, tx, actionRevealKey.Record(p.event(caller.Event()), auditlog.None{}))
	})
	if err != nil {
		return RevealedKey{}, err
	}
	return RevealedKey{key}, nil
}
