package natsbus_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/runtime/run/bustest"
	"github.com/seed93082962/agenthost/runtime/run/natsbus"
)

// pair returns a key pair and its public key.
func pair(t *testing.T, create func() (nkeys.KeyPair, error)) (keys nkeys.KeyPair, public string) {
	t.Helper()
	keys, err := create()
	require.NoError(t, err)
	public, err = keys.PublicKey()
	require.NoError(t, err)
	return keys, public
}

// issuer is an account whose users have credentials files.
type issuer struct {
	operator, account nkeys.KeyPair
	claims            *jwt.AccountClaims
	resolver          *server.MemAccResolver
}

// publish gives the servers the claims of the account.
func (i *issuer) publish(t *testing.T) string {
	t.Helper()
	text, err := i.claims.Encode(i.operator)
	require.NoError(t, err)
	require.NoError(t, i.resolver.Store(i.claims.Subject, text))
	return text
}

// credentials writes the file of a new user, as nsc does, and returns the public key of the user.
func (i *issuer) credentials(t *testing.T, path, bucket string) string {
	t.Helper()
	user, public := pair(t, nkeys.CreateUser)
	claims := jwt.NewUserClaims(public)
	allowed := permissions(bucket, "$JS.API.INFO", "$JS.API.STREAM.CREATE.KV_"+bucket)
	claims.Pub.Allow.Add(allowed.Publish.Allow...)
	claims.Sub.Allow.Add(allowed.Subscribe.Allow...)
	text, err := claims.Encode(i.account)
	require.NoError(t, err)
	seed, err := user.Seed()
	require.NoError(t, err)
	file, err := jwt.FormatUserConfig(text, seed)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, file, 0o600))
	return public
}

// A connection continues with the credentials that replaced those that were revoked.
func TestCredentials(t *testing.T) {
	t.Parallel()
	i := &issuer{resolver: &server.MemAccResolver{}}
	var operator, account string
	i.operator, operator = pair(t, nkeys.CreateOperator)
	i.account, account = pair(t, nkeys.CreateAccount)
	_, system := pair(t, nkeys.CreateAccount)
	i.claims = jwt.NewAccountClaims(account)
	i.claims.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: -1, DiskStorage: -1}
	i.publish(t)
	text, err := jwt.NewAccountClaims(system).Encode(i.operator)
	require.NoError(t, err)
	require.NoError(t, i.resolver.Store(system, text))
	trusted := jwt.NewOperatorClaims(operator)
	trusted.SystemAccount = system
	s := serve(t, t.TempDir(), func(o *server.Options) {
		o.TrustedOperators, o.AccountResolver, o.SystemAccount = []*jwt.OperatorClaims{trusted}, i.resolver, system
	})

	path := filepath.Join(t.TempDir(), "coder.creds")
	former := i.credentials(t, path, "coder")
	bus := open(t, url(s, "", "/coder?credentials="+path))
	_, err = bus.Get(t.Context(), ids.Random())
	require.NoError(t, err)
	for text, want := range map[string]error{
		url(s, "", "/coder"):                       nats.ErrAuthorization,
		url(s, "", "/writer?credentials="+path):    nats.ErrPermissionViolation,
		url(s, "u:p@", "/coder?nkey="+seedFile(t)): nats.ErrAuthorization,
	} {
		cfg, err := natsbus.Parse(text)
		require.NoError(t, err)
		_, err = natsbus.Open(t.Context(), cfg)
		require.ErrorIs(t, err, want)
	}

	i.claims.Revoke(former)
	found, err := s.LookupAccount(account)
	require.NoError(t, err)
	i.publish(t)
	s.UpdateAccountClaims(found, i.claims)
	available := func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := bus.Get(ctx, ids.Random())
		return err == nil
	}
	bustest.Await(t, func() bool { return !available() })
	i.credentials(t, path, "coder")
	bustest.Await(t, available)
}

// seedFile writes the seed of a new user.
func seedFile(t *testing.T) string {
	t.Helper()
	user, _ := pair(t, nkeys.CreateUser)
	seed, err := user.Seed()
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "seed.nk")
	require.NoError(t, os.WriteFile(path, append(seed, '\n'), 0o600))
	return path
}

func TestNkey(t *testing.T) {
	t.Parallel()
	path := seedFile(t)
	seed, err := os.ReadFile(path)
	require.NoError(t, err)
	user, err := nkeys.ParseDecoratedUserNKey(seed)
	require.NoError(t, err)
	public, err := user.PublicKey()
	require.NoError(t, err)
	s := serve(t, t.TempDir(), func(o *server.Options) { o.Nkeys = []*server.NkeyUser{{Nkey: public}} })
	bus := open(t, url(s, "", "?nkey="+path))
	_, err = bus.Get(t.Context(), ids.Random())
	require.NoError(t, err)
	cfg, err := natsbus.Parse(url(s, "", "?nkey="+seedFile(t)))
	require.NoError(t, err)
	require.Equal(t, []string{cfg.SeedFile}, cfg.Secrets())
	_, err = natsbus.Open(t.Context(), cfg)
	require.ErrorIs(t, err, nats.ErrAuthorization)
}
