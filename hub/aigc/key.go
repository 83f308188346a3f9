package aigc

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/seed93082962/agenthost/hub/aigc/label"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/secret"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/rbac"
)

// Values of Key.Status.
const (
	KeyActive     = "active" // it signs and verifies
	KeyVerifyOnly = "verify-only"
)

const (
	// maxKeys bounds the keys of a tenant that signed labels, which are never deleted: one for each
	// day of some years.
	maxKeys = 1000

	maxRotations = 10 // keys that follow another one in rotationTime
	rotationTime = 24 * time.Hour
)

// key is a row of the table. A zero RetiredAt is NULL.
type key struct {
	KID       string
	tenantID  string
	signed    bool // a label, which must remain verifiable
	sealed    []byte
	CreatedAt time.Time
	RetiredAt time.Time
}

func (k key) active() bool { return k.RetiredAt.IsZero() }

// Key describes a key that signs labels. Its secret is never returned.
type Key struct {
	KID       string   `json:"kid"`
	Status    string   `json:"status"`
	CreatedAt api.Time `json:"createdAt"`
}

func (k key) view() Key {
	v := Key{KID: k.KID, Status: KeyVerifyOnly, CreatedAt: api.Time(k.CreatedAt)}
	if k.active() {
		v.Status = KeyActive
	}
	return v
}

// activeKey returns the id of the active key, or "".
func activeKey(keys []key) string {
	if i := slices.IndexFunc(keys, key.active); i >= 0 {
		return keys[i].KID
	}
	return ""
}

func (k key) place() []byte { return secret.AAD("aigc_keys", "secret_enc", k.KID, k.tenantID) }

// formerPlace is the place of keys that earlier versions sealed.
func (k key) formerPlace() []byte { return secret.AAD("aigc_keys", "secret_enc", k.KID) }

// addKey creates the active key of the locked tenant, which has the given keys, none of them
// active.
func (s *Service) addKey(ctx context.Context, tx *sql.Tx, tenantID string, keys []key) (key, error) {
	if len(keys) >= maxKeys {
		return key{}, api.Conflict.New(fmt.Sprintf("There are %d keys already, and labels that they signed must remain verifiable.", maxKeys))
	}
	if len(keys) > 0 {
		wait, err := countRotation(ctx, tx, tenantID, s.now())
		if err != nil {
			return key{}, err
		}
		if wait > 0 {
			return key{}, &api.Error{
				Code: api.RateLimited, RetryAfter: wait, Message: fmt.Sprintf("The key was replaced %d times within a day: wait for the time in Retry-After.", maxRotations),
			}
		}
	}
	k := key{KID: ids.New(), tenantID: tenantID, CreatedAt: s.now()}
	plain := make([]byte, label.MinSecret)
	_, _ = rand.Read(plain) // it never fails
	k.sealed = s.cfg.Keyring.Seal(plain, k.place())
	return k, insertKey(ctx, tx, k)
}

// open returns the key that signs and verifies.
func (s *Service) open(k key) (label.Key, error) {
	plain, err := s.cfg.Keyring.Open(k.sealed, k.place())
	if err != nil {
		return label.Key{}, err
	}
	return label.NewKey(k.KID, plain)
}

// Rotation is the result of RotateKey.
type Rotation struct {
	KID         string   `json:"kid"`
	PreviousKID string   `json:"previousKid"`
	RotatedAt   api.Time `json:"rotatedAt"`
}

// RotateKey replaces the active key of the tenant, which is deleted if it signed nothing. It fails
// with api.NotFound without a configuration, with api.Conflict if signing was never enabled, and
// with api.RateLimited after 10 rotations in a day.
func (s *Service) RotateKey(ctx context.Context, caller api.Caller) (Rotation, error) {
	if err := rbac.AdminWrite.Check(caller); err != nil {
		return Rotation{}, err
	}
	var done Rotation
	err := s.db.Tx(ctx, func(tx *sql.Tx) error {
		st, _, err := lockConfig(ctx, tx, caller.TenantID)
		if err != nil {
			return err
		}
		if st == nil {
			return api.NotFound.New("Labels are not configured.")
		}
		now := s.now()
		keys, err := keysOf(ctx, tx, caller.TenantID)
		if err != nil {
			return err
		}
		previous, err := retireKey(ctx, tx, caller.TenantID, now)
		if err != nil {
			return err
		}
		if previous == "" {
			return api.Conflict.New("There is no key: enable signing first.")
		}
		k, err := s.addKey(ctx, tx, caller.TenantID, keys)
		if err != nil {
			return err
		}
		done = Rotation{k.KID, previous, api.Time(now)}
		return s.record(ctx, tx, actionRotateKey.Record(event(caller, *st), rotateDetail{k.KID, previous}))
	})
	return done, err
}
