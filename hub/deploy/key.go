package deploy

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/rbac"
	"github.com/seed93082962/agenthost/runtime/agent"
)

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
	if err := s.allow(caller, rbac.AdminWrite); err != nil {
		return Status{}, err
	}
	if _, err := s.cfg.Source(ctx, caller.TenantID, name); errors.Is(err, api.NotFound) {
		return Status{}, err
	}
	var d deployment
	err := s.db.Tx(ctx, func(tx *sql.Tx) (err error) {
		d, err = s.rotateKey(ctx, tx, caller, caller.TenantID, name)
		return err
	})
	if err != nil {
		return Status{}, err
	}
	s.changed(d)
	return s.Status(ctx, caller, name)
}

// RotateKeysReadBy rotates the keys that a user has read, unless the role permits to read them. It
// is called in the transaction that changes the role, or that removes or disables the user, without
// a role, so that no such key remains.
func (s *Service) RotateKeysReadBy(ctx context.Context, tx *sql.Tx, caller api.Caller, tenantID, userID string, role rbac.Role) error {
	if s.readsKeys(role) {
		return nil
	}
	// A user who reads a key at this moment has the lock, or finds the access ended.
	if _, err := lockDeploymentsOf(ctx, tx, tenantID); err != nil {
		return err
	}
	names, err := readKeysOf(ctx, tx, tenantID, userID)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, err := s.rotateKey(ctx, tx, caller, tenantID, name); err != nil && !errors.Is(err, api.AgentNotDeployed) {
			return err
		}
	}
	return nil
}

// readsKeys reports whether users with the role may read API keys.
func (s *Service) readsKeys(role rbac.Role) bool {
	return rbac.AdminWrite.Allows(role) || !s.cfg.HideAPIKey && rbac.AdminRead.Allows(role)
}

// rotateKey creates the next key of a deployment, unless it has one.
func (s *Service) rotateKey(ctx context.Context, tx *sql.Tx, caller api.Caller, tenantID, name string) (deployment, error) {
	d, err := lockDeployment(ctx, tx, tenantID, name)
	if errors.Is(err, errNoDeployment) || err == nil && d.Desired == desiredAbsent {
		return d, api.AgentNotDeployed
	}
	if err != nil || d.Rotation == rotationOffered {
		return d, err
	}
	c, err := s.open(d)
	if err != nil {
		return d, err
	}
	c.NextKey, d.Rotation = newAPIKey(), rotationOffered
	if err := s.seal(&d, c); err != nil {
		return d, err
	}
	if err := updateKey(ctx, tx, d); err != nil {
		return d, err
	}
	event := d.event(caller)
	event.TenantID = tenantID
	return d, s.cfg.Audit.AppendTx(ctx, tx, actionRotateKey.Record(event, keyDetail{d.Key}))
}

// revealKey records that the caller reads the API key of a deployment.
func (s *Service) revealKey(ctx context.Context, caller api.Caller, d deployment) error {
	if caller.UserID == "" || d.KeyDigest == nil { // an old row is indexed with the reader anyone
		return nil
	}
	known, err := hasRead(ctx, s.db.Read(), d, caller.UserID)
	if err != nil || known {
		return err
	}
	return s.db.Tx(ctx, func(tx *sql.Tx) error {
		// The lock orders this with the end of the deployment, which deletes the readers.
		if _, err := lockDeployment(ctx, tx, d.TenantID, d.AgentName); err != nil && !errors.Is(err, errNoDeployment) {
			return err
		}
		return insertReader(ctx, tx, d, caller.UserID)
	})
}

// indexKeys stores the digests of the keys of rows that an older version created.
func (s *Service) indexKeys(ctx context.Context) error {
	return s.db.Tx(ctx, func(tx *sql.Tx) error {
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
		if err := w.s.cfg.Driver.SetKeys(ctx, claim, []agent.Secret{c.APIKey}); err != nil {
			return false, err
		}
		d.Rotation = ""
		return w.saveKey(ctx, d, former)
	case serving:
		if err := w.s.cfg.Driver.SetKeys(ctx, claim, []agent.Secret{c.APIKey, c.NextKey}); err != nil {
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
	err = w.s.db.Tx(ctx, func(tx *sql.Tx) (err error) {
		if stored, err = saveKeyHeld(ctx, tx, d); err != nil || !stored || string(former) == string(d.KeyDigest) {
			return err
		}
		return deleteReaders(ctx, tx, d.TenantID, former)
	})
	w.s.endpoints.forget(place{d.TenantID, d.AgentName})
	return stored, err
}
