package db

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed93082962/agenthost/internal/child"
)

// Programs are the client programs of PostgreSQL. SQLite needs none.
type Programs struct {
	Dump, Restore string // paths of pg_dump and pg_restore, or "" if they are not installed

	// Env is their environment, in addition to the settings of the URL.
	Env []string
}

// errPooled is the error of a program whose session would be that of other clients too.
var errPooled = errors.New("the database URL is that of a connection pooler, through which pg_dump and pg_restore do not work: " +
	"set DATABASE_URL to the server itself for this command")

// dumpPostgreSQL writes an archive in the custom format of pg_dump, which reads the snapshot of a
// transaction.
func (d *DB) dumpPostgreSQL(ctx context.Context, programs Programs, w io.Writer, read func(q Querier) error) error {
	if d.pooled {
		return errPooled
	}

	tx, err := d.read.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return err
	}

	defer func() { _ = tx.Rollback() }() // it has only read
	// The transaction is idle while pg_dump reads.
	if _, err := tx.ExecContext(ctx, "SET LOCAL idle_in_transaction_session_timeout = 0"); err != nil {
		return err
	}

	var snapshot string
	if err := tx.QueryRowContext(ctx, "SELECT pg_export_snapshot()").Scan(&snapshot); err != nil {
		return err
	}

	if err := read(tx); err != nil {
		return err
	}

	// More compression would take processor time from the server, and 60 s are for a migration.
	return programs.run(ctx, programs.Dump, "pg_dump", d.url, nil, w, "--format=custom", "--compress=1", "--no-owner", "--no-privileges",
		"--lock-wait-timeout=60000", "--snapshot="+snapshot)
}

// checkNoTable rejects a database with tables, views or sequences other than those of extensions.
func checkNoTable(ctx context.Context, config Config) error {
	d, err := open(ctx, config)
	if err != nil {
		return classify(ctx, err)
	}

	if d.pooled {
		return errors.Join(errPooled, d.close())
	}

	n, err := Value[int](ctx, d.read, "count relations", `SELECT COUNT(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname NOT LIKE 'pg\_%' AND n.nspname <> 'information_schema'
		AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e')`)
	if err == nil && n > 0 {
		err = fmt.Errorf("the database has %d tables and indexes: create an empty one, with createdb, and set DATABASE_URL to it", n)
	}

	return errors.Join(err, d.close())
}

// load runs pg_restore in one transaction.
func (p Programs) load(ctx context.Context, address string, dump io.Reader) error {
	return p.run(ctx, p.Restore, "pg_restore", address, dump, io.Discard, "--single-transaction", "--no-owner", "--no-privileges", "--dbname=")
}

// maxMessage bounds what is read of the messages of a program, in bytes.
const maxMessage = 4 << 10

// run runs a program until it or ctx ends. The address and the password are in the environment of
// the program, because other users can read its arguments.
func (p Programs) run(ctx context.Context, path, name, address string, stdin io.Reader, stdout io.Writer, args ...string) error {
	if path == "" {
		return fmt.Errorf("%s is not installed: install the client programs of PostgreSQL", name)
	}

	settings, err := programSettings(address)
	if err != nil {
		return err
	}

	output, end, err := os.Pipe()
	if err != nil {
		return err
	}

	defer func() { _ = output.Close() }() // it was read to its end
	messages := &head{most: maxMessage}
	process, err := child.Start(&exec.Cmd{
		Path: path, Args: slices.Concat([]string{name, "--no-password"}, args), Env: slices.Concat(p.Env, settings, []string{"LC_ALL=C"}),
		Stdin: stdin, Stdout: end, Stderr: messages,
	})
	if err := errors.Join(err, end.Close()); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}

	stop := context.AfterFunc(ctx, process.Kill)
	_, err = io.Copy(stdout, output)
	if err != nil {
		process.Kill()
	}

	<-process.Done()
	if stopped := stop(); !stopped {
		return context.Cause(ctx)
	}

	if err != nil {
		return writing(err)
	}

	if err := process.Err(); err != nil {
		return fmt.Errorf("%s: %w: %s%s", name, err, messages.text.String(), advice(messages.text.String()))
	}

	return nil
}

// advice returns what to do about the message of a program whose version is too old.
func advice(message string) string {
	if strings.Contains(message, "version mismatch") || strings.Contains(message, "unsupported version") {
		return "install the client programs of the same version of PostgreSQL as the server, or of a newer one"
	}

	return ""
}

// head is the start of what was written.
type head struct {
	most int
	text bytes.Buffer
}

func (h *head) Write(p []byte) (int, error) {
	h.text.Write(p[:min(len(p), h.most-h.text.Len())])
	return len(p), nil
}

// variables are those of libpq for the settings of a URL that pgx does not return.
var variables = map[string]string{
	"channel_binding": "PGCHANNELBINDING", "krbsrvname": "PGKRBSRVNAME", "service": "PGSERVICE", "servicefile": "PGSERVICEFILE",
	"sslcert": "PGSSLCERT", "sslkey": "PGSSLKEY", "sslmode": "PGSSLMODE", "sslnegotiation": "PGSSLNEGOTIATION", "sslrootcert": "PGSSLROOTCERT",
	"sslsni": "PGSSLSNI", "ssl_min_protocol_version": "PGSSLMINPROTOCOLVERSION", "target_session_attrs": "PGTARGETSESSIONATTRS",
}

// programSettings returns the environment with which libpq connects to the database of a URL. pgx
// has read the URL, the PG* variables and their files.
func programSettings(address string) ([]string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errURL
	}

	config, err := pgconn.ParseConfig(address)
	if err != nil {
		return nil, fmt.Errorf("the postgres:// URL cannot be used: %s", reason(err, u))
	}

	if u.Query().Has("sslpassword") {
		return nil, errors.New("sslpassword of the database URL cannot be given to a program: use a key without a password")
	}

	var hosts, ports []string
	for _, to := range append([]*pgconn.FallbackConfig{{Host: config.Host, Port: config.Port}}, config.Fallbacks...) {
		port := strconv.Itoa(int(to.Port))
		if n := len(hosts); n == 0 || hosts[n-1] != to.Host || ports[n-1] != port { // another attempt without TLS follows
			hosts, ports = append(hosts, to.Host), append(ports, port)
		}
	}

	env := []string{"PGHOST=" + strings.Join(hosts, ","), "PGPORT=" + strings.Join(ports, ","), "PGUSER=" + config.User, "PGDATABASE=" + config.Database,
		"PGCONNECT_TIMEOUT=" + strconv.Itoa(max(2, int(config.ConnectTimeout.Seconds())))}
	if config.Password != "" {
		env = append(env, "PGPASSWORD="+config.Password)
	}

	if options := config.RuntimeParams["options"]; options != "" {
		env = append(env, "PGOPTIONS="+options)
	}

	for setting, variable := range variables {
		if value := u.Query().Get(setting); value != "" {
			env = append(env, variable+"="+value)
		}
	}

	return env, nil
}
