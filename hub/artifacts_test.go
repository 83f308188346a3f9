package hub_test

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub"
	"github.com/seed93082962/agenthost/hub/internal/artifact"
)

// upload uploads a tool.
func (s *server) upload(token, fileName, content string) response {
	s.t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("file", fileName)
	require.NoError(s.t, err)
	_, err = io.WriteString(part, content)
	require.NoError(s.t, err)
	require.NoError(s.t, form.Close())
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url+"/api/v1/admin/tools", &body)
	require.NoError(s.t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", form.FormDataContentType())
	res, err := s.client.Do(req)
	require.NoError(s.t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(s.t, err)
	return response{t: s.t, status: res.StatusCode, header: res.Header, text: string(text)}
}

func TestSweepDeletesFilesThatNoToolHas(t *testing.T) {
	t.Parallel()
	var later atomic.Bool
	s := open(t, sqlite(t), func(cfg *hub.Config) {
		cfg.Now = func() time.Time {
			if later.Load() {
				return time.Now().Add(25 * time.Hour)
			}
			return time.Now()
		}
	})
	admin := s.setUp()
	used := s.upload(admin, "used.ts", "export default {name: 'used', description: 'd', call() {}}").want(http.StatusCreated)
	s.upload(admin, "deleted.ts", "export default {name: 'deleted', description: 'd', call() {}}").want(http.StatusCreated)
	s.call("DELETE", "/api/v1/admin/tools/deleted", admin, "").want(http.StatusNoContent)
	tool := artifact.Ref{Kind: artifact.Tools, Hash: strings.TrimPrefix(used["hash"].(string), "sha256:"), Name: "used.ts", Size: int64(used["size"].(float64))}
	orphan, err := hub.Artifacts(s.Hub).Put(t.Context(), artifact.Skills, "s.zip", strings.NewReader("x"))
	require.NoError(t, err)
	for _, exists := range []bool{true, false} { // at first it is new
		hub.SweepArtifacts(s.Hub)
		exist, err := hub.Artifacts(s.Hub).Exist(t.Context(), tool, orphan)
		require.NoError(t, err)
		require.Equal(t, []bool{true, exists}, exist)
		later.Store(true)
	}
	require.Contains(t, s.close(), `"msg":"unused artifacts were deleted","artifacts":2`)
}
