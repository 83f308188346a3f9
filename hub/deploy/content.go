package deploy

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/seed93082962/agenthost/hub/store"
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
	text, err := json.Marshal(c) //nolint:gosec // it is sealed below
	if err != nil {
		return fmt.Errorf("seal deployment: %w", err)
	}
	d.Sealed, d.KeyDigest = s.cfg.Keyring.Seal(text, sealedColumn.Place(d.Key, d.TenantID)), digest(c.APIKey)
	return nil
}

func (s *Service) open(d deployment) (c content, err error) {
	text, err := s.cfg.Keyring.Open(d.Sealed, sealedColumn.Place(d.Key, d.TenantID))
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		return c, fmt.Errorf("open deployment %s: %w", d.Key, err)
	}
	return c, nil
}
