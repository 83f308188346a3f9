package sandbox_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/sandbox"
)

// serve serves handler at an address that programs reach through the proxy: it is a loopback
// address, but not one of NO_PROXY.
func serve(t testing.TB, handler http.Handler) (host string) {
	l, err := net.Listen("tcp", "127.0.0.2:0")
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(handler)
	require.NoError(t, server.Listener.Close())
	server.Listener = l
	server.Start()
	t.Cleanup(server.Close)
	return l.Addr().String()
}

func TestGitClone(t *testing.T) {
	sandbox.AllowAddresses(t, netip.Addr.IsLoopback)
	served := t.TempDir()
	script := `git init -q work && cd work && git config user.email a@b && git config user.name a && echo cloned > file &&
		git add file && git commit -q -m first && git clone -q --bare . ../work.git && cd ../work.git && git update-server-info`
	cmd := exec.Command("/bin/bash", "-c", script)
	cmd.Dir = served
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + served}
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
	host := serve(t, http.FileServer(http.Dir(served)))
	for kernel, simulate := range kernels {
		t.Run(kernel, func(t *testing.T) {
			simulate(t)
			s := open(t, func(p *sandbox.Policy) { p.Domains = []string{host} })
			output, err := bash(t, s, "git clone -q http://"+host+"/work.git && cat work/file")
			require.NoError(t, err, output)
			require.Equal(t, "cloned\n", output)
			s = open(t, nil)
			output, denied, err := runCommand(t, s, "/bin/bash", "-c", "git clone -q http://"+host+"/work.git")
			require.Error(t, err, output)
			require.Equal(t, []string{"the sandbox denied a connection to " + host + ": add " + host + " to sandbox.domains"}, denied)
		})
	}
}

// registry responds as one of npm, with one package.
func registry(t testing.TB) http.Handler {
	var archive bytes.Buffer
	compressed := gzip.NewWriter(&archive)
	files := tar.NewWriter(compressed)
	for name, content := range map[string]string{
		"package/package.json": `{"name":"example","version":"1.0.0","main":"index.js"}`,
		"package/index.js":     `module.exports = "installed"`,
	} {
		require.NoError(t, files.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}))
		_, err := files.Write([]byte(content))
		require.NoError(t, err)
	}
	require.NoError(t, files.Close())
	require.NoError(t, compressed.Close())
	sum := sha512.Sum512(archive.Bytes())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/example":
			_ = json.NewEncoder(w).Encode(map[string]any{
				"name": "example", "dist-tags": map[string]string{"latest": "1.0.0"},
				"versions": map[string]any{"1.0.0": map[string]any{
					"name": "example", "version": "1.0.0", "dist": map[string]string{
						"tarball":   "http://" + r.Host + "/example/-/example-1.0.0.tgz",
						"integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:]),
					},
				}},
			})
		case "/example/-/example-1.0.0.tgz":
			_, _ = w.Write(archive.Bytes())
		default:
			http.NotFound(w, r)
		}
	})
}

func TestNPMInstall(t *testing.T) {
	sandbox.AllowAddresses(t, netip.Addr.IsLoopback)
	host := serve(t, registry(t))
	for kernel, simulate := range kernels {
		t.Run(kernel, func(t *testing.T) {
			simulate(t)
			s := open(t, func(p *sandbox.Policy) { p.Domains = []string{host} })
			output, err := bash(t, s, "npm install --silent --no-audit --no-fund --registry=http://"+host+"/ example && node -p 'require(\"example\")'")
			require.NoError(t, err, output)
			require.Contains(t, output, "installed\n")
		})
	}
}

// A command writes to memory that it shares with no other.
func TestSharedMemory(t *testing.T) {
	s := open(t, nil)
	name := "/dev/shm/" + filepath.Base(t.TempDir()) + "-agenthost-test"
	output, err := bash(t, s, "echo private > "+name+" && cat "+name)
	require.NoError(t, err, output)
	require.Equal(t, "private\n", output)
	require.NoFileExists(t, name)
	output, err = bash(t, s, "cat "+name)
	require.Error(t, err, output)
}
