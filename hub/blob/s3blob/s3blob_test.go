package s3blob_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/blob"
	"github.com/seed93082962/agenthost/hub/blob/blobtest"
	"github.com/seed93082962/agenthost/hub/blob/s3blob"
)

func readAll(t testing.TB, res *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return string(body)
}

func TestDriver(t *testing.T) {
	t.Parallel()
	s, prefixes := start(t), 0
	blobtest.Run(t, func(t *testing.T) blob.Driver {
		cfg := s.config()
		prefixes++
		cfg.Prefix = fmt.Sprint("prefix/", prefixes) // an empty store for each test
		return open(t, cfg)
	})
	require.NotContains(t, s.log.String(), secretKey)
}

func TestPrefixesAreSeparate(t *testing.T) {
	t.Parallel()
	s := start(t)
	cfg := s.config()
	key := blobtest.Key("a", "a.ts")
	var drivers []*s3blob.Driver
	for _, prefix := range []string{"", "one", "one/two", "one/twofold"} {
		cfg.Prefix = prefix
		drivers = append(drivers, open(t, cfg))
		store(t, drivers[len(drivers)-1], key, []byte(prefix))
	}
	for i, prefix := range []string{"", "one", "one/two", "one/twofold"} {
		b, err := drivers[i].Open(t.Context(), key)
		require.NoError(t, err)
		content, err := io.ReadAll(b.Content)
		require.NoError(t, err)
		require.NoError(t, b.Close())
		require.Equal(t, prefix, string(content))
		n := 0
		for info, err := range drivers[i].List(t.Context(), "tools/") {
			require.NoError(t, err)
			require.Equal(t, key, info.Key)
			n++
		}
		require.Equal(t, 1, n)
	}
}

func TestLinksAreSignedByTheServer(t *testing.T) {
	t.Parallel()
	s := start(t)
	d := open(t, s.config())
	key := blobtest.Key("a", "天气 1.zip")
	store(t, d, key, []byte("content"))
	link, err := d.Link(t.Context(), key, time.Now().Add(time.Hour))
	require.NoError(t, err)
	require.NotContains(t, link, secretKey)
	status, body := get(t, link)
	require.Equal(t, http.StatusOK, status, body)
	require.Equal(t, "content", body)
	plain, _, _ := strings.Cut(link, "?")
	for name, changed := range map[string]string{
		"no signature":  plain,
		"another key":   strings.Replace(link, "1.zip", "2.zip", 1),
		"a longer life": strings.Replace(link, "X-Amz-Expires=3", "X-Amz-Expires=9", 1),
	} {
		require.NotEqual(t, link, changed, name)
		status, _ := get(t, changed)
		require.Equal(t, http.StatusForbidden, status, name)
	}
}

func TestIncorrectSettings(t *testing.T) {
	t.Parallel()
	s := start(t)
	require.NoError(t, open(t, s.config()).Check(t.Context()))
	for name, change := range map[string]func(*s3blob.Config){
		"secret": func(c *s3blob.Config) { c.SecretAccessKey += "x" },
		"id":     func(c *s3blob.Config) { c.AccessKeyID += "x" },
		"token":  func(c *s3blob.Config) { c.SecretAccessKey, c.SessionToken = "x", secretKey },
		"region": func(c *s3blob.Config) { c.Region = "us-east-1" },
		"bucket": func(c *s3blob.Config) { c.Bucket = "other" },
	} {
		cfg := s.config()
		change(&cfg)
		d := open(t, cfg)
		err := d.Check(t.Context())
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), secretKey, name)
		err = d.Put(t.Context(), blobtest.Key("a", "a.ts"), strings.NewReader("x"), 1)
		require.Error(t, err, name)
		require.NotErrorIs(t, err, blob.ErrNotExist, name)
		require.NotContains(t, err.Error(), secretKey, name)
	}
	require.NotContains(t, s.log.String(), secretKey)
	for _, cfg := range []s3blob.Config{{}, {Bucket: "b", Region: "r"}, {Bucket: "b", AccessKeyID: "a", SecretAccessKey: "s"}} {
		_, err := s3blob.New(cfg)
		require.Error(t, err)
	}
}

func TestUnmarshalURL(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]s3blob.Config{
		"s3://b?region=eu-central-1":             {Bucket: "b", Region: "eu-central-1"},
		"s3://b/p/q/?region=r":                   {Bucket: "b", Prefix: "p/q", Region: "r"},
		"s3://b/?endpoint=http://127.0.0.1:9000": {Bucket: "b", Region: "us-east-1", Endpoint: "http://127.0.0.1:9000"},
		"s3://b?endpoint=https%3A%2F%2Foss.example.com&virtual_host=true&region=r": {Bucket: "b", Region: "r", Endpoint: "https://oss.example.com", VirtualHost: true},
	} {
		var cfg s3blob.Config
		err := cfg.UnmarshalText([]byte(address))
		require.NoError(t, err, address)
		require.Equal(t, want, cfg)
	}
	for _, address := range []string{
		"", "s3:", "s3://", "file:///x", "s3://b", "s3://id:" + secretKey + "@b?region=r", "s3://b?region=r&region=s", "s3://b?region=r&secret=" + secretKey,
		"s3://b?endpoint=127.0.0.1:9000", "s3://b?endpoint=http://id:" + secretKey + "@h", "s3://b?endpoint=http://h/path", "s3://b?region=%zz", "s3://b?region=r&virtual_host=1", "s3://%" + secretKey,
	} {
		err := new(s3blob.Config).UnmarshalText([]byte(address))
		require.Error(t, err, address)
		require.NotContains(t, err.Error(), secretKey)
	}
}
