package aigc_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/rbac"
)

func TestSettings(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		require.Equal(t, object{"enabled": false}, s.acme.Get(config).Want(http.StatusOK))
		made := s.acme.Put(config, valid(object{"propagator": producer, "later": 1})).Want(http.StatusOK)
		kid := made["signing"].(object)["activeKid"].(string)
		want := object{
			"enabled": true, "companyName": "Example", "uscc": uscc, "contentProducer": producer, "label": "1", "produceIdPrefix": "ex-", "propagator": producer,
			"explicit": object{"mode": "append", "text": "AI 生成"}, "updatedAt": "2026-03-01T12:00:00.123456Z",
			"signing": object{"enabled": true, "algorithm": "HMAC-SHA256", "activeKid": kid, "keys": []any{
				object{"kid": kid, "status": "active", "createdAt": "2026-03-01T12:00:00.123456Z"},
			}},
		}
		require.Equal(t, want, made)
		require.Equal(t, want, s.acme.Get(config).Want(http.StatusOK))
		require.Equal(t, want, s.acme.Put(config, valid(object{"propagator": producer})).Want(http.StatusOK), "nothing changed")
		require.Equal(t, object{"enabled": false}, s.beta.Get(config).Want(http.StatusOK))

		off := s.acme.Put(config, object{"enabled": false}).Want(http.StatusOK)
		require.Equal(t, []any{false, "", object{"mode": "hint", "text": "本内容由人工智能生成"}}, []any{off["enabled"], off["companyName"], off["explicit"]})
		require.Equal(t, kid, off["signing"].(object)["activeKid"], "the key stays")

		s.acme.Delete(config).Want(http.StatusNoContent)
		s.acme.Delete(config).Want(http.StatusNoContent)
		require.Equal(t, object{"enabled": false}, s.acme.Get(config).Want(http.StatusOK))
		s.acme.Post(rotate, nil).Error(http.StatusNotFound, wire.NotFound)
		again := s.acme.Put(config, valid(nil)).Want(http.StatusOK)["signing"].(object)
		require.Len(t, again["keys"], 1, "the former key signed nothing")
		require.NotEqual(t, kid, again["activeKid"])
		log := s.Audit("acme")
		require.Len(t, log, 4)
		require.Equal(t, `aigc.update_config Example {"enabled":{"from":false,"to":true},"companyName":{"from":"","to":"Example"},"uscc":{"from":"","to":"`+uscc+`"},`+
			`"contentProducer":{"from":"","to":"`+producer+`"},"label":{"from":"","to":"1"},"produceIdPrefix":{"from":"","to":"ex-"},"propagator":{"from":"","to":"`+producer+`"},`+
			`"explicitMode":{"from":"","to":"append"},"explicitText":{"from":"","to":"AI 生成"},"signing":{"from":false,"to":true},"kid":"`+kid+`"}`, log[0])
		require.Equal(t, `aigc.delete_config  {"contentProducer":"","kid":"`+kid+`"}`, log[2])
		require.Empty(t, s.Audit("beta"))
	})
}

func TestSettingsFaults(t *testing.T) {
	t.Parallel()
	s := open(t, dbtest.SQLite(t, series...))
	for name, row := range map[string]struct {
		change object
		field  string
	}{
		"no company":                {object{"companyName": ""}, "companyName"},
		"no producer":               {object{"contentProducer": ""}, "contentProducer"},
		"a wrong check digit":       {object{"contentProducer": strings.Replace(producer, "Y43", "Y44", 1), "uscc": ""}, "contentProducer"},
		"a wrong uscc":              {object{"uscc": "91350100M000100Y44"}, "uscc"},
		"the uscc of another":       {object{"uscc": "91110000802100433B"}, "contentProducer"},
		"a wrong propagator":        {object{"propagator": "x"}, "propagator"},
		"another label":             {object{"label": "4"}, "label"},
		"a prefix with a space":     {object{"produceIdPrefix": "a b"}, "produceIdPrefix"},
		"a long prefix":             {object{"produceIdPrefix": strings.Repeat("p", 65)}, "produceIdPrefix"},
		"another mode":              {object{"explicit": object{"mode": "both"}}, "explicit.mode"},
		"a text without AI":         {object{"explicit": object{"text": "由机器生成"}}, "explicit.text"},
		"a text without generation": {object{"explicit": object{"text": "AI"}}, "explicit.text"},
		"a long text":               {object{"explicit": object{"text": "AI 生成" + strings.Repeat("x", 200)}}, "explicit.text"},
		"another algorithm":         {object{"signing": object{"algorithm": "none"}}, "signing.algorithm"},
	} {
		fault := s.acme.Put(config, valid(row.change)).Error(http.StatusBadRequest, wire.ValidationFailed)
		require.Contains(t, fault["data"].(object)["fields"], row.field, name)
	}
	require.Empty(t, s.Audit("acme"))
	for _, text := range []string{"人工智能生成", "人工智能合成", "AI合成", "由 AI 生成"} {
		s.acme.Put(config, valid(object{"explicit": object{"text": text}, "uscc": nil})).Want(http.StatusOK)
	}
}

func TestMembersDoNotReadSettings(t *testing.T) {
	t.Parallel()
	s := open(t, dbtest.SQLite(t, series...))
	member := s.As("acme", "max", rbac.Member)
	member.Get(config).Error(http.StatusForbidden, wire.Forbidden)
	member.Put(config, valid(nil)).Error(http.StatusForbidden, wire.Forbidden)
	member.Delete(config).Error(http.StatusForbidden, wire.Forbidden)
	member.Post(rotate, nil).Error(http.StatusForbidden, wire.Forbidden)
	member.Post(verify, object{}).Error(http.StatusForbidden, wire.Forbidden)
	ctx := t.Context()
	_, _, err := s.service.Settings(ctx, member.Caller)
	require.ErrorContains(t, err, "member")
	_, err = s.service.RotateKey(ctx, member.Caller)
	require.ErrorContains(t, err, "member")
	require.ErrorContains(t, s.service.DeleteSettings(ctx, member.Caller), "member")
}
