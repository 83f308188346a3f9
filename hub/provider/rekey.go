package provider

import (
	"context"

	"github.com/seed93082962/agenthost/hub/db"
)

// rekeyBatch is the number of keys that Rekey holds in memory.
const rekeyBatch = 100

// Rekey seals all keys with the first key of the keyring, and returns the number of those that were
// sealed with another one. It may run concurrently with changes: a key that is replaced in the
// meantime is sealed by its change. A key that cannot be opened is logged and stays as it is.
func (s *Service) Rekey(ctx context.Context) (int, error) {
	return s.resealAll(ctx, s.cfg.Keyring.Reseal)
}

// Bind binds the keys that an earlier version sealed to their tenant and base URL, and returns
// their number. No other function opens them. Call it before the service is used.
func (s *Service) Bind(ctx context.Context) (int, error) {
	return s.resealAll(ctx, s.cfg.Keyring.Rebind)
}

func (s *Service) resealAll(ctx context.Context, reseal func(sealed, aad, former []byte) ([]byte, error)) (n int, err error) {
	for after := ""; ; {
		all, err := sealedKeys(ctx, s.db.Write(), after, rekeyBatch)
		if err != nil {
			return n, err
		}
		for _, p := range all {
			after = p.ID
			fresh, err := reseal(p.SealedKey, p.place(), p.formerPlace())
			if err != nil {
				s.cfg.Logger.ErrorContext(ctx, "cannot seal the key of a provider again: enter the key again, or delete the provider",
					"tenant", p.TenantID, "provider", p.ID, "err", err)
			}
			if fresh == nil {
				continue
			}
			replaced, err := replaceSealedKey(ctx, s.db.Write(), p, fresh)
			if err != nil {
				return n, db.Wrap("rekey", err)
			}
			if replaced {
				n++
			}
		}
		if len(all) < rekeyBatch {
			return n, nil
		}
	}
}
