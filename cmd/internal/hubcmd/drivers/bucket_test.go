package drivers

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/cmd/internal/hubcmd"
)

// signer returns the access key id and the session token with which a request was signed.
func signer(r *http.Request) string {
	_, id, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	id, _, _ = strings.Cut(id, "/")
	return id + " " + r.Header.Get("X-Amz-Security-Token")
}

// Without keys, the credentials of a bucket come from where the tools of AWS find them. Temporary
// credentials are requested again when they have expired.
func TestCredentialsOfABucket(t *testing.T) {
	expired := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
	valid := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	// Each of the three services returns credentials that have expired before it returns others.
	issue := func(n int) (id, expires string) {
		if n == 1 {
			return "TEMPORARY1", expired
		}
		return "TEMPORARY2", valid
	}
	document := `{"Code":"Success","AccessKeyId":%q,"SecretAccessKey":"s","Token":"t","Expiration":%q}`
	for name, row := range map[string]struct {
		env   map[string]string
		serve func(n int, w http.ResponseWriter, r *http.Request) (issued bool)
		want  []string
	}{
		"keys":      {env: map[string]string{"AWS_ACCESS_KEY_ID": "STATIC", "AWS_SECRET_ACCESS_KEY": "s"}, want: []string{"STATIC ", "STATIC "}},
		"a profile": {env: map[string]string{"AWS_PROFILE": "files"}, want: []string{"PROFILE ", "PROFILE "}},
		"a web identity": {
			env: map[string]string{"AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/hub", "AWS_WEB_IDENTITY_TOKEN_FILE": "TOKEN", "AWS_ENDPOINT_URL_STS": "SERVER"},
			serve: func(n int, w http.ResponseWriter, r *http.Request) bool {
				if r.FormValue("Action") != "AssumeRoleWithWebIdentity" || r.FormValue("WebIdentityToken") != "token-of-the-pod" ||
					r.FormValue("RoleArn") != "arn:aws:iam::123456789012:role/hub" {
					w.WriteHeader(http.StatusForbidden)
					return false
				}
				id, expires := issue(n)
				w.Header().Set("Content-Type", "text/xml")
				_, _ = fmt.Fprintf(w, `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">`+
					`<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>%s</AccessKeyId><SecretAccessKey>s</SecretAccessKey>`+
					`<SessionToken>t</SessionToken><Expiration>%s</Expiration></Credentials></AssumeRoleWithWebIdentityResult>`+
					`</AssumeRoleWithWebIdentityResponse>`, id, expires)
				return true
			},
			want: []string{"TEMPORARY1 t", "TEMPORARY2 t"},
		},
		"a container": {
			env: map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": "SERVER/role", "AWS_CONTAINER_AUTHORIZATION_TOKEN": "of-the-container"},
			serve: func(n int, w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != "/role" || r.Header.Get("Authorization") != "of-the-container" {
					w.WriteHeader(http.StatusForbidden)
					return false
				}
				id, expires := issue(n)
				_, _ = fmt.Fprintf(w, document, id, expires)
				return true
			},
			want: []string{"TEMPORARY1 t", "TEMPORARY2 t"},
		},
		"a machine": {
			env: map[string]string{"AWS_EC2_METADATA_SERVICE_ENDPOINT": "SERVER", "AWS_EC2_METADATA_DISABLED": "false"},
			serve: func(_ int, w http.ResponseWriter, r *http.Request) bool {
				const token = "/latest/api/token"
				const role = "/latest/meta-data/iam/security-credentials/"
				switch {
				case r.Method == http.MethodPut && r.URL.Path == token:
					w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "21600")
					_, _ = io.WriteString(w, "session")
				case r.Header.Get("X-Aws-Ec2-Metadata-Token") != "session":
					w.WriteHeader(http.StatusUnauthorized)
				case r.URL.Path == role:
					_, _ = io.WriteString(w, "hub-role")
				case r.URL.Path == role+"hub-role":
					_, _ = fmt.Fprintf(w, document, "TEMPORARY2", valid)
					return true
				default:
					w.WriteHeader(http.StatusNotFound)
				}
				return false
			},
			want: []string{"TEMPORARY2 t", "TEMPORARY2 t"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex // guards issued and signers
			issued := 1
			var signers []string
			service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				if row.serve != nil && row.serve(issued, w, r) {
					issued++
				}
			}))
			t.Cleanup(service.Close)
			bucket := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				signers = append(signers, signer(r))
			}))
			t.Cleanup(bucket.Close)

			dir := t.TempDir()
			files := map[string]string{
				"token": "token-of-the-pod", "config": "",
				"credentials": "[files]\naws_access_key_id = PROFILE\naws_secret_access_key = s\n",
			}
			for file, text := range files {
				require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
			}
			for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"} {
				t.Setenv(name, "")
			}
			t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
			t.Setenv("AWS_CONFIG_FILE", filepath.Join(dir, "config"))
			t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(dir, "credentials"))
			for name, value := range row.env {
				t.Setenv(name, strings.NewReplacer("SERVER", service.URL, "TOKEN", filepath.Join(dir, "token")).Replace(value))
			}
			s := &hubcmd.Settings{
				BlobURL:     "s3://files?region=eu-central-1&endpoint=" + bucket.URL,
				AccessKeyID: os.Getenv("AWS_ACCESS_KEY_ID"), SecretAccessKey: os.Getenv("AWS_SECRET_ACCESS_KEY"),
			}
			driver, err := All().Bucket(s)(t.Context(), slog.New(slog.DiscardHandler))
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, driver.Close()) })
			_, err = driver.Stat(t.Context(), "tools/x")
			require.NoError(t, err)
			mu.Lock()
			defer mu.Unlock()
			require.Equal(t, row.want, signers)
		})
	}
}
