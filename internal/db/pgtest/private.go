package pgtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// startTimeout bounds the start of a private server, which takes about a second on an idle machine.
const startTimeout = 2 * time.Minute

// Settings of private servers. They are small, because several test binaries run concurrently.
var (
	fast = []string{
		"fsync=off", "synchronous_commit=off", "full_page_writes=off", "autovacuum=off",
		"shared_buffers=32MB", "max_connections=100",
		"wal_level=minimal", "max_wal_senders=0", "max_worker_processes=0", "max_parallel_workers=0",
		"min_wal_size=32MB", "max_wal_size=64MB",
	}
	shipped []string
)

// watch is the parent process of the server. It reads from a pipe whose other end only this test
// binary has, and ends the server when the pipe is closed: by Stop, or by the kernel if the binary
// was killed. Its standard output is closed when the server has ended.
const watch = `
dir=$1 bin=$2; shift 2
trap '' INT
fail() { cat "$dir/log"; rm -rf "$dir"; exit 1; }
cd "$dir" || exit 1
"$bin/initdb" --no-sync -D "$dir/data" -U postgres -A trust -E UTF8 --locale=C >"$dir/log" 2>&1 || fail
"$bin/postgres" -D "$dir/data" "$@" 2>"$dir/log" &
pid=$!
exec >/dev/null
read -r _
kill -QUIT $pid 2>/dev/null
wait $pid
cd / && rm -rf "$dir"
`

var errMissing = errors.New("PostgreSQL is not installed: initdb is neither in $" + EnvBin + " nor in /usr/lib/postgresql/*/bin nor in the PATH, " +
	"and $" + EnvURL + " names no server; 'make setup' installs it on Debian")

func start(settings []string) (*Server, error) {
	s, err := launch(settings)
	if err != nil {
		return nil, fmt.Errorf("start postgres: %w", err)
	}

	return s, nil
}

func launch(settings []string) (*Server, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}

	dir, err := directory(slices.Contains(settings, "fsync=off"))
	if err != nil {
		return nil, err
	}

	args := []string{"-c", watch, "pgtest", dir, bin}
	for _, setting := range slices.Concat(settings, []string{"listen_addresses=", "unix_socket_directories=" + dir, "timezone=UTC"}) {
		args = append(args, "-c", setting)
	}

	in, alive, err := os.Pipe()
	if err != nil {
		return nil, err
	}

	defer func() { _ = in.Close() }()
	out, said, err := os.Pipe()
	if err != nil {
		_ = alive.Close()
		return nil, err
	}

	defer func() { _ = out.Close() }()
	cmd := &exec.Cmd{
		Path: "/bin/sh", Args: append([]string{"sh"}, args...),
		Env: []string{"LC_ALL=C", "PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + dir}, Dir: "/",
		Stdin: in, Stdout: said, SysProcAttr: unprivileged(),
	}
	err = cmd.Start()
	_ = said.Close()
	if err != nil {
		_ = alive.Close()
		return nil, errors.Join(err, os.RemoveAll(dir))
	}

	s := &Server{private: true, cmd: cmd, alive: alive, admin: url.URL{
		Scheme: "postgres", User: url.User("postgres"), Path: "/postgres", RawQuery: url.Values{"host": {dir}}.Encode(),
	}}
	if err := s.await(out, filepath.Join(dir, "log")); err != nil {
		_ = s.stop() // its exit status is less specific
		return nil, err
	}

	return s, nil
}

// await waits until the server accepts connections. If it ends, which closes out, the error
// contains its output.
func (s *Server) await(out *os.File, log string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	var said strings.Builder
	buffer := make([]byte, 4096)
	for {
		if err := out.SetReadDeadline(time.Now().Add(5 * time.Millisecond)); err != nil {
			return err
		}

		n, err := out.Read(buffer)
		said.Write(buffer[:n])
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			text, _ := os.ReadFile(log)
			return fmt.Errorf("the server ended: %s%s", said.String(), text)
		}

		err = s.connected(ctx, func(context.Context, *pgx.Conn) error { return nil })
		if err == nil {
			return nil
		}

		if ctx.Err() != nil {
			text, _ := os.ReadFile(log)
			return fmt.Errorf("it does not accept connections: %w: %s", err, text)
		}
	}
}

// binaries returns the directory of the newest server. On Debian, servers are not in the PATH.
func binaries() (string, error) {
	if dir := os.Getenv(EnvBin); dir != "" {
		if _, err := os.Stat(filepath.Join(dir, "initdb")); err != nil {
			return "", errMissing
		}

		return dir, nil
	}

	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) > 0 {
		version := func(path string) int {
			n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
			return n
		}
		newest := slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })
		return filepath.Dir(newest), nil
	}

	initdb, err := exec.LookPath("initdb")
	if err != nil {
		return "", errMissing
	}

	if initdb, err = filepath.EvalSymlinks(initdb); err != nil {
		return "", err
	}

	return filepath.Dir(initdb), nil
}

// socketRoom is the longest path of a directory for a Unix socket, in bytes.
const socketRoom = 80

// directory creates the directory of a server in the temporary directory, or in /tmp if that path
// is too long for a socket. A server that does not sync has it in memory, where there is room: a
// database is 300 files, and to create and delete these takes ext4 ten times as long.
func directory(unsynced bool) (string, error) {
	parent := os.TempDir()
	if unsynced {
		parent = cmp.Or(MemoryDir(), parent)
	}

	if len(parent) > socketRoom {
		parent = "/tmp"
	}

	dir, err := os.MkdirTemp(parent, "pgtest")
	if err != nil {
		return "", err
	}

	if err := giveAway(dir); err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}

	return dir, nil
}
