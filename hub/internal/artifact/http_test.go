package artifact_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/blob"
	"github.com/seed93082962/agenthost/hub/blob/blobtest"
	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/artifact"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/secret"
)

// folder returns a driver that is closed when the test ends.
func folder(t testing.TB) *blob.Folder {
	t.Helper()
	f, err := blob.OpenFolder(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

func TestToolsAreServedToEveryone(t *testing.T) {
	t.Parallel()
	for name, driver := range map[string]blob.Driver{"folder": folder(t), "memory": &blob.Memory{}} {
		t.Run(name, func(t *testing.T) {
			s := open(t, func(c *artifact.Config) { c.Driver = driver })
			content := blobtest.Content(100_000)
			ref := put(t, s, artifact.Tools, "天气 100%.mts", content)
			client := apitest.Serve(t, apitest.Config{}, s.Routes()).As("", "", "")
			path := strings.TrimPrefix(s.URL(ref), publicURL)
			got := client.Get(path)
			require.Equal(t, http.StatusOK, got.Status, got.Text)
			require.Equal(t, string(content), got.Text)
			for name, want := range map[string]string{
				"Cache-Control": "public, max-age=31536000, immutable", "Etag": `"` + ref.Hash + `"`, "Content-Type": "application/octet-stream",
				"X-Content-Type-Options": "nosniff", "Content-Disposition": "attachment; filename*=UTF-8''%E5%A4%A9%E6%B0%94%20100%25.mts",
			} {
				require.Equal(t, want, got.Header.Get(name), name)
			}
			head := client.Do(http.MethodHead, path, nil)
			require.Equal(t, http.StatusOK, head.Status)
			require.Equal(t, "100000", head.Header.Get("Content-Length"))
			part := client.Do(http.MethodGet, path, nil, "Range", "bytes=-10")
			require.Equal(t, http.StatusPartialContent, part.Status)
			require.Equal(t, string(content[99_990:]), part.Text)
			for _, unknown := range []string{"", "/", "/tools", "/tools/" + ref.Hash, "/tools/" + ref.Hash + "/", "/tools/" + ref.Hash + "/..", "/tools/../.tmp/x", "/other/" + ref.Hash + "/a.ts"} {
				require.NotEqual(t, http.StatusOK, client.Get("/artifacts"+unknown).Status, unknown)
			}
			client.Get("/artifacts/tools/"+strings.ToUpper(ref.Hash)+"/a.ts").Error(http.StatusNotFound, wire.NotFound)
			client.Get("/artifacts/skills/"+ref.Hash+"/a.ts").Error(http.StatusForbidden, wire.Forbidden)
		})
	}
}

func TestSkillsNeedASignedLink(t *testing.T) {
	t.Parallel()
	oldKey, newKey := secret.Generate(), secret.Generate()
	now := time.Now()
	driver := folder(t)
	with := func(keys ...string) *artifact.Store {
		ring, err := secret.Parse(keys...)
		require.NoError(t, err)
		return open(t, func(c *artifact.Config) { c.Driver, c.Keyring, c.Now = driver, ring, func() time.Time { return now } })
	}
	s := with(oldKey)
	ref := put(t, s, artifact.Skills, "a b.zip", []byte("content"))
	link, expiresAt, err := s.SignedURL(t.Context(), ref, time.Hour)
	require.NoError(t, err)
	require.WithinRange(t, expiresAt, now.Add(time.Hour-time.Second), now.Add(time.Hour))
	server := apitest.Serve(t, apitest.Config{}, s.Routes())
	client := server.As("", "", "")
	path := strings.TrimPrefix(link, publicURL)
	got := client.Get(path)
	require.Equal(t, http.StatusOK, got.Status, got.Text)
	require.Equal(t, "content", got.Text)
	require.Equal(t, "private, no-store", got.Header.Get("Cache-Control"))
	require.Equal(t, "application/octet-stream", got.Header.Get("Content-Type"))

	parsed, err := url.Parse(path)
	require.NoError(t, err)
	query := parsed.Query()
	require.NotContains(t, server.Log.String(), query.Get("sig"), "the access log has no query")
	for name, changed := range map[string]string{
		"no query":       parsed.EscapedPath(),
		"another name":   strings.Replace(path, "a%20b", "c", 1),
		"another hash":   strings.Replace(path, ref.Hash, strings.Repeat("a", 64), 1),
		"a later time":   strings.Replace(path, "expires=1", "expires=9", 1),
		"no signature":   strings.Replace(path, query.Get("sig"), "", 1),
		"a shorter one":  strings.Replace(path, query.Get("sig"), query.Get("sig")[:20], 1),
		"without expiry": strings.Replace(path, query.Get("expires"), "", 1),
	} {
		require.NotEqual(t, path, changed, name)
		client.Get(changed).Error(http.StatusForbidden, wire.Forbidden)
	}
	for name, row := range map[string]struct {
		keys []string
		want int
	}{
		"a new key before the old": {[]string{newKey, oldKey}, http.StatusOK},
		"a new key after the old":  {[]string{oldKey, newKey}, http.StatusOK},
		"only the new key":         {[]string{newKey}, http.StatusForbidden},
	} {
		c := apitest.Serve(t, apitest.Config{}, with(row.keys...).Routes()).As("", "", "")
		require.Equal(t, row.want, c.Get(path).Status, name)
	}
	now = expiresAt
	client.Get(path).Error(http.StatusForbidden, wire.Forbidden)
}

func TestSweepDeletesOnlyOldBlobsThatNothingNames(t *testing.T) {
	t.Parallel()
	for name, driver := range map[string]blob.Driver{"folder": folder(t), "memory": &blob.Memory{}} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			s := open(t, func(c *artifact.Config) { c.Driver, c.Now = driver, func() time.Time { return now } })
			used, unused := put(t, s, artifact.Tools, "a.ts", []byte("a")), put(t, s, artifact.Skills, "b.zip", []byte("b"))
			named := func(_ context.Context, keys []string) (map[string]bool, error) {
				return map[string]bool{used.Key(): true}, nil
			}
			n, err := s.Sweep(t.Context(), time.Hour, named)
			require.NoError(t, err)
			require.Zero(t, n, "both are new")
			now = now.Add(2 * time.Hour)
			failing := func(context.Context, []string) (map[string]bool, error) { return nil, context.DeadlineExceeded }
			_, err = s.Sweep(t.Context(), time.Hour, failing)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			n, err = s.Sweep(t.Context(), time.Hour, named)
			require.NoError(t, err)
			require.Equal(t, 1, n)
			exist, err := s.Exist(t.Context(), used, unused)
			require.NoError(t, err)
			require.Equal(t, []bool{true, false}, exist)
		})
	}
}
