package s3blob_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/blob/blobtest"
	"github.com/seed93082962/agenthost/hub/blob/s3blob"
)

// Neither variables nor files of the AWS tools nor the metadata service change where the driver
// sends requests, and with which credentials.
func TestTheEnvironmentIsNotRead(t *testing.T) {
	trap := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("a request to another server: %s %s", r.Method, r.URL)
	}))
	defer trap.Close()
	var (
		mu   sync.Mutex // guards sent
		sent []http.Header
	)
	front := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, r.Header)
	}))
	defer front.Close()

	home := t.TempDir()
	const profile = "region = evil-1\nendpoint_url = %\naws_access_key_id = EVILFILE\naws_secret_access_key = evil-file\n"
	text := strings.ReplaceAll(profile, "%", trap.URL)
	require.NoError(t, os.Mkdir(filepath.Join(home, ".aws"), 0o700))
	for _, name := range []string{"config", "credentials"} {
		require.NoError(t, os.WriteFile(filepath.Join(home, ".aws", name), []byte("[default]\n"+text), 0o600))
	}
	for name, value := range map[string]string{
		"HOME": home, "AWS_CONFIG_FILE": filepath.Join(home, ".aws", "config"), "AWS_SHARED_CREDENTIALS_FILE": filepath.Join(home, ".aws", "credentials"),
		"AWS_ACCESS_KEY_ID": "EVILENV", "AWS_SECRET_ACCESS_KEY": "evil-env", "AWS_SESSION_TOKEN": "evil-token", "AWS_PROFILE": "default",
		"AWS_REGION": "evil-1", "AWS_DEFAULT_REGION": "evil-1", "AWS_ENDPOINT_URL": trap.URL, "AWS_ENDPOINT_URL_S3": trap.URL,
		"AWS_EC2_METADATA_SERVICE_ENDPOINT": trap.URL, "AWS_CONTAINER_CREDENTIALS_FULL_URI": trap.URL, "AWS_CA_BUNDLE": filepath.Join(home, "none"),
		"AWS_USE_DUALSTACK_ENDPOINT": "true", "AWS_USE_FIPS_ENDPOINT": "true", "AWS_S3_USE_ARN_REGION": "true",
		"HTTP_PROXY": trap.URL, "HTTPS_PROXY": trap.URL, "http_proxy": trap.URL, "https_proxy": trap.URL, "NO_PROXY": "", "no_proxy": "",
	} {
		t.Setenv(name, value)
	}

	key := blobtest.Key("a", "a.ts")
	cfg := (&server{address: strings.TrimPrefix(front.URL, "http://")}).config()
	d := open(t, cfg)
	store(t, d, key, []byte("content"))
	require.NoError(t, d.Check(t.Context()))
	mu.Lock()
	defer mu.Unlock()
	require.Len(t, sent, 2)
	for _, h := range sent {
		require.Contains(t, h.Get("Authorization"), "Credential="+accessKey+"/")
		require.Contains(t, h.Get("Authorization"), "/eu-central-1/s3/")
		require.Empty(t, h.Values("X-Amz-Security-Token"))
	}

	cfg.Endpoint = "" // AWS itself
	link, err := open(t, cfg).Link(t.Context(), key, time.Now().Add(time.Hour))
	require.NoError(t, err)
	address, err := url.Parse(link)
	require.NoError(t, err)
	require.Equal(t, "s3.eu-central-1.amazonaws.com", address.Host)
	require.Contains(t, address.Query().Get("X-Amz-Credential"), accessKey+"/")
	require.Empty(t, address.Query().Get("X-Amz-Security-Token"))
	_, err = s3blob.New(s3blob.Config{Bucket: bucket, Region: "r"})
	require.ErrorContains(t, err, "access key id", "the credentials of the environment do not count")
}
