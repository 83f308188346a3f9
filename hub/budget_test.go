package hub_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// The budget of an agent or a user is deleted with it, and does not limit a later agent of the name.
func TestBudgetsEndWithTheirOwners(t *testing.T) {
	s, admin := started(t)
	const budgets, limits = "/api/v1/admin/budgets", `{"period":"day","unit":"tokens","hard":1}`
	mia := s.call("POST", users, admin, userBody("mia", "member")).want(http.StatusCreated)["id"].(string)
	for _, name := range []string{"first", "second"} {
		s.call("POST", agents, admin, `{"name":"`+name+`","providerId":"demo","model":"demo"}`).want(http.StatusCreated)
	}
	s.call("PUT", budgets+"/agent/first", admin, limits).want(http.StatusOK)
	s.call("PUT", budgets+"/user/"+mia, admin, limits).want(http.StatusOK)

	for _, path := range []string{agents + "/first", agents + "/second", users + "/" + mia} {
		s.call("DELETE", path, admin, "").want(http.StatusNoContent)
	}
	s.call("POST", agents, admin, `{"name":"first","providerId":"demo","model":"demo"}`).want(http.StatusCreated)
	s.call("GET", budgets+"/agent/first", admin, "").wantError(http.StatusNotFound, "not_found")
	require.EqualValues(t, 0, s.call("GET", budgets, admin, "").want(http.StatusOK)["total"])
	log := s.call("GET", "/api/v1/admin/audit-logs?action=agent.delete_budget", admin, "").want(http.StatusOK)
	require.EqualValues(t, 2, log["total"], "of those that had one")
}
