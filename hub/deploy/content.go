package deploy

import (
	"context"
	"crypto/rand"
	"database/sql"
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

func sealPlace(key string) []byte { return secret.AAD("deployments", "sealed", key) }

// seal sets the sealed part of d and the digest of its API key.
func (s *Service) seal(d *deployment, c content) error {
	text, err := json.Marshal(c) //nolint:gosec // it is sealed below
	if err != nil {
		return fmt.Errorf("seal deployment: %w", err)
	}
	d.Sealed, d.KeyDigest = s.cfg.Keyring.Seal(text, sealPlace(d.Key)), digest(c.APIKey)
	return nil
}

func (s *Service) open(d deployment) (c content, err error) {
	text, err := s.cfg.Keyring.Open(d.Sealed, sealPlace(d.Key))
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
func (s *Service) Rekey(ctx context.Context) (n int, err error) {
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		n = 0 // the function may run again
		all, err := lockSealed(ctx, tx)
		if err != nil {
			return err
		}
		for _, d := range all {
			d.Sealed, err = s.cfg.Keyring.Reseal(d.Sealed, sealPlace(d.Key), nil)
			if err != nil {
				return fmt.Errorf("deployment %s: %w", d.Key, err)
			}
			if d.Sealed == nil {
				continue
			}
			if err := updateSealed(ctx, tx, d); err != nil {
				return err
			}
			n++
		}
		return nil
	})
	return n, db.Wrap("rekey deployments", err)
}
