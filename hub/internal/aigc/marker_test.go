package aigc_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/aigc"
	"github.com/seed93082962/agenthost/hub/internal/aigc/label"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/secret"
)

func TestAnswersAreLabeled(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		ctx := t.Context()
		mark := func() *aigc.Marker {
			m, err := s.service.Label(ctx, "acme")
			require.NoError(t, err)
			return m
		}
		require.Nil(t, mark())
		s.acme.Put(config, valid(object{"label": "2"})).Want(http.StatusOK)
		first, second := mark(), mark()
		require.NotEqual(t, first.Label.ProduceID, second.Label.ProduceID)
		require.Regexp(t, `^ex-[0-9a-f-]{36}$`, first.Label.ProduceID)
		require.Equal(t, []any{label.Possible, producer, producer, first.Label.ProduceID, ""}, []any{
			first.Label.Label, first.Label.ContentProducer, first.Label.ContentPropagator, first.Label.PropagateID, first.Label.ReservedCode2,
		})
		require.Equal(t, []any{aigc.ModeAppend, "AI 生成"}, []any{first.Mode, first.Text})

		valid1 := s.acme.Post(verify, first.Label).Want(http.StatusOK)
		require.Equal(t, object{"valid": true, "kid": first.Label.KeyID()}, valid1)
		rotation := s.acme.Post(rotate, nil).Want(http.StatusOK)
		require.Equal(t, []any{first.Label.KeyID(), "2026-03-01T12:00:00.123456Z"}, []any{rotation["previousKid"], rotation["rotatedAt"]})
		third := mark()
		require.Equal(t, rotation["kid"], third.Label.KeyID())
		for _, body := range []any{first.Label, object{"aigc": first.Label}, object{"AIGC": first.Label}, third.Label} {
			require.Equal(t, true, s.acme.Post(verify, body).Want(http.StatusOK)["valid"])
		}
		require.Equal(t, object{"valid": false, "reason": "unknown_key", "kid": first.Label.KeyID()}, s.beta.Post(verify, first.Label).Want(http.StatusOK))
		keys := s.acme.Get(config).Want(http.StatusOK)["signing"].(object)["keys"].([]any)
		require.Equal(t, []any{"active", "verify-only"}, []any{keys[0].(object)["status"], keys[1].(object)["status"]})

		changed, unsigned, malformed := first.Label, first.Label, first.Label
		changed.ProduceID, unsigned.ReservedCode1, malformed.ReservedCode1 = "x", "", "v2.x"
		for reason, l := range map[string]label.Label{"mismatch": changed, "unsigned": unsigned, "malformed": malformed} {
			v := s.acme.Post(verify, l).Want(http.StatusOK)
			require.Equal(t, []any{false, reason}, []any{v["valid"], v["reason"]})
		}
		for _, body := range []any{object{}, object{"aigc": 1}, object{"aigc": nil}, object{"title": first.Label}} {
			s.acme.Post(verify, body).Error(http.StatusBadRequest, wire.ValidationFailed)
		}

		signed, err := json.Marshal(first.Label)
		require.NoError(t, err)
		for _, body := range []string{
			`{"Label":"3","label":"1",` + string(signed[len(`{"Label":"2",`):]),
			`{"Label":"3","aigc":` + string(signed) + `}`, `{"aigc":` + string(signed) + `,"Label":"3"}`, `{"aigc":` + string(signed) + `,"AIGC":{}}`, `{"Label":1}`,
		} {
			v := s.acme.Post(verify, json.RawMessage(body)).Want(http.StatusOK)
			require.Equal(t, object{"valid": false, "reason": "malformed"}, v, body)
		}

		for _, body := range []string{`{"Label":"3",` + string(signed[1:]), `{"\u004cabel":"3",` + string(signed[1:])} {
			s.acme.Post(verify, json.RawMessage(body)).Error(http.StatusBadRequest, wire.InvalidRequest)
		}

		s.acme.Put(config, valid(object{"signing": object{"enabled": false}})).Want(http.StatusOK)
		require.Empty(t, mark().Label.ReservedCode1)
		s.acme.Delete(config).Want(http.StatusNoContent)
		require.Nil(t, mark())
		require.Equal(t, true, s.acme.Post(verify, first.Label).Want(http.StatusOK)["valid"], "also after the configuration is deleted")
	})
}

// A leaked key is replaced however often it was before, also next to a configuration that is
// deleted. Keys that signed nothing are deleted, and those that did remain.
func TestRotationsAreNeverRefused(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		keys := func() []any { return s.acme.Get(config).Want(http.StatusOK)["signing"].(object)["keys"].([]any) }
		s.acme.Put(config, valid(nil)).Want(http.StatusOK)
		var signed []label.Label
		for i := range 12 {
			marker, err := s.service.Label(t.Context(), "acme")
			require.NoError(t, err)
			signed = append(signed, marker.Label)
			if i%3 == 0 {
				s.acme.Delete(config).Want(http.StatusNoContent)
				s.acme.Put(config, valid(nil)).Want(http.StatusOK)
			}
			for range 3 {
				s.acme.Post(rotate, nil).Want(http.StatusOK)
				require.Len(t, keys(), i+2)
			}
		}
		s.now.Add(-int64(240 * time.Hour)) // a clock that was set back
		last := s.acme.Post(rotate, nil).Want(http.StatusOK)["kid"]
		require.Equal(t, last, keys()[0].(object)["kid"])
		for _, l := range signed {
			require.Equal(t, true, s.acme.Post(verify, l).Want(http.StatusOK)["valid"])
		}
	})
}

// A key is not deleted while it signs: every label of answers next to rotations verifies.
func TestRotationsNextToAnswers(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		s.acme.Put(config, valid(nil)).Want(http.StatusOK)
		var wait sync.WaitGroup
		wait.Go(func() {
			for range 10 {
				s.acme.Post(rotate, nil).Want(http.StatusOK)
			}
		})
		for range 3 {
			wait.Go(func() {
				for range 20 {
					m, err := s.service.Label(t.Context(), "acme")
					require.NoError(t, err)
					v, err := s.service.Verify(t.Context(), s.acme.Caller, m.Label)
					require.NoError(t, err)
					require.True(t, v.Valid, v.Reason)
				}
			})
		}
		wait.Wait()
	})
}

// A key of a row that has another tenant now, or that an earlier version sealed, is not opened.
func TestKeysAreBoundToTheirTenant(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		ctx := t.Context()
		s.acme.Put(config, valid(nil)).Want(http.StatusOK)
		m, err := s.service.Label(ctx, "acme")
		require.NoError(t, err)
		kid := m.Label.KeyID()
		set := func(column string, value any) {
			_, err := s.db.Write().ExecContext(ctx, `UPDATE aigc_keys SET `+column+` = $1 WHERE kid = $2`, value, kid)
			require.NoError(t, err)
		}
		set("tenant_id", "beta")
		require.Equal(t, "key_unreadable", s.beta.Post(verify, m.Label).Want(http.StatusOK)["reason"])
		set("tenant_id", "acme")
		set("secret_enc", s.store.Keyring.Seal(bytes.Repeat([]byte("k"), 32), secret.AAD("aigc_keys", "secret_enc", kid)))
		require.Equal(t, "key_unreadable", s.acme.Post(verify, m.Label).Want(http.StatusOK)["reason"])
		for _, want := range []int{1, 0} {
			n, err := s.store.Rebind(ctx, aigc.Sealed()...)
			require.NoError(t, err)
			require.Equal(t, want, n)
		}
		m, err = s.service.Label(ctx, "acme")
		require.NoError(t, err)
		require.Equal(t, true, s.acme.Post(verify, m.Label).Want(http.StatusOK)["valid"])
	})
}

func TestRotationNeedsSigning(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		s.acme.Post(rotate, nil).Error(http.StatusNotFound, wire.NotFound)
		s.acme.Put(config, valid(object{"signing": nil})).Want(http.StatusOK)
		s.acme.Post(rotate, nil).Error(http.StatusConflict, wire.Conflict)
	})
}

// Concurrent changes leave one active key.
func TestRaceForAKey(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		var wait sync.WaitGroup
		for i := range 6 {
			wait.Go(func() {
				if i%2 == 0 {
					s.acme.Put(config, valid(nil)).Want(http.StatusOK)
					return
				}
				require.Contains(t, []int{http.StatusOK, http.StatusNotFound}, s.acme.Post(rotate, nil).Status)
			})
		}
		wait.Wait()
		active := 0
		for _, k := range s.acme.Get(config).Want(http.StatusOK)["signing"].(object)["keys"].([]any) {
			if k.(object)["status"] == "active" {
				active++
			}
		}
		require.Equal(t, 1, active)
	})
}

// Keys appear in the database only sealed, and nowhere else.
func TestKeysAreSealed(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		ctx := t.Context()
		text := s.acme.Put(config, valid(nil)).Text + s.acme.Get(config).Text
		first, err := s.service.Label(ctx, "acme")
		require.NoError(t, err)
		text += s.acme.Post(rotate, nil).Text + s.acme.Post(verify, first.Label).Text
		s.beta.Put(config, valid(nil)).Want(http.StatusOK)

		rows, err := s.db.Read().QueryContext(ctx, `SELECT kid, tenant_id, secret_enc FROM aigc_keys`)
		require.NoError(t, err)
		defer rows.Close()
		n := 0
		for rows.Next() {
			var kid, tenant string
			var sealed []byte
			require.NoError(t, rows.Scan(&kid, &tenant, &sealed))
			plain, err := s.store.Keyring.Open(sealed, secret.AAD("aigc_keys", "secret_enc", kid, tenant))
			require.NoError(t, err)
			require.NotContains(t, string(sealed), string(plain))
			audit, err := json.Marshal(append(s.Audit("acme"), s.Audit("beta")...))
			require.NoError(t, err)
			for _, place := range []string{text, string(audit), s.log.String(), s.Log.String()} {
				for _, form := range []string{string(plain), hex.EncodeToString(plain), base64.StdEncoding.EncodeToString(plain), base64.RawURLEncoding.EncodeToString(plain)} {
					require.False(t, bytes.Contains([]byte(place), []byte(form)))
				}
			}
			n++
		}
		require.NoError(t, rows.Err())
		require.Equal(t, 3, n)
	})
}

func TestRekeyOfLabels(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		ctx := t.Context()
		s.acme.Put(config, valid(nil)).Want(http.StatusOK)
		s.beta.Put(config, valid(nil)).Want(http.StatusOK)
		before, err := s.service.Label(ctx, "acme")
		require.NoError(t, err)

		// A hub with other keys lists the configuration, and labels without a signature.
		other := s.with(secret.Generate())
		stranger := aigc.New(other)
		settings, found, err := stranger.Settings(ctx, s.acme.Caller)
		require.NoError(t, err)
		require.True(t, found)
		require.NotEmpty(t, settings.Signing.ActiveKID)
		unsigned, err := stranger.Label(ctx, "acme")
		require.NoError(t, err)
		require.Empty(t, unsigned.Label.ReservedCode1)
		verification, err := stranger.Verify(ctx, s.acme.Caller, before.Label)
		require.NoError(t, err)
		require.Equal(t, aigc.ReasonKeyUnreadable, verification.Reason)
		n, err := other.Reseal(ctx, aigc.Sealed()...)
		require.NoError(t, err)
		require.Zero(t, n)
		require.Contains(t, s.log.String(), "labels that the key signed cannot be verified")
		_, err = stranger.RotateKey(ctx, s.beta.Caller)
		require.NoError(t, err)

		n, err = s.store.Reseal(ctx, aigc.Sealed()...)
		require.NoError(t, err)
		require.Zero(t, n, "the stranger's key cannot be opened")
	})
}

// With the new key first, Reseal seals every key again, and labels stay valid.
func TestRekeyWithANewKey(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		ctx := t.Context()
		older, newer := secret.Generate(), secret.Generate()
		at := func(keys ...string) *aigc.Service { return aigc.New(s.with(keys...)) }
		in := wire.AIGCRequest{AIGCLabeling: wire.AIGCLabeling{Enabled: true, CompanyName: "Example", ContentProducer: producer}}
		in.Signing.Enabled = true
		_, err := at(older).SetSettings(ctx, s.acme.Caller, in)
		require.NoError(t, err)
		marker, err := at(older).Label(ctx, "acme")
		require.NoError(t, err)
		n, err := s.with(newer, older).Reseal(ctx, aigc.Sealed()...)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		n, err = s.with(newer, older).Reseal(ctx, aigc.Sealed()...)
		require.NoError(t, err)
		require.Zero(t, n)
		verification, err := at(newer).Verify(ctx, s.acme.Caller, marker.Label)
		require.NoError(t, err)
		require.True(t, verification.Valid)
	})
}
