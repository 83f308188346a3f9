package aigc

import (
	"context"
	"errors"

	"github.com/seed93082962/agenthost/hub/aigc/label"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/rbac"
)

// Marker labels one answer.
type Marker struct {
	Label label.Label // the implicit label, with a ProduceID of its own
	Mode  Mode        // of the explicit label
	Text  string      // the explicit label
}

// Label returns the labels of one answer of the tenant, or nil if labels are disabled. It reads one
// row: a changed configuration applies to the next answer of every replica. The first label of a key
// is recorded before it is returned, so that the key is never deleted. If the key cannot be
// opened, which is logged, the label has no signature.
func (s *Service) Label(ctx context.Context, tenantID string) (*Marker, error) {
	st, k, err := s.labeling(ctx, tenantID)
	if err != nil || st == nil || !st.Enabled {
		return nil, err
	}
	l, err := label.New(st.Label, st.ContentProducer, st.ProduceIDPrefix+ids.New())
	if err != nil {
		return nil, err
	}
	if st.Signed && k != nil {
		signing, err := s.open(*k)
		if err == nil {
			l = l.Sign(signing)
		} else {
			s.cfg.Logger.ErrorContext(ctx, "cannot sign a label: rotate the key", "tenant", tenantID, "kid", k.KID, "err", err)
		}
	}
	return &Marker{l, st.Explicit.Mode, st.Explicit.Text}, nil
}

// labeling returns the configuration of the tenant, or nil, and the key that signs, or nil.
func (s *Service) labeling(ctx context.Context, tenantID string) (*stored, *key, error) {
	for {
		st, k, err := readLabeling(ctx, s.db.Read(), tenantID)
		if err != nil || st == nil || !st.Enabled || !st.Signed || k == nil || k.signed {
			return st, k, err
		}
		exists, err := markSigned(ctx, s.db.Write(), *k)
		if err != nil || exists {
			return st, k, err
		}
		// A rotation has deleted the key in the meantime.
	}
}

// Values of Verification.Reason.
const (
	ReasonUnsigned      = "unsigned"
	ReasonMalformed     = "malformed"   // the label or its signature
	ReasonUnknownKey    = "unknown_key" // not a key of the tenant
	ReasonMismatch      = "mismatch"
	ReasonKeyUnreadable = "key_unreadable" // it cannot be opened with the encryption keys of the hub
)

// Verification is the result of Verify.
type Verification struct {
	Valid  bool   `json:"valid"`
	Reason string `json:"reason,omitempty"` // one of the Reason constants; "" if Valid
	KID    string `json:"kid,omitempty"`    // that the label names
}

// Verify reports whether a key of the tenant signed the label, and the producer's fields are
// unchanged since.
func (s *Service) Verify(ctx context.Context, caller api.Caller, l label.Label) (Verification, error) {
	if err := rbac.AdminWrite.Check(caller); err != nil {
		return Verification{}, err
	}
	v := Verification{KID: l.KeyID()}
	var keys []label.Key
	if v.KID != "" {
		k, found, err := keyByID(ctx, s.db.Read(), caller.TenantID, v.KID)
		if err != nil {
			return Verification{}, err
		}
		if found {
			opened, err := s.open(k)
			if err != nil {
				v.Reason = ReasonKeyUnreadable
				return v, nil //nolint:nilerr // it is the result
			}
			keys = append(keys, opened)
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
