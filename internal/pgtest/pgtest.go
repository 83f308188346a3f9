// Package pgtest gives tests PostgreSQL databases of their own. A package that uses it has
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
//
// and its tests call [URL], which answers the address of an empty database. The databases are made on the server that the
// environment variable TEST_DATABASE_URL names, else on a private one, which is started when the first test asks and is
// gone, with its directory, when the test binary is, however that ended. The private server listens on a unix socket in
// its directory and nowhere else, and runs as the user postgres or nobody when the tests are run by root, whom PostgreSQL
// refuses.
//
// A test that needs PostgreSQL fails where there is none. It is never skipped, so that a green run has tested both engines.
package pgtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// EnvURL names the environment variable with the address of a server to use in the place of a private one. Its user must
// be allowed to create databases, and its database must exist: nothing is written there.
const EnvURL = "TEST_DATABASE_URL"

// EnvBin names the environment variable with the directory of initdb and postgres for private servers. Without it, that
// is the newest of /usr/lib/postgresql/*/bin, where Debian has them, else the one of initdb in the PATH.
const EnvBin = "TEST_POSTGRES_BIN"

// shared are the servers of this test binary. A test binary has no other place to keep them between tests.
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
	l.once.Do(func() {}) // nobody starts one from now on
	if l.server == nil {
		return nil
	}
	return l.server.stop()
}

// Main runs the tests, stops the private servers, fails where goroutines are left over, and exits.
func Main(m *testing.M, leaks ...goleak.Option) {
	code := m.Run()
	err := errors.Join(shared.stop(), durable.stop())
	if code == 0 && err == nil {
		err = goleak.Find(leaks...)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
		code = cmp.Or(code, 1)
	}
	os.Exit(code)
}

// URL answers the address of an empty database, as a postgres:// URL, which is dropped when the test ends, with whoever
// is still connected. A private server does not write to the disk in earnest: it forgets all when the machine goes down.
func URL(t testing.TB) string {
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
	return s.URL(t)
}

// Durable is [URL] for benchmarks: what is committed is on the disk. A private server has its settings as shipped, but
// for where it listens. The server of TEST_DATABASE_URL is held to fsync, synchronous_commit and full_page_writes being on.
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

// Start starts a private server for this test alone, for tests that stop it or need settings, such as "max_connections=5",
// of their own. It ends with the test. To start one takes about a second, so prefer [URL].
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	s, err := start(slices.Concat(fast, settings))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop(t) })
	return s
}
