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
)

// Server is a PostgreSQL server that makes databases for tests. It is safe for concurrent use.
type Server struct {
	admin url.URL // of a database that exists, by a user who may create others

	private bool
	cmd     *exec.Cmd // of a private server: the shell that watches over it
	alive   *os.File  // the shell ends the server when this is closed
	stopped sync.Once
	stopErr error
	gone    atomic.Bool // its databases need no dropping
}

func remote(address string) (*Server, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, fmt.Errorf("read %s: it is no postgres:// URL", EnvURL) // the cause may hold a password
	}
	return &Server{admin: *u}, nil
}

// URL answers the address of an empty database, which is dropped when the test ends, with whoever is still connected.
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

// Stop ends a private server at once, as if its machine had gone down, and removes its directory.
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
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close(ctx)) }()
	return do(ctx, c)
}

func (s *Server) checkDurable(ctx context.Context) error {
	return s.connected(ctx, func(ctx context.Context, c *pgx.Conn) error {
		for _, name := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
			var value string
			if err := c.QueryRow(ctx, "SHOW "+name).Scan(&value); err != nil {
				return err
			}
			if value != "on" {
				return fmt.Errorf("check the server's settings: %s is %s, and figures are told for on", name, value)
			}
		}
		return nil
	})
}
