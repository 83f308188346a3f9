package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
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

	mu        sync.Mutex // guards templates
	templates map[string]string
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
	return s.copy(t, "template0")
}

// copy returns the URL of a copy of a database, which is dropped when the test ends.
func (s *Server) copy(t testing.TB, template string) string {
	t.Helper()
	name, err := s.create(template)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := s.drop(name); err != nil {
			t.Error(err)
		}
	})
	return s.urlOf(name)
}

func (s *Server) create(template string) (name string, err error) {
	name = "pgtest_" + rand.Text()
	err = s.connected(context.Background(), func(ctx context.Context, c *pgx.Conn) error {
		statement := `CREATE DATABASE "` + name + `" TEMPLATE "` + template + `"`
		major, _, _ := strings.Cut(c.PgConn().ParameterStatus("server_version"), ".")
		if version, err := strconv.Atoi(major); err == nil && version >= 15 {
			statement += " STRATEGY FILE_COPY" // half the time of the default
		}

		_, err := c.Exec(ctx, statement)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("create database: %w", err)
	}

	return name, nil
}

func (s *Server) drop(name string) error {
	if s.gone.Load() {
		return nil
	}

	if err := s.exec(context.Background(), `DROP DATABASE IF EXISTS "`+name+`" WITH (FORCE)`); err != nil {
		return fmt.Errorf("drop database: %w", err)
	}

	return nil
}

func (s *Server) urlOf(name string) string {
	u := s.admin
	u.Path = "/" + name
	return u.String()
}

// copyOf returns the URL of a copy of the database that fill has filled. fill is called once for
// each key.
func (s *Server) copyOf(t testing.TB, key string, fill func(url string) error) string {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	template, known := s.templates[key]
	if !known {
		var err error
		if template, err = s.create("template0"); err != nil {
			t.Fatal(err)
		}

		if err := fill(s.urlOf(template)); err != nil {
			t.Fatal(errors.Join(fmt.Errorf("fill template: %w", err), s.drop(template)))
		}

		if s.templates == nil {
			s.templates = map[string]string{}
		}

		s.templates[key] = template
	}

	return s.copy(t, template)
}

// dropTemplates drops the databases that were copied.
func (s *Server) dropTemplates() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, name := range s.templates {
		errs = append(errs, s.drop(name))
	}

	return errors.Join(errs...)
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
			s.stopErr = s.dropTemplates()
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
