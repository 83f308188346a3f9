package deploy

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/hub/secret"
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

func (d deployment) place() []byte { return secret.AAD("deployments", "sealed", d.Key, d.TenantID) }

// formerPlace is the place of what earlier versions sealed.
func (d deployment) formerPlace() []byte { return secret.AAD("deployments", "sealed", d.Key) }

// seal sets the sealed part of d and the digest of its API key.
func (s *Service) seal(d *deployment, c content) error {
	text, err := json.Marshal(c) //nolint:gosec // it is sealed below
	if err != nil {
		return fmt.Errorf("seal deployment: %w", err)
	}
	d.Sealed, d.KeyDigest = s.cfg.Keyring.Seal(text, d.place()), digest(c.APIKey)
	return nil
}

func (s *Service) open(d deployment) (c content, err error) {
	text, err := s.cfg.Keyring.Open(d.Sealed, d.place())
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		return c, fmt.Errorf("open deployment %s: %w", d.Key, err)
	}
	return c, nil
}

// Rekey seals all requests with the first key of the keyring, and returns the number of those that
// were sealed with another one.
func (s *Service) Rekey(ctx context.Context) (int, error) {
	return resealAll(ctx, s.db, s.cfg.Keyring.Reseal)
}

// Bind binds the requests that an earlier version sealed to their tenant, and returns their number.
// No function of a Service opens them. Call it before [New].
func Bind(ctx context.Context, d *db.DB, ring *secret.Keyring) (int, error) {
	return resealAll(ctx, d, ring.Rebind)
}

// resealBatch is the number of requests that resealAll holds in memory.
const resealBatch = 100

func resealAll(ctx context.Context, d *db.DB, reseal func(sealed, aad, former []byte) ([]byte, error)) (n int, err error) {
	for after := ""; ; {
		all, err := sealedRequests(ctx, d.Write(), after, resealBatch)
		if err != nil || len(all) == 0 {
			return n, err
		}
		for _, one := range all {
			fresh, err := reseal(one.Sealed, one.place(), one.formerPlace())
			if err != nil {
				return n, fmt.Errorf("seal deployment %s: %w", one.Key, err)
			}
			if fresh != nil {
				replaced, err := replaceSealed(ctx, d.Write(), one, fresh)
				if err != nil {
					return n, err
				}
				if !replaced {
					break // it was changed in the meantime, and is read again
				}
				n++
			}
			after = one.Key
		}
	}
}
