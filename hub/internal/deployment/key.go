package deployment

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/wire"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/rbac"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/client"
)

// content is the sealed part of a deployment.
type content struct {
	APIKey  agent.Secret `json:"apiKey"`
	NextKey agent.Secret `json:"nextKey,omitempty"` // of a rotation that was offered
	Former  agent.Secret `json:"former,omitempty"`  // key of a rotation that was replaced
	Salt    string       `json:"salt"`              // of the hash
}

// newContent returns a content with a new API key and salt.
func newContent() content { return content{APIKey: newAPIKey(), Salt: random()} }

func random() string {
	var b [24]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

// newUID returns a UID, which is short because it is part of paths.
func newUID() string { return random()[:12] }

const deployAgain = "delete the deployment and deploy the agent again"

// sealedColumn is the column of the sealed parts. A deployment does not work without its own.
var sealedColumn = store.Sealed{
	Table: "deployments", Column: "sealed", ID: "key", Bound: []string{"tenant_id"}, Unbound: true, Advice: deployAgain,
}

// Sealed returns the sealed columns of this package.
func Sealed() []store.Sealed { return []store.Sealed{sealedColumn, sealedRequest} }

// seal sets the sealed part of d and the digest of its API key.
func (s *Service) seal(d *deployment, c content) error {
	text, err := json.Marshal(c) // it is sealed below
	if err != nil {
		return fmt.Errorf("seal deployment: %w", err)
	}

	d.Sealed, d.KeyDigest = s.store.Keyring.Seal(text, sealedColumn.Place(d.Key, d.TenantID)), digest(c.APIKey)
	return nil
}

func (s *Service) open(d deployment) (content, error) {
	var c content
	err := s.unseal(&c, d.Sealed, sealedColumn.Place(d.Key, d.TenantID))
	if err != nil {
		return c, fmt.Errorf("open deployment %s: %w", d.Key, err)
	}

	return c, nil
}

// unseal decodes a sealed part of a row into v.
func (s *Service) unseal(v any, sealed, place []byte) error {
	text, err := s.store.Keyring.Open(sealed, place)
	if err != nil {
		return err
	}

	return json.Unmarshal(text, v)
}

// Values of deployment.Rotation.
const (
	rotationOffered  = "offered"  // the runtime gets the next key in addition
	rotationReplaced = "replaced" // the next key is the key; the runtime may still accept the former one
)

// formerKeyFor is how long a runtime accepts the former key after it was replaced: other hubs may
// still have it in their cache.
const formerKeyFor = 2 * endpointTTL

func newAPIKey() agent.Secret { return agent.Secret("rt_" + random()) }

func digest(key agent.Secret) []byte {
	sum := sha256.Sum256([]byte(key))
	return sum[:]
}

// RotateKey replaces the API key of a deployment without ending its runs. The former key is valid
// until the runtime accepts the new one. It has no effect while a rotation is in progress. It fails
// with code.AgentNotDeployed if there is no deployment.
func (s *Service) RotateKey(ctx context.Context, caller api.Caller, name string) (wire.Deployment, error) {
	d, err := s.change(ctx, caller, name, func(ctx context.Context, tx *store.Tx, d deployment) (deployment, error) {
		return s.rotateKey(ctx, tx, caller, d)
	})
	if err != nil {
		return wire.Deployment{}, err
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
	return updateDesired(ctx, tx, d)
}

// replaceKey gives the deployment a new API key, which its runtime gets with the next revision. No
// other revision serves or drains then.
func (s *Service) replaceKey(ctx context.Context, tx *store.Tx, d *deployment) error {
	c, err := s.open(*d)
	if err != nil {
		return err
	}

	c = content{APIKey: newAPIKey(), Salt: c.Salt}
	d.Rotation = ""
	if err := s.seal(d, c); err != nil {
		return err
	}

	d.Serving, d.Draining = 0, []int64{}
	return s.repeat(ctx, tx, d, d.Revision, d.Revision+1)
}

// EndTenant replaces the API keys of all deployments of a tenant, and stops them if stop is true:
// who had access to the tenant may know the keys. A running deployment is otherwise started again
// with its new key. It returns their number.
func (s *Service) EndTenant(ctx context.Context, tx *store.Tx, tenantID string, stop bool) (n int, err error) {
	all, err := lockDeploymentsOf(ctx, tx, tenantID)
	if err != nil {
		return n, err
	}

	for _, d := range all {
		if d.Desired == desiredAbsent {
			continue
		}

		if err := deleteReaders(ctx, tx, d.TenantID, d.KeyDigest); err != nil {
			return n, err
		}

		d.begin(StateDeploying)
		err := s.replaceKey(ctx, tx, &d)
		if err != nil { // it can only be deleted and deployed again
			s.store.Logger.Warn("the key of a deployment cannot be replaced: it stops", "deployment", d.Key, "err", err)
		}

		if stop || err != nil || d.Desired == desiredStopped {
			d.Desired, d.State = desiredStopped, StateStopping
		}

		if _, err := updateDesired(ctx, tx, d); err != nil {
			return n, err
		}

		tx.AfterCommit(func() { s.changed(d) })
		n++
	}

	return n, nil
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

// keys returns the API keys of runtimes, as Request.Env has them: the next one is valid as soon as
// it is the key.
func (c content) keys() []agent.Secret {
	if c.NextKey != "" {
		return []agent.Secret{c.APIKey, c.NextKey}
	}

	return []agent.Secret{c.APIKey}
}

// rotate makes one step of a rotation. The runtimes accept both keys until all hubs use the next
// one, so that no request fails.
func (w *worker) rotate(ctx context.Context, d *deployment, main deploy.Runtime) error {
	c, err := w.s.open(*d)
	if err != nil {
		return err
	}

	if w.rotation != d.Rotation {
		w.rotation, w.rotatedAt, w.restarts = d.Rotation, time.Now(), 0
	}

	replaced := d.Rotation == rotationReplaced
	if replaced && main.Phase == deploy.Running && time.Since(w.rotatedAt) < formerKeyFor {
		return nil
	}

	w.called = true
	if err := w.s.driver.SetKeys(ctx, w.ref, c.keys()); err != nil {
		return err
	}

	if main.Phase == deploy.Running {
		followed := false
		if replaced {
			e, rejected := errors.AsType[*client.Error](w.probe(ctx, *d, main.URL, c.Former))
			followed = c.Former == "" || rejected && e.Status == http.StatusUnauthorized
		} else {
			followed = w.probe(ctx, *d, main.URL, c.NextKey) == nil
		}

		starting := d.Serving != d.Revision && (d.Rollout == nil || d.Rollout.State != wire.StateFailed)
		switch {
		case !followed && (starting || time.Since(w.rotatedAt) < w.s.cfg.StartTimeout<<min(w.restarts, maxRestarts)):
			return nil
		case !followed: // the runtime cannot take other keys while it runs: the next revision has them
			w.rotatedAt = time.Now()
			w.restarts++
			return w.saveKey(ctx, d, w.s.restart)
		}
	}

	return w.saveKey(ctx, d, func(_ context.Context, _ *sql.Tx, d *deployment) error {
		c := c
		if replaced {
			c.Former, d.Rotation = "", ""
		} else {
			c.Former = c.APIKey
			c.APIKey, c.NextKey = c.NextKey, ""
			d.Rotation = rotationReplaced
		}

		return w.s.seal(d, c)
	})
}

// maxRestarts is the number of restarts for a rotation until the pause between them, which doubles,
// remains: an hour.
const maxRestarts = 6

// restart makes a revision start that has the request of the one that serves: the last one if that
// has failed, and otherwise the next one.
func (s *Service) restart(ctx context.Context, tx *sql.Tx, d *deployment) error {
	serving, err := readRevision(ctx, tx, *d, d.main())
	if err != nil {
		return err
	}

	d.Rollout = nil
	if d.main() != d.Revision && d.SpecHash == serving.SpecHash {
		return nil
	}

	return s.repeat(ctx, tx, d, serving.Number, d.Revision+1)
}

// saveKey stores a step of a rotation, unless this hub has lost the deployment or a user changed
// it.
func (w *worker) saveKey(ctx context.Context, d *deployment, change func(context.Context, *sql.Tx, *deployment) error) error {
	next := *d
	err := w.own(ctx, func(tx *sql.Tx) error {
		next = *d
		if err := change(ctx, tx, &next); err != nil {
			return err
		}

		if err := saveHeld(ctx, tx, next); err != nil || string(d.KeyDigest) == string(next.KeyDigest) {
			return err
		}

		return deleteReaders(ctx, tx, d.TenantID, d.KeyDigest)
	})
	w.s.endpoints.forget(d.agentRef())
	if err == nil {
		*d = next
	}

	return err
}
