package aigc

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/seed93082962/agenthost/hub/internal/aigc/label"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/rbac"
)

// Values of AIGCKey.Status.
const (
	KeyActive     = "active" // it signs and verifies
	KeyVerifyOnly = "verify-only"
)

// maxListed bounds the keys in Settings. A key that signed a label is never deleted, and their
// number has no bound: a replacement after a leak is never refused, and its audit entry is larger.
const maxListed = 1000

// activeKey returns the id of the active key, or "".
func activeKey(keys []wire.AIGCKey) string {
	for _, k := range keys {
		if k.Status == KeyActive {
			return k.KID
		}
	}

	return ""
}

// addKey creates the active key of the locked tenant, none of whose keys is active.
func (s *Service) addKey(ctx context.Context, tx *store.Tx) (wire.AIGCKey, error) {
	tenantID := tx.Caller.TenantID
	k := wire.AIGCKey{KID: ids.New(), Status: KeyActive, CreatedAt: wire.Time{Time: tx.Now}}
	plain := make([]byte, label.MinSecret)
	_, _ = rand.Read(plain) // it never fails
	return k, insertKey(ctx, tx, tenantID, k.KID, s.store.Keyring.Seal(plain, sealedSecret.Place(k.KID, tenantID)), tx.Now)
}

// open returns the key that signs and verifies.
func (s *Service) open(tenantID, kid string, sealed []byte) (label.Key, error) {
	plain, err := s.store.Keyring.Open(sealed, sealedSecret.Place(kid, tenantID))
	if err != nil {
		return label.Key{}, err
	}

	return label.NewKey(kid, plain)
}

type rotateDetail struct {
	KID         string `json:"kid"`
	PreviousKID string `json:"previousKid"`
}

// RotateKey replaces the active key of the tenant, which is deleted if it signed nothing. It fails
// with wire.NotFound without a configuration, and with wire.Conflict if signing was never enabled.
func (s *Service) RotateKey(ctx context.Context, caller api.Caller) (wire.AIGCRotation, error) {
	var done wire.AIGCRotation
	err := s.store.Change(ctx, store.Change{Caller: caller, Group: rbac.AdminWrite}, func(tx *store.Tx) error {
		st, _, err := lockConfig(ctx, tx, caller.TenantID)
		if err != nil {
			return err
		}

		if st == nil {
			return wire.NotFound.New("Labels are not configured.")
		}

		previous, err := retireKey(ctx, tx, caller.TenantID, tx.Now)
		if err != nil {
			return err
		}

		if previous == "" {
			return wire.Conflict.New("There is no key: enable signing first.")
		}

		k, err := s.addKey(ctx, tx)
		if err != nil {
			return err
		}

		done = wire.AIGCRotation{KID: k.KID, PreviousKID: previous, RotatedAt: k.CreatedAt}
		tx.Record(actionRotateKey.Record(event(caller, st.CompanyName), rotateDetail{k.KID, previous}))
		return nil
	})
	return done, err
}

// Marker labels one answer.
type Marker struct {
	Label label.Label // the implicit label, with a ProduceID of its own
	Mode  Mode        // of the explicit label
	Text  string      // the explicit label
}

// Label returns the labels of one answer of the tenant, or nil if labels are disabled. It reads one
// row: a changed configuration applies to the next answer of every replica. The first label of a
// key is recorded before it is returned, so that the key is never deleted. If the key cannot be
// opened, which is logged, the label has no signature.
func (s *Service) Label(ctx context.Context, tenantID string) (*Marker, error) {
	for {
		st, k, err := readLabeling(ctx, s.store.Read(), tenantID)
		if err != nil || st == nil || !st.Enabled {
			return nil, err
		}

		l, err := label.New(label.Certainty(st.Label), st.ContentProducer, st.ProduceIDPrefix+ids.New())
		if err != nil {
			return nil, err
		}

		marker := &Marker{Label: l, Mode: st.Explicit.Mode, Text: st.Explicit.Text}
		if !st.Signed || k == nil {
			return marker, nil
		}

		if !k.signed {
			exists, err := markSigned(ctx, s.store.DB.Write(), tenantID, k.kid)
			if err != nil {
				return nil, err
			}

			if !exists {
				continue // a rotation has deleted the key in the meantime
			}
		}

		key, err := s.open(tenantID, k.kid, k.sealed)
		if err != nil {
			s.store.Logger.ErrorContext(ctx, "cannot sign a label: rotate the key", "tenant", tenantID, "kid", k.kid, "err", err)
			return marker, nil
		}

		marker.Label = l.Sign(key)
		return marker, nil
	}
}

// Values of AIGCVerification.Reason.
const (
	ReasonUnsigned      = "unsigned"
	ReasonMalformed     = "malformed"   // the label or its signature
	ReasonUnknownKey    = "unknown_key" // not a key of the tenant
	ReasonMismatch      = "mismatch"
	ReasonKeyUnreadable = "key_unreadable" // it cannot be opened with the encryption keys of the hub
)

// Verify reports whether a key of the tenant signed the label, and the producer's fields are
// unchanged since.
func (s *Service) Verify(ctx context.Context, caller api.Caller, l label.Label) (wire.AIGCVerification, error) {
	if err := rbac.AdminWrite.Check(caller); err != nil {
		return wire.AIGCVerification{}, err
	}

	v := wire.AIGCVerification{KID: l.KeyID()}
	var keys []label.Key
	if v.KID != "" {
		sealed, err := readSecret(ctx, s.store.Read(), caller.TenantID, v.KID)
		if err != nil {
			return wire.AIGCVerification{}, err
		}

		if sealed != nil {
			key, err := s.open(caller.TenantID, v.KID, sealed)
			if err != nil {
				v.Reason = ReasonKeyUnreadable
				return v, nil //nolint:nilerr // it is the result
			}

			keys = append(keys, key)
		}
	}

	err := l.Verify(keys...)
	switch {
	case err == nil:
		v.Valid = true
	case errors.Is(err, label.ErrUnsigned):
		v.Reason = ReasonUnsigned
	case errors.Is(err, label.ErrUnknownKey):
		v.Reason = ReasonUnknownKey
	case errors.Is(err, label.ErrMismatch):
		v.Reason = ReasonMismatch
	default:
		v.Reason = ReasonMalformed
	}

	return v, nil
}
