package aigc

import (
	"context"

	"github.com/seed93082962/agenthost/hub/db"
)

// rekeyBatch is the number of keys that Rekey holds in memory.
const rekeyBatch = 100

// Rekey seals the keys of all tenants with the first key of the keyring, and returns the number of
// those that were sealed with another one. It may run concurrently with changes. A key that cannot
// be opened is logged and stays as it is.
func (s *Service) Rekey(ctx context.Context) (n int, err error) {
	for after := ""; ; {
		keys, err := sealedKeys(ctx, s.db.Write(), after, rekeyBatch)
		if err != nil {
			return n, err
		}
		for _, k := range keys {
			after = k.KID
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
	fresh, err := s.cfg.Keyring.Reseal(k.sealed, place(k.KID))
	if err != nil {
		s.cfg.Logger.ErrorContext(ctx, "cannot seal a key for labels again: labels that it signed cannot be verified", "tenant", k.tenantID, "kid", k.KID, "err", err)
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
