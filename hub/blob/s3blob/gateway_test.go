package s3blob_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed93082962/agenthost/hub/blob/s3blob"
	"github.com/seed93082962/agenthost/internal/logtest"
)

// gatewayVersion is the version of versitygw, a server with the interface of S3 on a directory,
// which verifies signatures.
const gatewayVersion = "v1.8.0"

// gateway installs the server into the cache of the user. The first time takes a minute, and would
// take two with optimizations, which are only needed for the cryptography of the standard library.
var gateway = sync.OnceValues(func() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "agenthost", "versitygw-"+gatewayVersion+"-"+runtime.GOOS+"-"+runtime.GOARCH)
	path := filepath.Join(dir, "versitygw")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	cmd := exec.Command("go", "install", "-gcflags=all=-dwarf=false", "-gcflags=github.com/...=-dwarf=false -N -l", "-ldflags=-s -w",
		"github.com/versity/versitygw/cmd/versitygw@"+gatewayVersion)
	cmd.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("install versitygw: %w: %s", err, out)
	}
	return path, nil
})

// Credentials are searched in logs and errors.
const (
	accessKey = "AKIAPLANTED0KEY"
	secretKey = "planted-secret-access-key-0123456789"
	bucket    = "files"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a running gateway.
type server struct {
	address string // host:port
	dir     string // has the buckets
	log     *logtest.Buffer
}

func (s *server) config() s3blob.Config {
	return s3blob.Config{
		Bucket: bucket, Prefix: "hub/blobs", Region: "eu-central-1", Endpoint: "http://" + s.address,
		AccessKeyID: accessKey, SecretAccessKey: secretKey,
	}
}

// start starts a gateway with an empty bucket on loopback, until the test ends.
func start(t testing.TB) *server {
	t.Helper()
	program, err := gateway()
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &server{address: listener.Addr().String(), dir: t.TempDir(), log: &logtest.Buffer{}}
	require.NoError(t, listener.Close())
	require.NoError(t, os.MkdirAll(filepath.Join(s.dir, "data", bucket), 0o700))
	require.NoError(t, os.Mkdir(filepath.Join(s.dir, "meta"), 0o700))
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, "--port", s.address, "--region", "eu-central-1",
		"posix", "--sidecar", filepath.Join(s.dir, "meta"), filepath.Join(s.dir, "data"))
	cmd.Env = []string{"ROOT_ACCESS_KEY=" + accessKey, "ROOT_SECRET_KEY=" + secretKey}
	cmd.Stdout, cmd.Stderr = s.log, s.log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed
	})
	limit, again := time.After(time.Minute), time.NewTicker(20*time.Millisecond)
	defer again.Stop()
	for {
		conn, err := net.Dial("tcp", s.address)
		if err == nil {
			require.NoError(t, conn.Close())
			return s
		}
		select {
		case <-again.C:
		case <-limit:
			require.FailNow(t, "the gateway does not start", s.log.String())
		}
	}
}

// open returns a driver that is closed when the test ends.
func open(t testing.TB, cfg s3blob.Config) *s3blob.Driver {
	t.Helper()
	d, err := s3blob.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// store puts a blob.
func store(t testing.TB, d *s3blob.Driver, key string, content []byte) {
	t.Helper()
	require.NoError(t, d.Put(t.Context(), key, bytes.NewReader(content), int64(len(content))))
}

// get requests a link without credentials.
func get(t testing.TB, link string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, link, nil)
	require.NoError(t, err)
	transport := &http.Transport{DisableKeepAlives: true}
	res, err := transport.RoundTrip(req)
	require.NoError(t, err)
	defer res.Body.Close()
	return res.StatusCode, readAll(t, res)
}
