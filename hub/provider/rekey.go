package provider

import (
	"context"

	"github.com/seed93082962/agenthost/hub/db"
)

// rekeyBatch is the number of keys that Rekey holds in memory.
const rekeyBatch = 100

// Rekey seals all keys with the first key of the keyring, and returns the number of those that were
// sealed with another one. It may run concurrently with changes: a key that is replaced meanwhile
// is sealed by its change. A key that cannot be opened is logged and stays as it is.
func (s *Service) Rekey(ctx context.Context) (n int, err error) {
	for after := ""; ; {
		keys, err := sealedKeys(ctx, s.db.Write(), after, rekeyBatch)
		if err != nil {
			return n, err
		}
		for _, k := range keys {
			after = k.providerID
			done, err := s.rekey(ctx, k)
			if err != nil {
				return n, db.Wrap("rekey", err)
			}
			n += done
		}
		if len(keys) < rekeyBatch {
			return n, nil
		}
	}
}

func (s *Service) rekey(ctx context.Context, k sealedKey) (int, error) {
	fresh, err := s.cfg.Keyring.Reseal(k.sealed, place(k.providerID))
	if err != nil {
		s.cfg.Logger.ErrorContext(ctx, "cannot seal the key of a provider again: enter the key again, or delete the provider",
			"tenant", k.tenantID, "provider", k.providerID, "err", err)
	}
	if err != nil || fresh == nil {
		return 0, nil
	}
	replaced, err := replaceSealedKey(ctx, s.db.Write(), k, fresh)
	if err != nil || !replaced {
		return 0, err
	}
	return 1, nil
}
