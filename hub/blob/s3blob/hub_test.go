package s3blob_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub"
	"github.com/seed93082962/agenthost/hub/blob/s3blob"
	"github.com/seed93082962/agenthost/internal/secret"
)

// The server returns everything that it received.
func TestCredentialsOfTheStoreAreNotLogged(t *testing.T) {
	const secretKey = "planted-secret-access-key-0123456789"
	bucket := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, "<Error><Code>SignatureDoesNotMatch</Code><Message>"+r.Header.Get("Authorization")+"</Message></Error>")
	}))
	defer bucket.Close()
	driver, err := s3blob.New(s3blob.Config{Bucket: "b", Region: "r", Endpoint: bucket.URL, AccessKeyID: "AKIAPLANTED", SecretAccessKey: secretKey})
	require.NoError(t, err)
	var log bytes.Buffer
	const setupToken = "a setup token of some length"
	h, err := hub.New(t.Context(), hub.Config{
		DatabaseURL: "sqlite://" + filepath.Join(t.TempDir(), "hub.db"), EncryptionKeys: []string{secret.Generate()}, SetupToken: setupToken, PublicURL: "http://hub",
		Artifacts: driver, CheckTool: func(context.Context, string, string) (string, error) { return "a", nil },
		Logger: slog.New(slog.NewJSONHandler(&log, nil)),
	})
	require.NoError(t, err)
	call := func(method, path, media, token string, body io.Reader) *httptest.ResponseRecorder {
		req := httptest.NewRequestWithContext(t.Context(), method, path, body)
		req.Header.Set("Content-Type", media)
		req.Header.Set("Authorization", "Bearer "+token)
		res := httptest.NewRecorder()
		h.ServeHTTP(res, req)
		return res
	}
	var admin struct {
		AccessToken string `json:"access_token"`
	}
	created := call("POST", "/auth/setup", "application/json", "", strings.NewReader(`{"password":"correct horse battery","setup_token":"`+setupToken+`"}`))
	require.Equal(t, http.StatusCreated, created.Code, created.Body)
	require.NoError(t, json.Unmarshal(created.Body.Bytes(), &admin))

	var form bytes.Buffer
	parts := multipart.NewWriter(&form)
	part, err := parts.CreateFormFile("file", "a.ts")
	require.NoError(t, err)
	_, err = io.WriteString(part, "export default {name: 'a', description: 'd', call() {}}")
	require.NoError(t, err)
	require.NoError(t, parts.Close())
	for _, res := range []*httptest.ResponseRecorder{
		call("POST", "/api/v1/admin/tools", parts.FormDataContentType(), admin.AccessToken, &form),
		call("GET", "/artifacts/tools/"+strings.Repeat("a", 64)+"/a.ts", "", "", nil),
	} {
		require.Equal(t, http.StatusServiceUnavailable, res.Code, res.Body)
		require.NotContains(t, res.Body.String(), secretKey)
		require.NotContains(t, res.Body.String(), "AKIAPLANTED")
	}
	require.NoError(t, h.Close())
	require.Contains(t, log.String(), "SignatureDoesNotMatch")
	require.NotContains(t, log.String(), secretKey)
	require.NoError(t, driver.Close())
}
