package pgtest

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// poolerConfig is the file of a PgBouncer in front of one server. In the mode of transactions, it
// has fewer connections to the server than a hub has to the pooler.
const poolerConfig = `[databases]
* = %s
[pgbouncer]
listen_addr =
listen_port = 6432
unix_socket_dir = %s
auth_type = any
pool_mode = %s
default_pool_size = %d
query_wait_timeout = 5
max_client_conn = 500
logfile = %[2]s/log
pidfile = %[2]s/pid
`

// watchPooler ends the pooler with the test binary, as watch does with a server.
const watchPooler = `
trap '' INT
pgbouncer -q "$1/pgbouncer.ini" >/dev/null 2>&1 &
pid=$!
read -r _
kill -TERM $pid 2>/dev/null
wait $pid
`

// Pooler returns the URL of the database of address through a PgBouncer, which the test starts.
// mode is transaction or session.
func Pooler(t testing.TB, address, mode string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal("the URL of the database cannot be parsed")
	}

	dir, err := directory(true)
	if err != nil {
		t.Fatal(err)
	}

	config := filepath.Join(dir, "pgbouncer.ini")
	conns := 8
	if mode == "session" {
		conns = 20
	}

	text := fmt.Sprintf(poolerConfig, serverSettings(u), dir, mode, conns)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil { // its user reads it
		t.Fatal(err)
	}

	in, alive, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}

	cmd := &exec.Cmd{
		Path: "/bin/sh", Args: []string{"sh", "-c", watchPooler, "pooler", dir},
		Env:   []string{"PATH=/usr/local/bin:/usr/sbin:/usr/bin:/bin", "HOME=" + dir},
		Dir:   dir,
		Stdin: in, SysProcAttr: unprivileged(),
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}

	_ = in.Close() // the child has it
	t.Cleanup(func() {
		_ = alive.Close() // which ends the pooler
		_ = cmd.Wait()    // its status is that of the signal
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	awaitSocket(t, dir)
	pooled := url.URL{Scheme: "postgres", User: url.User("postgres"), Path: u.Path}
	pooled.RawQuery = url.Values{"host": {dir}, "port": {"6432"}}.Encode()
	return pooled.String()
}

// serverSettings returns the connection of a pooler to the server of a URL.
func serverSettings(u *url.URL) string {
	password, _ := u.User.Password()
	settings := map[string]string{
		"host":     u.Query().Get("host"),
		"port":     u.Port(),
		"user":     u.User.Username(),
		"password": password,
	}
	if u.Hostname() != "" {
		settings["host"] = u.Hostname()
	}

	var text strings.Builder
	for name, value := range settings {
		if value != "" {
			fmt.Fprintf(&text, "%s='%s' ", name, strings.ReplaceAll(value, "'", "''"))
		}
	}

	return text.String()
}

func awaitSocket(t testing.TB, dir string) {
	t.Helper()
	deadline := time.Now().Add(startTimeout)
	for {
		// The file exists before PgBouncer listens.
		if c, err := net.Dial("unix", filepath.Join(dir, ".s.PGSQL.6432")); err == nil {
			_ = c.Close()
			return
		}

		if time.Now().After(deadline) {
			log, _ := os.ReadFile(filepath.Join(dir, "log"))
			t.Fatalf("PgBouncer does not listen: 'make setup' installs it on Debian: %s", log)
		}

		<-time.After(5 * time.Millisecond)
	}
}
