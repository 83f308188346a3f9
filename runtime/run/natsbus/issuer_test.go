package natsbus_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/runtime/internal/registry"
	"github.com/seed93082962/agenthost/runtime/run"
	"github.com/seed93082962/agenthost/runtime/run/bustest"
	"github.com/seed93082962/agenthost/runtime/run/natsbus"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// account starts a server with an account that has a signing key. It returns the public key of the
// account, and the seed of the signing key.
func account(t *testing.T) (s *server.Server, name string, keys nkeys.KeyPair, seed []byte) {
	t.Helper()
	resolver := &server.MemAccResolver{}
	operator, operatorName := pair(t, nkeys.CreateOperator)
	keys, name = pair(t, nkeys.CreateAccount)
	signer, signerName := pair(t, nkeys.CreateAccount)
	_, system := pair(t, nkeys.CreateAccount)
	claims := jwt.NewAccountClaims(name)
	claims.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: -1, DiskStorage: -1}
	claims.SigningKeys.Add(signerName)
	for subject, claims := range map[string]*jwt.AccountClaims{name: claims, system: jwt.NewAccountClaims(system)} {
		text, err := claims.Encode(operator)
		require.NoError(t, err)
		require.NoError(t, resolver.Store(subject, text))
	}
	trusted := jwt.NewOperatorClaims(operatorName)
	trusted.SystemAccount = system
	seed, err := signer.Seed()
	require.NoError(t, err)
	return serve(t, t.TempDir(), func(o *server.Options) {
		o.TrustedOperators, o.AccountResolver, o.SystemAccount = []*jwt.OperatorClaims{trusted}, resolver, system
	}), name, keys, seed
}

// The server rejects what a runtime with credentials of its scope writes to another scope: it
// cancels no run there, takes no run id and receives no notification.
func TestScopesAreSeparate(t *testing.T) {
	t.Parallel()
	s, name, keys, seed := account(t)
	operator := &issuer{account: keys}
	admin := filepath.Join(t.TempDir(), "admin.creds")
	operator.credentials(t, admin, "agents")
	open(t, url(s, "", "/agents?credentials="+admin)) // creates the bucket

	i, err := natsbus.NewIssuer(seed, name, "agents")
	require.NoError(t, err)
	file := func(scope string) string {
		text, err := i.Credentials(scope)
		require.NoError(t, err)
		path := filepath.Join(t.TempDir(), scope)
		require.NoError(t, os.WriteFile(path, text, 0o600))
		return path
	}
	one, two := file("one"), file("two")
	replica := func() *registry.Registry {
		g := registry.New(registry.Config{Bus: open(t, url(s, "", "/agents/one?credentials="+one))})
		t.Cleanup(g.Close)
		return g
	}
	owner, other := replica(), replica()
	open(t, url(s, "", "/agents/two?credentials="+two))
	r, err := owner.Claim(t.Context(), ids.Random())
	require.NoError(t, err)
	require.NoError(t, r.Start())

	refused := make(chan error, 100)
	conn, err := nats.Connect(url(s, "", ""), nats.UserCredentials(two), nats.CustomInboxPrefix("_INBOX.agents.two"),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	require.NoError(t, err)
	defer conn.Close()
	for what, call := range map[string]func() error{
		"a cancel":        func() error { return conn.Publish("$KV.agents.one."+r.ID().String(), []byte("{}")) },
		"a notification":  func() error { return conn.Publish("agenthost.agents.one.x", []byte(r.ID().String())) },
		"a response":      func() error { return conn.Publish("_INBOX.agents.one.x", nil) },
		"notifications":   func() error { _, err := conn.SubscribeSync("agenthost.agents.one.>"); return err },
		"responses":       func() error { _, err := conn.SubscribeSync("_INBOX.agents.one.>"); return err },
		"entries":         func() error { _, err := conn.SubscribeSync("$KV.agents.>"); return err },
		"a purge":         func() error { return conn.Publish("$JS.API.STREAM.PURGE.KV_agents", nil) },
		"a deletion":      func() error { return conn.Publish("$JS.API.STREAM.DELETE.KV_agents", nil) },
		"a copy":          func() error { return conn.Publish("$JS.API.STREAM.CREATE.copy", nil) },
		"a consumer":      func() error { return conn.Publish("$JS.API.CONSUMER.CREATE.KV_agents", nil) },
		"another message": func() error { return conn.Publish("$JS.API.STREAM.MSG.DELETE.KV_agents", nil) },
	} {
		require.NoError(t, call(), what)
		require.NoError(t, conn.Flush(), what)
		select {
		case err := <-refused:
			require.ErrorIs(t, err, nats.ErrPermissionViolation, what)
		case <-time.After(bustest.Limit):
			require.FailNow(t, "the server accepts it", what)
		}
	}
	require.NoError(t, r.Context().Err(), "the run continues")

	cfg, err := natsbus.Parse(url(s, "", "/agents/one?credentials="+two))
	require.NoError(t, err)
	_, err = natsbus.Open(t.Context(), cfg)
	require.ErrorIs(t, err, nats.ErrPermissionViolation)

	_, err = other.Cancel(r.ID(), wire.ReasonClientRequest)
	require.NoError(t, err)
	require.Error(t, r.Context().Err())
	r.Finish(nil, nil)
	// The states of runs are not secret: the request that reads them has no subject of a scope.
	m, err := conn.Request("$JS.API.STREAM.MSG.GET.KV_agents", []byte(`{"last_by_subj": "$KV.agents.one.`+r.ID().String()+`"}`), bustest.Limit)
	require.NoError(t, err)
	require.Contains(t, string(m.Data), `"data"`)
}

// A user lets the server replace the entry of a run in another scope by a response. That cancels no
// run. Other runs are not affected, and the owner stores the entry again.
func TestResponseInPlaceOfAnEntry(t *testing.T) {
	t.Parallel()
	s, name, keys, seed := account(t)
	operator := &issuer{account: keys}
	admin := filepath.Join(t.TempDir(), "admin.creds")
	operator.credentials(t, admin, "agents")
	open(t, url(s, "", "/agents?credentials="+admin)) // creates the bucket
	i, err := natsbus.NewIssuer(seed, name, "agents")
	require.NoError(t, err)
	attacker, err := i.Credentials("two")
	require.NoError(t, err)
	replica := func() *registry.Registry {
		g := registry.New(registry.Config{Bus: open(t, url(s, "", "/agents/one?credentials="+admin))})
		t.Cleanup(g.Close)
		return g
	}
	owner, other := replica(), replica()
	var runs []*registry.Run
	for range 3 {
		r, err := owner.Claim(t.Context(), ids.Random())
		require.NoError(t, err)
		require.NoError(t, r.Start())
		runs = append(runs, r)
	}
	conn, err := nats.Connect(url(s, "", ""), nats.UserCredentialBytes(attacker), nats.CustomInboxPrefix("_INBOX.agents.two"))
	require.NoError(t, err)
	defer conn.Close()
	read := func(r *registry.Run) string {
		m, err := conn.Request("$JS.API.STREAM.MSG.GET.KV_agents", []byte(`{"last_by_subj": "$KV.agents.one.`+r.ID().String()+`"}`), bustest.Limit)
		require.NoError(t, err)
		return string(m.Data)
	}
	for _, r := range runs[:2] {
		former := read(r)
		require.NoError(t, conn.PublishRequest("$KV.agents.two.x", "$KV.agents.one."+r.ID().String(), nil))
		require.Eventually(t, func() bool { return read(r) != former }, bustest.Limit, time.Millisecond)
	}
	_, err = other.Cancel(runs[0].ID(), wire.ReasonClientRequest)
	require.ErrorIs(t, err, run.ErrUnavailable)
	require.NoError(t, runs[0].Context().Err())
	_, err = other.Cancel(runs[2].ID(), wire.ReasonClientRequest)
	require.NoError(t, err, "the bus is available for other runs")
	require.Error(t, runs[2].Context().Err())

	_, err = owner.Cancel(runs[0].ID(), wire.ReasonClientRequest)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		answer, err := other.Cancel(runs[0].ID(), wire.ReasonClientRequest)
		return err == nil && answer.State == wire.StateCancelling
	}, bustest.Limit, time.Millisecond, "the owner has stored it again")
	require.NoError(t, runs[1].Context().Err())
	runs[1].Finish(nil, nil)
	answer, err := other.Cancel(runs[1].ID(), wire.ReasonClientRequest)
	require.ErrorIs(t, err, registry.ErrEnded)
	require.Equal(t, wire.StateCompleted, answer.State)
	runs[0].Finish(nil, nil)
	runs[2].Finish(nil, nil)
}

func TestInvalidIssuers(t *testing.T) {
	t.Parallel()
	keys, name := pair(t, nkeys.CreateAccount)
	seed, err := keys.Seed()
	require.NoError(t, err)
	user, err := os.ReadFile(seedFile(t))
	require.NoError(t, err)
	for name, test := range map[string]struct {
		seed            []byte
		account, bucket string
	}{
		"no seed": {nil, "", "b"}, "a user": {user, "", "b"}, "a user of an account": {user, name, "b"}, "another account": {seed, "x", "b"}, "a bucket with a dot": {seed, "", "a.b"},
	} {
		_, err := natsbus.NewIssuer(test.seed, test.account, test.bucket)
		require.Error(t, err, name)
	}
	i, err := natsbus.NewIssuer(seed, "", "b")
	require.NoError(t, err)
	_, err = i.Credentials("a.>")
	require.Error(t, err)
	i, err = natsbus.NewIssuer(seed, name, strings.Repeat("b", 64))
	require.NoError(t, err)
	_, err = i.Credentials(strings.Repeat("s", 65))
	require.Error(t, err)
	file, err := i.Credentials(strings.Repeat("s", 64))
	require.NoError(t, err)
	text, err := jwt.ParseDecoratedJWT(file)
	require.NoError(t, err)
	claims, err := jwt.DecodeUserClaims(text)
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("s", 64), claims.Name)
	require.Empty(t, claims.IssuerAccount, "the seed is that of the account")
}
