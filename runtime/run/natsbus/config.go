package natsbus

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/seed93082962/agenthost/internal/pattern"
)

// Config configures [Open].
type Config struct {
	// Servers are the addresses of a cluster, as nats://host:4222 or tls://host:4222, with a user and
	// password or a token if they are required. Required.
	Servers []string

	// Bucket is the name of the key-value bucket. Replicas of one runtime have the same bucket, and
	// each runtime its own, or its own scope in a bucket. Required.
	Bucket string

	// Scope is the name of a part of the bucket, for runtimes that share it. Defaults to none.
	Scope string

	// CredentialsFile is a file with a JWT and its seed, as nsc writes it. Each connection reads it
	// again.
	CredentialsFile string

	// SeedFile is a file with the seed of an nkey.
	SeedFile string

	// CAFile has the certificates of the authorities of the servers. Defaults to those of the system.
	CAFile string

	// CertFile and KeyFile are a client certificate and its key.
	CertFile, KeyFile string

	// Logger defaults to none.
	Logger *slog.Logger
}

// defaultBucket is the bucket of a URL without a path.
const defaultBucket = "agenthost-runs"

const maxURL = 8 << 10 // bytes

var bucketName = pattern.Compile(`^[A-Za-z0-9_-]{1,64}$`)

// Parse parses a URL:
//
//	nats://user:password@host:4222
//	tls://one:4222,two:4222/bucket?credentials=/run/secrets/nats.creds&ca=/etc/nats/ca.pem
//	nats://host:4222/bucket/scope
//
// The scheme is nats or tls, and there may be several hosts with one user. The path is the bucket,
// and the scope if there is one. The query may have the paths of files: credentials, nkey, ca, cert
// and key. An error does not contain the URL, which may have a password.
func Parse(text string) (Config, error) {
	var cfg Config
	if len(text) > maxURL {
		return cfg, errors.New("the URL has more than 8 KiB")
	}

	// Package url rejects several hosts: it parses the URL of the first one.
	scheme, rest, _ := strings.Cut(text, "://")
	authority, query := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, query = rest[:i], rest[i:]
	}

	user, hosts := "", authority
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		user, hosts = authority[:i+1], authority[i+1:]
	}

	if scheme != "nats" && scheme != "tls" || hosts == "" {
		return cfg, errors.New("the URL must begin with nats:// or tls:// and a host")
	}

	for host := range strings.SplitSeq(hosts, ",") {
		server := scheme + "://" + user + host
		u, err := url.Parse(server)
		if err != nil || u.Hostname() == "" {
			return cfg, errors.New("the URL has a host or a user that is malformed; special characters of a password are written as %XX")
		}

		cfg.Servers = append(cfg.Servers, server)
	}

	u, err := url.Parse(query)
	if err != nil || u.Fragment != "" {
		return cfg, errors.New("the path or the query of the URL is malformed")
	}

	path, scope, scoped := strings.Cut(strings.Trim(u.Path, "/"), "/")
	if scoped && scope == "" {
		return cfg, errors.New("the path of the URL is malformed")
	}

	cfg.Bucket, cfg.Scope = cmp.Or(path, defaultBucket), scope
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return cfg, errors.New("the query of the URL is malformed")
	}

	for name, paths := range values {
		field, ok := map[string]*string{
			"credentials": &cfg.CredentialsFile, "nkey": &cfg.SeedFile,
			"ca": &cfg.CAFile, "cert": &cfg.CertFile, "key": &cfg.KeyFile,
		}[name]
		if !ok || len(paths) != 1 || paths[0] == "" {
			return cfg, fmt.Errorf("the query of the URL has %q, which must be one path of credentials, nkey, ca, cert or key", name)
		}

		*field = paths[0]
	}

	return cfg, cfg.check()
}

func (c *Config) check() error {
	switch {
	case len(c.Servers) == 0:
		return errors.New("there is no server")
	case !bucketName().MatchString(c.Bucket):
		return errors.New("the bucket must have 1 to 64 of A-Z, a-z, 0-9, '_' and '-'")
	case c.Scope != "" && !bucketName().MatchString(c.Scope):
		return errors.New("the scope must have at most 64 of A-Z, a-z, 0-9, '_' and '-'")
	case c.CredentialsFile != "" && c.SeedFile != "":
		return errors.New("credentials and nkey are both set")
	case (c.CertFile == "") != (c.KeyFile == ""):
		return errors.New("a certificate needs a key, and a key a certificate")
	}

	return nil
}

// part returns the part of the subjects that the bucket and the scope are.
func (c *Config) part() string {
	if c.Scope == "" {
		return c.Bucket
	}

	return c.Bucket + "." + c.Scope
}

// Secrets returns the paths of the files with secrets.
func (c *Config) Secrets() []string {
	var paths []string
	for _, path := range []string{c.CredentialsFile, c.SeedFile, c.KeyFile} {
		if path != "" {
			paths = append(paths, path)
		}
	}

	return paths
}

// connect connects to a server. refused is called if a permission is missing.
func (c *Config) connect(refused func(error)) (*nats.Conn, error) {
	if err := c.check(); err != nil {
		return nil, err
	}

	options := []nats.Option{
		nats.Name("agenthost runtime"), nats.PingInterval(pingInterval), nats.FlusherTimeout(writeTimeout),
		nats.Timeout(connectTimeout / time.Duration(len(c.Servers))), // they are tried one after another
		nats.CustomInboxPrefix("_INBOX." + c.part()),                 // so that a user can be limited to its own responses
		nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(), nats.ReconnectWait(reconnectWait),
		nats.ReconnectJitter(reconnectWait, reconnectWait),
		nats.ReconnectBufSize(-1), // without a connection, a call fails immediately
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { c.Logger.Warn("connection to NATS was interrupted", "err", err) }),
		nats.ReconnectHandler(func(*nats.Conn) { c.Logger.Info("connection to NATS was restored") }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			c.Logger.Warn("NATS reported an error", "err", err)
			if errors.Is(err, nats.ErrPermissionViolation) {
				refused(err)
			}
		}),
	}
	if c.CredentialsFile != "" {
		options = append(options, nats.UserCredentials(c.CredentialsFile))
	}

	if c.SeedFile != "" {
		seed, err := nats.NkeyOptionFromSeed(c.SeedFile)
		if err != nil {
			return nil, err
		}

		options = append(options, seed)
	}

	if c.CAFile != "" {
		options = append(options, nats.RootCAs(c.CAFile))
	}

	if c.CertFile != "" {
		options = append(options, nats.ClientCert(c.CertFile, c.KeyFile))
	}

	all := nats.GetDefaultOptions()
	all.Servers = c.Servers // nats.Connect would split a URL at the commas of a password
	for _, option := range options {
		if err := option(&all); err != nil {
			return nil, err
		}
	}

	return all.Connect()
}
