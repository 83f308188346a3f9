package interop_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// postgres starts a server of PostgreSQL and returns the directory of its socket.
func postgres(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	programs, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	require.NoError(t, err)
	require.NotEmpty(t, programs)
	out, err := exec.Command("chown", "postgres", dir).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	as := []string{"-u", "postgres", "--"}
	out, err = exec.Command("runuser", append(as, programs[0]+"/initdb", "-A", "trust", "-D", dir)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	start(t, dir, nil, "runuser", append(as, programs[0]+"/postgres", "-D", dir, "-k", dir, "-c", "listen_addresses=")...)
	require.Eventually(t, func() bool { return exec.Command("psql", "-h", dir, "-U", "postgres", "-c", "SELECT 1").Run() == nil }, patience, tick)
	return dir
}

// TestOperator: two hubs that share a database of PostgreSQL behind nginx. An agent that is
// deployed through the proxy answers in a browser while the first hub is away.
func TestOperator(t *testing.T) {
	if !alone(t) {
		return
	}
	const proxy = "http://127.0.0.1:8081"
	socket := postgres(t)
	dir := t.TempDir()
	examples, err := filepath.Abs(filepath.Join("..", "..", "examples"))
	require.NoError(t, err)
	require.NoError(t, os.Symlink(examples, filepath.Join(dir, "examples")))
	p := newPerson(t, dir)
	p.reads("hub/README.md", "Two hubs on one machine",
		"postgres:///agenthost?host=/var/run/postgresql", "postgres://postgres@/agenthost?host="+socket)
	shell := p.terminal("PGHOST="+socket, "PGUSER=postgres", "HUB_LOG_LEVEL=error")
	for range 3 {
		shell.run(p.next())
	}
	for _, port := range []string{"8080", "8090"} {
		shell.run(p.next())
		awaitHTTP(t, "http://127.0.0.1:"+port+"/health/ready")
	}
	shell.run(p.next())
	t.Cleanup(func() {
		_ = exec.Command("nginx", "-c", filepath.Join(dir, "examples/proxy/hubs-nginx.conf"), "-s", "stop").Run()
	})
	awaitHTTP(t, proxy+"/health")

	shell.types(p.next() + "\n")
	shell.await("Password: $")
	shell.types(p.value(invented) + "\n")
	text, code := shell.await(prompt.String())
	require.Equal(t, "0", code[1], text)
	shell.run(p.next())
	require.Contains(t, shell.run(p.next()), "The agent helper is running, revision 1.")
	shell.run(p.next()) // checks the installation
	p.did(10, 1)

	shell.run("kill %1; wait %1")
	_, err = http.Get("http://127.0.0.1:8080/health")
	require.Error(t, err)
	b := browser(t)
	b.open(proxy)
	b.signIn("ada")
	b.press("Start a chat")
	b.chat("Hello!", "You wrote: Hello!")
}
