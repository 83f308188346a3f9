package db

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
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

	pooled, err := inspectServer(ctx, settings.ConnConfig)
	if err != nil {
		return nil, err
	}

	parameters := settings.ConnConfig.RuntimeParams
	limits := sessionLimits(parameters)
	var ofTx []any
	for name, value := range limits {
		ofTx = append(ofTx, name, value)
	}

	if pooled {
		settings.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	} else {
		maps.Copy(parameters, limits)
		ofTx = nil
	}

	p, err := pgxpool.NewWithConfig(ctx, settings)
	if err != nil {
		return nil, err
	}

	both := stdlib.OpenDBFromPool(p)
	return &DB{
		engine: PostgreSQL,
		url:    raw,
		read:   both,
		write:  both,
		pooled: pooled,
		limits: ofTx,
		reset:  p.Reset,
		pools:  func() []pool { return []pool{poolOfPostgreSQL(p)} },
		close: func() error {
			err := both.Close()
			p.Close()
			return err
		},
	}, nil
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
	parameters["application_name"] = cmp.Or(parameters["application_name"], "agenthost")
	return config, nil
}

// sessionLimits removes the time limits of a session from the parameters of a connection, and
// returns them with their defaults.
func sessionLimits(parameters map[string]string) map[string]string {
	limits := map[string]string{
		"lock_timeout": lockTimeout,
		// A hub that is suspended in a transaction must not keep its locks.
		"idle_in_transaction_session_timeout": idleInTxTimeout,
	}
	for name, value := range limits {
		limits[name] = cmp.Or(parameters[name], value)
		delete(parameters, name)
	}

	return limits
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

// inspectServer checks the version of the server, and reports whether a connection pooler such as
// PgBouncer is in front of it. A pooler gives the client a process id of its own. One that assigns
// another connection to each transaction has no prepared statements and no settings of a session.
func inspectServer(ctx context.Context, config *pgx.ConnConfig) (bool, error) {
	config = config.Copy()
	sessionLimits(config.RuntimeParams) // a pooler rejects them
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return false, withoutParameter(err)
	}

	defer func() { _ = conn.Close(ctx) }() // it has only read
	var process uint32
	var version int
	const query = "SELECT pg_backend_pid(), current_setting('server_version_num')::int"
	if err := conn.QueryRow(ctx, query).Scan(&process, &version); err != nil {
		return false, err
	}

	if version < postgresOldest*10000 {
		return false, fmt.Errorf("the server is PostgreSQL %d, and %d or newer is required", version/10000, postgresOldest)
	}

	return process != conn.PgConn().PID(), nil
}

// protocolViolation is the code with which PgBouncer rejects parameters of the URL.
const protocolViolation = "08P01"

// withoutParameter adds to the error of a pooler what to do about a parameter that it rejects.
func withoutParameter(err error) error {
	rejected, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || rejected.Code != protocolViolation || !strings.Contains(rejected.Message, "startup parameter") {
		return err
	}

	return fmt.Errorf("the connection pooler rejects a parameter of the postgres:// URL: %s: remove it from the URL, "+
		"set it for the role of the hub with ALTER ROLE, or connect to the server without the pooler", rejected.Message)
}

// limitTx sets the time limits of a transaction whose connection does not have them.
func (d *DB) limitTx(ctx context.Context, tx *sql.Tx) error {
	if d.limits == nil {
		return nil
	}

	_, err := tx.ExecContext(ctx, "SELECT set_config($1, $2, true), set_config($3, $4, true)", d.limits...)
	if err != nil {
		return fmt.Errorf("set limits of transaction: %w", err)
	}

	return nil
}
