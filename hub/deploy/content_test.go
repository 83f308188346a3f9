package deploy_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/secret"
	"github.com/seed93082962/agenthost/runtime/agent"
)

func TestSecretsAreSealed(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		h := w.start()
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		apiKey := h.reach("running")["apiKey"].(string)
		var sealed []byte
		require.NoError(t, w.db.Read().QueryRowContext(t.Context(), "SELECT sealed FROM deployments").Scan(&sealed))
		require.NotContains(t, string(sealed), providerKey)
		require.EqualValues(t, providerKey, w.driver.Request(key).Config.Provider.APIKey)
		require.NotContains(t, h.server.Log.String()+strings.Join(h.audit(), ""), apiKey)
		w.keys = append([]string{secret.Generate()}, w.keys...)
		n, err := w.store().Reseal(t.Context(), deploy.Sealed()...)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		w.keys = w.keys[:1]
		last := w.start()
		e, err := last.Endpoint(t.Context(), "default", "helper")
		require.NoError(t, err)
		require.EqualValues(t, apiKey, e.APIKey)
	})
}

// A deployment of an earlier version has not drifted: the hash of the same configuration is the
// same.
func TestTheHashOfAConfigurationIsStable(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		h := w.start()
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		var sealed []byte
		var stored string
		require.NoError(t, w.db.Read().QueryRowContext(t.Context(), "SELECT sealed, spec_hash FROM deployments").Scan(&sealed, &stored))
		text, err := w.store().Keyring.Open(sealed, deploy.Sealed()[0].Place(key, "default"))
		require.NoError(t, err)
		var content struct {
			Salt    string         `json:"salt"`
			Request deploy.Request `json:"request"`
		}
		require.NoError(t, json.Unmarshal(text, &content))
		text, err = json.Marshal(struct {
			Salt          string
			Config        agent.Agent
			Tools, Skills *struct{}
		}{Salt: content.Salt, Config: content.Request.Config})
		require.NoError(t, err)
		sum := sha256.Sum256(text)
		require.Equal(t, "sha256:"+hex.EncodeToString(sum[:]), stored)
	})
}

// The request of a row that has another tenant now, or that an earlier version sealed, is not
// opened. Rebind binds the latter.
func TestRequestsAreBoundToTheirTenant(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		endpoint := func(tenantID string) (deploy.Endpoint, error) {
			return w.start(func(c *deploy.Config) { c.Driver = nil }).Endpoint(t.Context(), tenantID, "helper")
		}
		first := w.start()
		first.ada.Post(path, nil).Want(http.StatusAccepted)
		apiKey := first.reach("running")["apiKey"]
		require.NoError(t, first.Close())
		exec := func(query string, args ...any) {
			_, err := w.db.Write().ExecContext(t.Context(), query, args...)
			require.NoError(t, err)
		}
		exec(`UPDATE deployments SET tenant_id = 'other'`)
		_, err := endpoint("other")
		require.ErrorIs(t, err, secret.ErrCorrupt)
		ring, err := secret.Parse(w.keys...)
		require.NoError(t, err)
		n, err := w.store().Rebind(t.Context(), deploy.Sealed()...)
		require.NoError(t, err)
		require.Zero(t, n)
		exec(`UPDATE deployments SET tenant_id = 'default'`)

		var sealed []byte
		require.NoError(t, w.db.Read().QueryRowContext(t.Context(), `SELECT sealed FROM deployments`).Scan(&sealed))
		plain, err := ring.Open(sealed, secret.AAD("deployments", "sealed", "default-helper", "default"))
		require.NoError(t, err)
		exec(`UPDATE deployments SET sealed = $1`, ring.Seal(plain, secret.AAD("deployments", "sealed", "default-helper")))
		_, err = endpoint("default")
		require.ErrorIs(t, err, secret.ErrCorrupt)
		n, err = w.store().Rebind(t.Context(), deploy.Sealed()...)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		e, err := endpoint("default")
		require.NoError(t, err)
		require.EqualValues(t, apiKey, e.APIKey)
	})
}
