// Package pgtest creates PostgreSQL databases for tests. A package that uses it has
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
//
// and its tests call [URL], which returns the URL of an empty database. The databases are created
// on the server that the environment variable TEST_DATABASE_URL names, or else on a private server.
// The private server starts with the first call and ends, with its directory, when the test binary
// ends, even if that is killed. It listens only on a Unix socket in its directory. If the tests run
// as root, which PostgreSQL rejects, it runs as the user postgres or nobody.
//
// A test fails if PostgreSQL is not installed. It is never skipped: a successful run has tested
// both engines.
package pgtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// EnvURL is the environment variable with the URL of a server that is used instead of a private
// one. Its user must be allowed to create databases, and its database must exist; nothing is
// written to it.
const EnvURL = "TEST_DATABASE_URL"

// EnvBin is the environment variable with the directory of initdb, postgres and the client
// programs. It defaults to the newest of /usr/lib/postgresql/*/bin, as on Debian, and then to the
// directory of initdb in the PATH.
const EnvBin = "TEST_POSTGRES_BIN"

// The servers that the tests of this binary share.
var shared, durable lazy

type lazy struct {
	once   sync.Once
	server *Server
	err    error
}

func (l *lazy) get(start func() (*Server, error)) (*Server, error) {
	l.once.Do(func() { l.server, l.err = start() })
	return l.server, l.err
}

func (l *lazy) stop() error {
	l.once.Do(func() {}) // no server is started later
	if l.server == nil {
		return nil
	}

	return l.server.stop()
}

// Main runs the tests, stops the private servers, fails if goroutines remain, and exits, unless
// options has a cleanup that exits.
func Main(m *testing.M, options ...goleak.Option) { goleak.VerifyTestMain(tests{m}, options...) }

type tests struct{ m *testing.M }

// Run runs the tests and stops the private servers. Small heaps are collected so often that a
// collector with the default percentage takes a third of the processor time.
func (t tests) Run() int {
	debug.SetGCPercent(400)
	code := t.m.Run()
	if err := errors.Join(shared.stop(), durable.stop()); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
		code = cmp.Or(code, 1)
	}

	return code
}

// URL returns the postgres:// URL of an empty database, which is dropped when the test ends, with
// its remaining connections. A private server does not sync to the disk.
func URL(t testing.TB) string {
	t.Helper()
	return sharedServer(t).URL(t)
}

// Bin returns the directory of the programs of PostgreSQL, such as pg_dump.
func Bin(t testing.TB) string {
	t.Helper()
	dir, err := binaries()
	if err != nil {
		t.Fatal(err)
	}

	return dir
}

// Copy is [URL] of a copy of the database that fill has filled, which takes a fraction of the time
// of many statements. fill is called once for each key. It must close its connections.
func Copy(t testing.TB, key string, fill func(url string) error) string {
	t.Helper()
	return sharedServer(t).copyOf(t, key, fill)
}

func sharedServer(t testing.TB) *Server {
	t.Helper()
	s, err := shared.get(func() (*Server, error) {
		if address := os.Getenv(EnvURL); address != "" {
			return remote(address)
		}

		return start(fast)
	})
	if err != nil {
		t.Fatal(err)
	}

	return s
}

// Durable is [URL] for benchmarks: commits are synced to disk. A private server has default
// settings, except its socket. The server of TEST_DATABASE_URL must have fsync, synchronous_commit
// and full_page_writes on.
func Durable(t testing.TB) string {
	t.Helper()
	s, err := durable.get(func() (*Server, error) {
		if address := os.Getenv(EnvURL); address != "" {
			return remote(address)
		}

		return start(shipped)
	})
	if err != nil {
		t.Fatal(err)
	}

	url := s.URL(t)
	if err := s.checkDurable(context.Background()); err != nil {
		t.Fatal(err)
	}

	return url
}

// Start starts a private server only for this test, which may stop it or need its own settings,
// such as "max_connections=5". It ends with the test. A start takes about a second: prefer [URL].
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	s, err := start(slices.Concat(fast, settings))
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { s.Stop(t) })
	return s
}
