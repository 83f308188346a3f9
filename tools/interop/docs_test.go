package interop_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/apidocs"
)

// The pages of both servers are as wide as the screen of a phone, closed and with everything open,
// and a link opens its target.
func TestDocsOnAPhone(t *testing.T) {
	for _, file := range []string{"../../hub/openapi.yaml", "../../runtime/openapi.yaml"} {
		document, err := os.ReadFile(file)
		require.NoError(t, err)
		docs := apidocs.New(document)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := docs.ServePage(w, r); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
			}
		}))
		defer server.Close()
		out, err := exec.CommandContext(t.Context(), "node", "docs.mjs", server.URL+"/docs").CombinedOutput()
		require.NoError(t, err, "%s", out)
		var page struct {
			Closed, Opened int
			Before, After  bool
		}
		require.NoError(t, json.Unmarshal(out, &page), "%s", out)
		require.Equal(t, 390, page.Closed, file)
		require.Equal(t, 390, page.Opened, file)
		require.False(t, page.Before, file)
		require.True(t, page.After, file)
	}
}
