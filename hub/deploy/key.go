package deploy

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/store"
	"github.com/seed93082962/agenthost/rbac"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// content is the sealed part of a deployment.
type content struct {
	APIKey  agent.Secret `json:"apiKey"`
	NextKey agent.Secret `json:"nextKey,omitempty"` // of a rotation
	Salt    string       `json:"salt"`              // of the hash
	Request Request      `json:"request"`
}

// newContent returns a content with a new API key and salt.
func newContent() content { return content{APIKey: newAPIKey(), Salt: random()} }

const keyBytes = 24

func random() string {
	var b [keyBytes]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

// sealedColumn is the column of the sealed parts. Nothing works without them.
var sealedColumn = store.Sealed{
	Table: "deployments", Column: "sealed", ID: "key", Bound: []string{"tenant_id"}, Unbound: true, Required: true,
}

// Sealed returns the sealed columns of this package.
func Sealed() []store.Sealed { return []store.Sealed{sealedColumn} }

// seal sets the sealed part of d and the digest of its API key.
func (s *Service) seal(d *deployment, c content) error {
	text, err := json.Marshal(c) // it is sealed below
	if err != nil {
		return fmt.Errorf("seal deployment: %w", err)
	}
	d.Sealed, d.KeyDigest = s.store.Keyring.Seal(text, sealedColumn.Place(d.Key, d.TenantID)), digest(c.APIKey)
	return nil
}

func (s *Service) open(d deployment) (c content, err error) {
	text, err := s.store.Keyring.Open(d.Sealed, sealedColumn.Place(d.Key, d.TenantID))
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		return c, fmt.Errorf("open deployment %s: %w", d.Key, err)
	}
	return c, nil
}

// Values of deployment.Rotation.
const (
	rotationOffered  = "offered"  // the runtime gets the next key in addition
	rotationReplaced = "replaced" // the next key is the key; the runtime may still accept the former one
)

// formerKeyFor is how long a runtime accepts the former key after it was replaced: other hubs may
// still have it in their cache.
const formerKeyFor = 2 * endpointTTL

const keyPrefix = "rt_"

func newAPIKey() agent.Secret { return agent.Secret(keyPrefix + random()) }

// isAPIKey reports whether a text has the form of an API key.
func isAPIKey(s string) bool {
	digits, ok := strings.CutPrefix(s, keyPrefix)
	b, err := hex.DecodeString(digits)
	return ok && err == nil && len(b) == keyBytes
}

func digest(key agent.Secret) []byte {
	sum := sha256.Sum256([]byte(key))
	return sum[:]
}

// RotateKey replaces the API key of a deployment without ending its runs. The former key is valid
// until the runtime accepts the new one. It has no effect while a rotation is in progress. It fails
// with api.AgentNotDeployed if there is no deployment.
func (s *Service) RotateKey(ctx context.Context, caller api.Caller, name string) (Status, error) {
	d, err := s.change(ctx, caller, name, func(ctx context.Context, tx *store.Tx, d deployment) (deployment, error) {
		return s.rotateKey(ctx, tx, caller, d)
	})
	if err != nil {
		return Status{}, err
	}
	return s.status(ctx, caller, d)
}

// RotateKeysReadBy rotates the keys that a user has read, unless the role permits to read them. It
// is called in the transaction that changes the role, or that removes or disables the user, without
// a role, so that no such key remains.
func (s *Service) RotateKeysReadBy(ctx context.Context, tx *store.Tx, caller api.Caller, tenantID, userID string, role rbac.Role) error {
	if s.readsKeys(role) {
		return nil
	}
	// A user who reads a key at this moment has the lock, or finds the access ended.
	all, err := lockDeploymentsOf(ctx, tx, tenantID)
	if err != nil {
		return err
	}
	names, err := readKeysOf(ctx, tx, tenantID, userID)
	if err != nil {
		return err
	}
	for _, d := range all {
		if slices.Contains(names, d.AgentName) {
			if _, err := s.rotateKey(ctx, tx, caller, d); err != nil {
				return err
			}
		}
	}
	return nil
}

// readsKeys reports whether users with the role may read API keys.
func (s *Service) readsKeys(role rbac.Role) bool {
	return rbac.AdminWrite.Allows(role) || !s.cfg.HideAPIKey && rbac.AdminRead.Allows(role)
}

// rotateKey creates the next key of a locked deployment, unless it has one.
func (s *Service) rotateKey(ctx context.Context, tx *store.Tx, caller api.Caller, d deployment) (deployment, error) {
	if d.Rotation == rotationOffered {
		return d, nil
	}
	c, err := s.open(d)
	if err != nil {
		return d, err
	}
	c.NextKey, d.Rotation = newAPIKey(), rotationOffered
	if err := s.seal(&d, c); err != nil {
		return d, err
	}
	tx.Record(actionRotateKey.Record(d.event(caller), keyDetail{d.Key}))
	return d, updateKey(ctx, tx, d)
}

// replaceKey gives the deployment a new API key, which its runtime gets with the next revision.
func (s *Service) replaceKey(d *deployment) error {
	c, err := s.open(*d)
	if err != nil {
		return err
	}
	c.APIKey, c.NextKey, d.Rotation = newAPIKey(), "", ""
	if c.Request.Env == nil {
		c.Request.Env = map[string]agent.Secret{}
	}
	c.Request.Env[EnvAPIKey] = c.APIKey
	d.Revision++
	return s.seal(d, c)
}

// revealKey records that the caller reads the API key of a deployment.
func (s *Service) revealKey(ctx context.Context, caller api.Caller, d deployment) error {
	if caller.UserID == "" || d.KeyDigest == nil { // an old row is indexed with the reader anyone
		return nil
	}
	known, err := hasRead(ctx, s.store.Read(), d, caller.UserID)
	if err != nil || known {
		return err
	}
	return s.store.DB.Tx(ctx, func(tx *sql.Tx) error {
		// The lock orders this with the end of the deployment, which deletes the readers.
		if _, err := lockDeployment(ctx, tx, d.TenantID, d.AgentName); err != nil && !errors.Is(err, errNoDeployment) {
			return err
		}
		return insertReader(ctx, tx, d, caller.UserID)
	})
}

// indexKeys stores the digests of the keys of rows that an older version created.
func (s *Service) indexKeys(ctx context.Context) error {
	return s.store.DB.Tx(ctx, func(tx *sql.Tx) error {
		all, err := readUnindexed(ctx, tx)
		if err != nil {
			return err
		}
		for _, d := range all {
			c, err := s.open(d)
			if err != nil {
				return err
			}
			d.KeyDigest = digest(c.APIKey)
			if err := indexKey(ctx, tx, d); err != nil {
				return err
			}
			if err := insertReader(ctx, tx, d, anyone); err != nil {
				return err
			}
		}
		return nil
	})
}

// rotate makes one step of a rotation, and reports whether the row changed. The runtime accepts
// both keys until all hubs use the next one, so that no request fails.
func (w *worker) rotate(ctx context.Context, d deployment, obs Observed) (bool, error) {
	c, err := w.s.open(d)
	if err != nil {
		return false, err
	}
	claim, err := w.claim()
	if err != nil {
		return false, err
	}
	former, serving := d.KeyDigest, obs.Phase == Running && obs.Revision == d.Revision
	if w.rotation != d.Rotation {
		w.rotation, w.rotatedAt = d.Rotation, time.Now()
	}
	switch {
	case d.Rotation == rotationReplaced:
		if serving && time.Since(w.rotatedAt) < formerKeyFor {
			return false, nil
		}
		if err := w.s.driver.SetKeys(ctx, claim, []agent.Secret{c.APIKey}); err != nil {
			return false, err
		}
		d.Rotation = ""
		return w.saveKey(ctx, d, former)
	case serving:
		if err := w.s.driver.SetKeys(ctx, claim, []agent.Secret{c.APIKey, c.NextKey}); err != nil {
			return false, err
		}
		if err := w.probe(ctx, d, obs.URL, c.NextKey); err != nil {
			if time.Since(w.rotatedAt) < w.s.cfg.StartTimeout {
				return false, nil
			}
			d.Revision++ // it cannot take a new key while it runs: it is started again
		}
	}
	c.APIKey, c.NextKey = c.NextKey, ""
	c.Request.Env[EnvAPIKey] = c.APIKey
	if err := w.s.seal(&d, c); err != nil {
		return false, err
	}
	d.Rotation = rotationReplaced
	return w.saveKey(ctx, d, former)
}

// saveKey stores a step of a rotation, unless the lease was lost or a user changed the deployment.
func (w *worker) saveKey(ctx context.Context, d deployment, former []byte) (stored bool, err error) {
	err = w.s.store.DB.Tx(ctx, func(tx *sql.Tx) (err error) {
		if stored, err = saveKeyHeld(ctx, tx, d); err != nil || !stored || string(former) == string(d.KeyDigest) {
			return err
		}
		return deleteReaders(ctx, tx, d.TenantID, former)
	})
	w.s.endpoints.forget(d.agentRef())
	return stored, err
}
