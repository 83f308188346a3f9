package provider_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/internal/provider"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/rbac"
)

const (
	anthropic    = admin + "/anthropic"
	anthropicKey = anthropic + "/key"
)

// A tenant gives a built-in provider a key that no other tenant sees or uses.
func TestKeysOfBuiltInProviders(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		keyOf := func(tenant string) string {
			t.Helper()
			_, open, err := s.service.Open(t.Context(), s.db.Read(), tenant, "anthropic")
			require.NoError(t, err)
			return string(open.APIKey)
		}
		before := s.acme.Get(anthropic).Want(http.StatusOK)
		require.Equal(t, provider.KeyMissing, before["keyState"])

		given := s.acme.Put(anthropicKey, object{"apiKey": plantedKey}).Want(http.StatusOK)
		require.Equal(t, "anthropic", given["id"])
		require.Equal(t, true, given["shared"])
		require.Equal(t, true, given["hasKey"])
		require.Equal(t, provider.KeyReady, given["keyState"])
		require.Equal(t, "sk-p...wxyz", given["maskedKey"])
		require.Greater(t, given["version"], before["version"])
		for _, path := range []string{anthropic, public + "/anthropic"} {
			require.Equal(t, given, s.acme.Get(path).Want(http.StatusOK))
		}
		for _, list := range []string{admin, public, public + "/runtime-config"} {
			require.Contains(t, s.acme.Get(list).Items(), given)
			require.Contains(t, s.beta.Get(list).Items(), before, "of the other organization")
		}
		require.Equal(t, plantedKey, s.acme.Post(anthropic+"/reveal-key", nil).Want(http.StatusOK)["apiKey"])
		require.Equal(t, plantedKey, keyOf("acme"))

		require.Empty(t, keyOf("beta"))
		require.Equal(t, before, s.beta.Get(anthropic).Want(http.StatusOK))
		s.beta.Post(anthropic+"/reveal-key", nil).Error(http.StatusNotFound, wire.NotFound)
		s.beta.Delete(anthropicKey).Want(http.StatusNoContent)
		require.Equal(t, plantedKey, keyOf("acme"), "deleted by the other organization")
		s.beta.Put(anthropicKey, object{"apiKey": "of-beta"}).Want(http.StatusOK)
		require.Equal(t, []string{plantedKey, "of-beta"}, []string{keyOf("acme"), keyOf("beta")})

		s.acme.Put(anthropicKey, object{"apiKey": plantedKey}).Want(http.StatusOK) // unchanged
		s.acme.Put(anthropicKey, object{"apiKey": "second"}).Want(http.StatusOK)
		require.Equal(t, "second", keyOf("acme"))
		s.acme.Delete(anthropicKey).Want(http.StatusNoContent)
		s.acme.Delete(anthropicKey).Want(http.StatusNoContent)
		require.Empty(t, keyOf("acme"))
		after := s.acme.Get(anthropic).Want(http.StatusOK)
		require.Equal(t, provider.KeyMissing, after["keyState"])
		require.Greater(t, after["version"], given["version"], "versions grow")

		require.Equal(t, []string{
			`provider.update Anthropic {"apiKey":"added"}`, `provider.reveal_key Anthropic`,
			`provider.update Anthropic {"apiKey":"replaced"}`,
			`provider.update Anthropic {"apiKey":"removed"}`,
		}, s.Audit("acme"))
	})
}

// The key of a provider of the tenant is replaced without its other settings.
func TestKeysAreReplacedAlone(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		id := create(s.acme, gateway(object{"headers": object{"X-Team": "blue"}}))
		path := admin + "/" + id
		before := s.acme.Get(path).Want(http.StatusOK)
		after := s.acme.Put(path+"/key", object{"apiKey": "fresh"}).Want(http.StatusOK)
		require.Equal(t, "fresh", s.acme.Post(path+"/reveal-key", nil).Want(http.StatusOK)["apiKey"])
		for _, field := range []string{"name", "baseUrl", "headers", "models", "enabled"} {
			require.Equal(t, before[field], after[field])
		}
		s.acme.Delete(path + "/key").Want(http.StatusNoContent)
		require.Equal(t, provider.KeyMissing, s.acme.Get(path).Want(http.StatusOK)["keyState"])
	})
}

func TestInvalidKeysOfBuiltInProviders(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		for _, key := range []any{"", "two words", "line\nbreak", "k\u00e9y", strings.Repeat("k", 4097)} {
			s.acme.Put(anthropicKey, object{"apiKey": key}).Error(http.StatusBadRequest, wire.ValidationFailed)
		}
		demo := admin + "/demo/key"
		s.acme.Put(demo, object{"apiKey": "k"}).Error(http.StatusForbidden, code.BuiltinReadonly)
		s.acme.Delete(demo).Error(http.StatusForbidden, code.BuiltinReadonly)
		s.acme.Put(admin+"/unknown/key", object{"apiKey": "k"}).Error(http.StatusNotFound, wire.NotFound)
		s.acme.Put(anthropic, gateway(nil)).Error(http.StatusForbidden, code.BuiltinReadonly)
		member := s.As("acme", "mia", rbac.Member)
		member.Put(anthropicKey, object{"apiKey": "k"}).Error(http.StatusForbidden, wire.Forbidden)
		member.Delete(anthropicKey).Error(http.StatusForbidden, wire.Forbidden)
		require.Equal(t, provider.KeyMissing, s.acme.Get(anthropic).Want(http.StatusOK)["keyState"])
	})
}
