package identity

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/db"
)

// RetireKey replaces the key that signs access tokens and deletes all former ones, so that every
// token they signed is rejected: by this process immediately, by the others within 2 seconds.
// Sessions continue with their next refresh.
func (s *Service) RetireKey(ctx context.Context) error {
	key, err := newKey(s.cfg.Keyring)
	if err != nil {
		return err
	}
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		if err := lockKeys(ctx, tx); err != nil {
			return err
		}
		former, err := deleteKeys(ctx, tx)
		if err != nil {
			return err
		}
		if err := insertFirstKey(ctx, tx, key, s.now()); err != nil {
			return db.Wrap("store signing key", err)
		}
		e := auditlog.Event{TenantID: SystemTenant, TargetType: targetKey, TargetID: key.id}
		return s.record(ctx, tx, actionRetireKey.Record(e, retireKeyDetail{former}))
	})
	if err != nil {
		return fmt.Errorf("retire signing key: %w", err)
	}
	if s.keys != nil {
		return s.keys.load(ctx)
	}
	return nil
}
