package apitest_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/rbac"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

func TestServe(t *testing.T) {
	d := dbtest.Open(t, dbtest.SQLite(t), apitest.Audit())
	audit := apitest.NewAudit(t, d)
	action := auditlog.Define[struct {
		Name string `json:"name"`
	}]("agent.create")
	s := apitest.Serve(t, apitest.Config{Audit: audit}, []api.Route{{
		Method: http.MethodPost, Path: "/things/:name", Group: rbac.AdminWrite,
		Handle: func(w http.ResponseWriter, r *http.Request) error {
			event := api.CallerOf(r).Event()
			event.TargetName = r.PathValue("name")
			if err := audit.Append(r.Context(), action.Record(event, struct {
				Name string `json:"name"`
			}{r.PathValue("name")})); err != nil {
				return err
			}
			return api.Encode(w, http.StatusCreated, api.List[string]{Items: []string{api.CallerOf(r).TenantID}})
		},
	}})
	body := s.As("acme", "ada", rbac.Maintainer).Post("/things/x", apitest.Object{}).Want(http.StatusCreated)
	require.Equal(t, []any{"acme"}, body["items"])
	require.Equal(t, []string{`agent.create x {"name":"x"}`}, s.Audit("acme"))
	require.Empty(t, s.Audit("other"))
	s.As("acme", "bob", rbac.Member).Post("/things/x", nil).Error(http.StatusForbidden, wire.Forbidden)
	s.As("acme", "eve", "").Post("/things/x", nil).Error(http.StatusUnauthorized, wire.Unauthenticated)
	require.Contains(t, s.Log.String(), "/things/x")
}
