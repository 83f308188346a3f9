package db

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

const (
	postgresConns   = 16
	postgresOldest  = 13
	connectTimeout  = 5 * time.Second
	lockTimeout     = "5000" // milliseconds
	idleInTxTimeout = "30000"
	idleConnTimeout = 5 * time.Minute
)

func openPostgreSQL(ctx context.Context, raw string, config Config) (*DB, error) {
	settings, err := postgresConfig(raw, config.MaxConns)
	if err != nil {
		return nil, err
	}
	if host := clearTextHost(settings.ConnConfig.Config); host != "" {
		config.Logger.Warn("passwords and data may cross the network to PostgreSQL without encryption: add sslmode=verify-full to the database URL",
			"host", host)
	}
	p, err := pgxpool.NewWithConfig(ctx, settings)
	if err != nil {
		return nil, err
	}
	both := stdlib.OpenDBFromPool(p)
	d := &DB{engine: PostgreSQL, url: raw, read: both, write: both, reset: p.Reset, close: func() error {
		err := both.Close()
		p.Close()
		return err
	}}
	d.pools = func() []pool { return []pool{poolOfPostgreSQL(p)} }
	if err := d.checkVersion(ctx); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

func postgresConfig(raw string, conns int) (*pgxpool.Config, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, errURL
	}
	config, err := pgxpool.ParseConfig(raw)
	if err != nil {
		return nil, fmt.Errorf("the postgres:// URL cannot be used: %s", reason(err, u))
	}
	given := u.Query()
	switch {
	case conns > 0:
		config.MaxConns = int32(min(conns, 1<<20))
	case !given.Has("pool_max_conns"):
		config.MaxConns = postgresConns
	}
	if !given.Has("pool_max_conn_idle_time") {
		config.MaxConnIdleTime = idleConnTimeout
	}
	if !given.Has("connect_timeout") {
		config.ConnConfig.ConnectTimeout = connectTimeout
	}
	if !given.Has("pool_ping_timeout") {
		config.PingTimeout = connectTimeout
	}
	parameters := config.ConnConfig.RuntimeParams
	parameters["lock_timeout"] = cmp.Or(parameters["lock_timeout"], lockTimeout)
	// A hub that is suspended in a transaction must not keep its locks.
	parameters["idle_in_transaction_session_timeout"] = cmp.Or(parameters["idle_in_transaction_session_timeout"], idleInTxTimeout)
	parameters["application_name"] = cmp.Or(parameters["application_name"], "agenthost")
	return config, nil
}

// clearTextHost returns the first host other than this machine to which the settings permit a
// connection without TLS, or "". That includes sslmode=prefer: an attacker on the network can make
// the server appear to have no TLS.
func clearTextHost(config pgconn.Config) string {
	attempts := append([]*pgconn.FallbackConfig{{Host: config.Host, TLSConfig: config.TLSConfig}}, config.Fallbacks...)
	for _, attempt := range attempts {
		if attempt.TLSConfig == nil && !onThisMachine(attempt.Host) {
			return attempt.Host
		}
	}
	return ""
}

// onThisMachine reports whether host is a loopback address or the directory of a Unix socket.
func onThisMachine(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback() || filepath.IsAbs(host) || strings.HasPrefix(host, "@")
}

// reason returns the message of pgx without its quotes: the URL before it, and often a part of the
// URL in parentheses after it, which contains the password if the URL is malformed.
func reason(err error, u *url.URL) string {
	text := err.Error()
	text = strings.TrimPrefix(text[strings.LastIndex(text, "`")+1:], ": ")
	text, _, _ = strings.Cut(text, " (")
	if password, ok := u.User.Password(); text == "" || ok && password != "" && strings.Contains(text, password) {
		return "one of its settings is not valid"
	}
	return text
}

func (d *DB) checkVersion(ctx context.Context) error {
	var version int
	if err := d.write.QueryRowContext(ctx, "SELECT current_setting('server_version_num')::int").Scan(&version); err != nil {
		return err
	}
	if version < postgresOldest*10000 {
		return fmt.Errorf("the server is PostgreSQL %d, and %d or newer is required", version/10000, postgresOldest)
	}
	return nil
}
