package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Server is a PostgreSQL server that creates databases for tests. It is safe for concurrent use.
type Server struct {
	admin url.URL // of an existing database and a user with CREATEDB

	private bool
	cmd     *exec.Cmd // of a private server: the shell that runs watch
	alive   *os.File  // the shell ends the server when this is closed
	stopped sync.Once
	stopErr error
	gone    atomic.Bool // its databases need not be dropped
}

func remote(address string) (*Server, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, fmt.Errorf("read %s: it is not a postgres:// URL", EnvURL) // the cause may contain a password
	}
	return &Server{admin: *u}, nil
}

// URL returns the URL of an empty database, which is dropped when the test ends, with its remaining
// connections.
func (s *Server) URL(t testing.TB) string {
	t.Helper()
	name := "pgtest_" + rand.Text()
	if err := s.exec(context.Background(), `CREATE DATABASE "`+name+`" TEMPLATE template0`); err != nil {
		t.Fatal(fmt.Errorf("create database: %w", err))
	}
	t.Cleanup(func() {
		if s.gone.Load() {
			return
		}
		if err := s.exec(context.Background(), `DROP DATABASE IF EXISTS "`+name+`" WITH (FORCE)`); err != nil {
			t.Error(fmt.Errorf("drop database: %w", err))
		}
	})
	u := s.admin
	u.Path = "/" + name
	return u.String()
}

// Stop terminates a private server immediately, as a power cut does, and removes its directory.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	if err := s.stop(); err != nil {
		t.Error(err)
	}
}

func (s *Server) stop() error {
	s.stopped.Do(func() {
		if !s.private {
			return
		}
		s.gone.Store(true)
		_ = s.alive.Close()
		if err := s.cmd.Wait(); err != nil {
			s.stopErr = fmt.Errorf("stop postgres: %w", err)
		}
	})
	return s.stopErr
}

func (s *Server) exec(ctx context.Context, statement string) error {
	return s.connected(ctx, func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, statement)
		return err
	})
}

func (s *Server) connected(ctx context.Context, do func(context.Context, *pgx.Conn) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	c, err := pgx.Connect(ctx, s.admin.String())
	for tooManyClients(err) && ctx.Err() == nil { // the server still counts connections that were just closed
		<-time.After(10 * time.Millisecond)
		c, err = pgx.Connect(ctx, s.admin.String())
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close(ctx)) }()
	return do(ctx, c)
}

func tooManyClients(err error) bool {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return ok && refused.Code == "53300"
}

func (s *Server) checkDurable(ctx context.Context) error {
	return s.connected(ctx, func(ctx context.Context, c *pgx.Conn) error {
		for _, name := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
			var value string
			if err := c.QueryRow(ctx, "SHOW "+name).Scan(&value); err != nil {
				return err
			}
			if value != "on" {
				return fmt.Errorf("check settings of the server: %s is %s, and benchmarks require on", name, value)
			}
		}
		return nil
	})
}
