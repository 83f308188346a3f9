package main_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExternalMode(t *testing.T) {
	t.Parallel()
	const key = "an operations key of 32 characters"
	in := serving(t, []string{"HUB_DATA_DIR", t.TempDir(), "AUTH_MODE", "external", "OPS_API_KEY", key})
	mode := call(t, "GET", in.URL+"/auth/mode", "", "")
	require.Equal(t, map[string]any{"mode": "external", "setup_required": false}, mode.body)
	require.NotContains(t, in.Stdout.String(), "No user exists")
	require.Equal(t, http.StatusNotFound, call(t, "POST", in.URL+"/auth/login", "", "{}").status)
	require.Equal(t, http.StatusUnauthorized, call(t, "GET", in.URL+"/api/v1/ops/tenant-clients", "", "").status)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, in.URL+"/api/v1/ops/tenant-clients", nil)
	require.NoError(t, err)
	req.Header.Set("X-Ops-Key", key)
	require.Equal(t, http.StatusOK, do(t, req).status)
}

func TestOpsRoutesNeedTheirKey(t *testing.T) {
	t.Parallel()
	in := serving(t, []string{"HUB_DATA_DIR", t.TempDir()})
	require.Equal(t, http.StatusNotFound, call(t, "GET", in.URL+"/api/v1/ops/tenant-clients", "", "").status)
	require.Equal(t, http.StatusNotFound, call(t, "GET", in.URL+"/auth/login", "", "").status)
}
