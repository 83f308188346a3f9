package chaos_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// patience bounds everything that has to happen at last. It is no requirement on the time out of
// service, which is measured.
const patience = time.Minute

// freeAddress returns an address of loopback that no server has. A daemon keeps it when it is
// started again.
func freeAddress(t *testing.T) string {
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	require.NoError(t, listener.Close())
	return listener.Addr().String()
}

// accepts waits until an address accepts connections.
func accepts(t *testing.T, d *daemon, address string) {
	require.NoError(t, eventually(t.Context(), patience, func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return fmt.Errorf("%s: %w: %s", d.name, err, d.tail())
		}
		return conn.Close()
	}))
}

// startPostgres starts a PostgreSQL server whose commits are durable, and returns the URL of its
// database. If it has a clock file, that shifts its clock, which needs libfaketime.
func startPostgres(t *testing.T, clock string) (d *daemon, address *url.URL) {
	found := must(filepath.Glob("/usr/lib/postgresql/*/bin/initdb"))
	require.NotEmpty(t, found, "PostgreSQL is not installed: run make setup")
	bin := filepath.Dir(found[len(found)-1])
	// The user postgres has to reach it, and the path of a socket has at most 107 bytes.
	dir := must(os.MkdirTemp("/tmp", "chaos"))
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	owner := must(user.Lookup("postgres"))
	uid, gid := must(strconv.Atoi(owner.Uid)), must(strconv.Atoi(owner.Gid))
	require.NoError(t, os.Chown(dir, uid, gid))
	command := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(bin, name), args...)
		cmd.Dir, cmd.Env = dir, []string{"LC_ALL=C", "PATH=/usr/bin:/bin", "HOME=" + dir}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
		return cmd
	}
	data := filepath.Join(dir, "data")
	out, err := command("initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C").CombinedOutput()
	require.NoError(t, err, "%s", out)
	address = &url.URL{Scheme: "postgres", User: url.User("postgres"), Host: freeAddress(t), Path: "/postgres"}
	var fake []string
	if clock != "" {
		library := must(filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1"))
		require.Len(t, library, 1, "faketime is not installed: run make chaos")
		fake = []string{"LD_PRELOAD=" + library[0], "FAKETIME_TIMESTAMP_FILE=" + clock, "FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1"}
	}
	d = startDaemon(t, t.TempDir(), "postgres", func() *exec.Cmd {
		cmd := command("postgres", "-D", data, "-p", address.Port(), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="+dir, "-c", "max_connections=200")
		cmd.Env = append(cmd.Env, fake...)
		return cmd
	})
	// A fast shutdown does not wait for the connections of the hubs.
	d.last = syscall.SIGINT
	require.NoError(t, eventually(t.Context(), patience, func(ctx context.Context) error {
		conn, err := pgx.Connect(ctx, address.String())
		if err != nil {
			return fmt.Errorf("%w: %s", err, d.tail())
		}
		return conn.Close(ctx)
	}))
	return d, address
}

const (
	accessKey = "chaos"
	secretKey = "chaos-secret-access-key-0123456789"
)

// startStorage starts a server with the interface of S3, and returns its address, its files and the
// settings of a hub.
func startStorage(t *testing.T) (d *daemon, address, files string, env []string) {
	address = freeAddress(t)
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "data", "bucket"), 0o700))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "meta"), 0o700))
	d = startDaemon(t, t.TempDir(), "s3", func() *exec.Cmd {
		cmd := exec.Command(filepath.Join(binaries, "versitygw"), "--port", address, "--region", "eu-central-1",
			"posix", "--sidecar", filepath.Join(dir, "meta"), filepath.Join(dir, "data"))
		cmd.Env = []string{"ROOT_ACCESS_KEY=" + accessKey, "ROOT_SECRET_KEY=" + secretKey}
		return cmd
	})
	accepts(t, d, address)
	return d, address, filepath.Join(dir, "data"), []string{
		"BLOB_URL=s3://bucket/blobs?region=eu-central-1&endpoint=" + url.QueryEscape("http://"+address),
		"AWS_ACCESS_KEY_ID=" + accessKey, "AWS_SECRET_ACCESS_KEY=" + secretKey,
	}
}

// installation is hubs with everything that they need.
type installation struct {
	database string // URL
	dir      string // of the hubs
	hubs     []*daemon
	urls     []string
	postgres *daemon // nil: SQLite
	storage  *daemon // nil: files
	files    string  // the directory of the storage
	upstream *upstream
	paying   *modeltest.Upstream
	bill     bill
	compared string               // the last comparison with the bill
	killed   map[string]time.Time // since when the killed ones of a kind are in service again
	program  string               // of the hubs and their runtimes, which is only of this installation

	postgresPort, storageAddress string
	postgresClock                string // the file with the shift of its clock, or ""
}

const setupToken = "0123456789abcdef"

// newInstallation starts hubs on PostgreSQL and S3, or one hub on SQLite and files.
func newInstallation(t *testing.T, hubs int, replicable bool, more ...string) *installation {
	return newInstallationIn(t, t.TempDir(), hubs, replicable, more...)
}

// newInstallationIn is newInstallation with the directory of the hubs.
func newInstallationIn(t *testing.T, dir string, hubs int, replicable bool, more ...string) *installation {
	in := &installation{dir: dir, program: filepath.Join(t.TempDir(), "hub")}
	in.start(t, filepath.Join(binaries, "hub"), hubs, replicable, more...)
	return in
}

// settingsFile returns the path of the file with limits of answers, and with directories that
// agents may read.
func settingsFile(t *testing.T, answers int, read ...string) string {
	path := filepath.Join(t.TempDir(), "hub.yaml")
	text, err := json.Marshal(object{
		"limits":  object{"requestsPerUser": 0, "requestsPerAddress": 0, "answersPerUser": answers, "answersPerAgent": max(answers, 200)},
		"sandbox": object{"read": append([]string{}, read...)},
	}) // JSON is YAML
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, text, 0o600))
	return path
}

// start starts the servers of an installation. The hubs are a program.
func (in *installation) start(t *testing.T, program string, hubs int, replicable bool, more ...string) {
	in.upstream = startUpstream(t, &in.bill)
	in.killed = map[string]time.Time{}
	require.NoError(t, os.Link(program, in.program))
	env := []string{"HUB_DATA_DIR=" + in.dir, "HUB_SETUP_TOKEN=" + setupToken, "HUB_PROBE_ALLOW_PRIVATE=true",
		"HUB_CONFIG=" + settingsFile(t, 100)}
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	env = append(env, "PROVIDER_ENCRYPTION_KEY="+base64.StdEncoding.EncodeToString(key))
	if replicable {
		var storage []string
		var address *url.URL
		in.postgres, address = startPostgres(t, in.postgresClock)
		in.database, in.postgresPort = address.String(), address.Port()
		in.storage, in.storageAddress, in.files, storage = startStorage(t)
		env = append(env, storage...)
	} else {
		in.database = "sqlite://" + filepath.Join(in.dir, "hub.db")
	}
	env = append(append(env, more...), "DATABASE_URL="+in.database, "HOME="+in.dir, "PATH="+os.Getenv("PATH"))
	t.Cleanup(func() { // a runtime is left only after a failure
		for _, pid := range processes(in.program) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	for i := range hubs {
		address := freeAddress(t)
		in.urls = append(in.urls, "http://"+address)
		d := startDaemon(t, t.TempDir(), fmt.Sprint("hub", i+1), func() *exec.Cmd {
			cmd := exec.Command(in.program, "--addr", address)
			cmd.Dir, cmd.Env = in.dir, append([]string{"HUB_PUBLIC_URL=" + in.urls[0]}, env...)
			if i == 0 && hubs > 1 {
				cmd.Env = append(cmd.Env, clockVariable+"="+filepath.Join(in.dir, "hub1.clock"))
			}
			return cmd
		})
		in.hubs = append(in.hubs, d)
		require.NoError(t, eventually(t.Context(), patience, func(ctx context.Context) error {
			req := must(http.NewRequestWithContext(ctx, http.MethodGet, in.urls[i]+"/health/ready", nil))
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				return fmt.Errorf("%w: %s", err, d.tail())
			}
			_ = res.Body.Close()
			if res.StatusCode != http.StatusOK {
				return fmt.Errorf("status %d: %s", res.StatusCode, d.tail())
			}
			return nil
		}))
	}
}

// events returns what the hubs have logged since a time, without requests.
func (in *installation) events(since time.Time) string {
	var b strings.Builder
	from := `"time":"` + since.UTC().Format("2006-01-02T15:04:05")
	for _, d := range in.hubs {
		fmt.Fprintf(&b, "%s:\n", d.name)
		text, _ := os.ReadFile(d.log)
		for line := range strings.Lines(string(text)) {
			at := strings.Index(line, `"time":"`)
			if at >= 0 && line[at:] >= from && !strings.Contains(line, `"message":"request"`) {
				b.WriteString(line)
			}
		}
	}
	return b.String()
}

// logs returns the errors and the ends of the logs of the hubs.
func (in *installation) logs() string {
	var b strings.Builder
	for _, d := range in.hubs {
		fmt.Fprintf(&b, "\n%s:\n%s\n%s", d.name, d.failures(), d.tail())
	}
	return b.String()
}
