package natsbus_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/runtime/run"
	"github.com/seed93082962/agenthost/runtime/run/bustest"
	"github.com/seed93082962/agenthost/runtime/run/natsbus"
	"github.com/seed93082962/agenthost/runtime/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts a NATS server with its data in dir.
func serve(t testing.TB, dir string, change func(*server.Options)) *server.Server {
	t.Helper()
	options := &server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true}
	if change != nil {
		change(options)
	}
	s, err := server.NewServer(options)
	require.NoError(t, err)
	s.Start()
	require.True(t, s.ReadyForConnections(bustest.Limit))
	t.Cleanup(func() { stop(s) })
	return s
}

func stop(s *server.Server) {
	s.Shutdown()
	s.WaitForShutdown()
}

// url returns the URL of a server, with a user and with a path and a query.
func url(s *server.Server, user, rest string) string {
	return fmt.Sprintf("nats://%s%s%s", user, s.Addr(), rest)
}

func open(t testing.TB, url string) *natsbus.Bus {
	t.Helper()
	cfg, err := natsbus.Parse(url)
	require.NoError(t, err)
	bus, err := natsbus.Open(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(bus.Close)
	return bus
}

func TestBus(t *testing.T) {
	s := serve(t, t.TempDir(), nil)
	bustest.Test(t, func(t *testing.T) run.Bus { return open(t, url(s, "", "")) })
}

// restart stops a server, runs down, and starts it again at its port.
func restart(t *testing.T, s *server.Server, dir string, down func()) *server.Server {
	t.Helper()
	_, port, err := net.SplitHostPort(s.Addr().String())
	require.NoError(t, err)
	stop(s)
	down()
	return serve(t, dir, func(o *server.Options) { o.Port, err = strconv.Atoi(port) })
}

// A cancel takes effect although the server ends before its owner has heard of it, whether the
// server still has the entry afterwards or not.
func TestRestart(t *testing.T) {
	for name, kept := range map[string]bool{"with its data": true, "without its data": false} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := serve(t, dir, nil)
			owner := run.New(run.Config{Bus: open(t, url(s, "", ""))})
			defer owner.Close()
			other := run.New(run.Config{Bus: open(t, url(s, "", ""))})
			defer other.Close()
			begin := func() *run.Run {
				r, err := owner.Claim(t.Context(), ids.Random())
				require.NoError(t, err)
				require.NoError(t, r.Start())
				return r
			}
			before, ended := begin(), begin()
			ended.Finish(nil)

			// The request is stored as another replica does, without a notification.
			late := begin()
			writer := open(t, url(s, "", ""))
			e, err := writer.Get(t.Context(), late.ID())
			require.NoError(t, err)
			e.State, e.Reason = wire.StateCancelling, wire.ReasonClientRequest
			_, err = writer.Put(t.Context(), late.ID(), e, time.Minute)
			require.NoError(t, err)

			if !kept {
				dir = t.TempDir()
			}
			finished := make(chan wire.State, 1)
			restart(t, s, dir, func() {
				bustest.Await(t, func() bool {
					_, err := other.Cancel(before.ID(), wire.ReasonClientRequest)
					return errors.Is(err, run.ErrUnavailable)
				})
				go func() {
					state, _ := late.Finish(nil)
					finished <- state
				}()
				bustest.Await(t, func() bool { return !owner.Available() })
				require.NoError(t, before.Context().Err(), "runs continue")
			})
			if state := <-finished; kept {
				require.Equal(t, wire.StateCancelled, state)
			}
			bustest.Await(t, func() bool { return owner.Available() && other.Available() })
			bustest.Await(t, func() bool {
				_, err := other.Cancel(before.ID(), wire.ReasonClientRequest)
				return err == nil
			})
			bustest.Await(t, func() bool { return before.Context().Err() != nil })
			state, _ := before.Finish(nil)
			require.Equal(t, wire.StateCancelled, state)
			_, err = other.Cancel(ended.ID(), wire.ReasonClientRequest)
			if kept {
				require.ErrorIs(t, err, run.ErrEnded)
			}
		})
	}
}

func TestURLs(t *testing.T) {
	for text, want := range map[string]natsbus.Config{
		"nats://host:4222": {Servers: []string{"nats://host:4222"}, Bucket: natsbus.DefaultBucket},
		"tls://u:p,%40@one,[::1]:4223/b?credentials=/c&ca=/a&cert=/x&key=/k": {
			Servers: []string{"tls://u:p,%40@one", "tls://u:p,%40@[::1]:4223"}, Bucket: "b",
			CredentialsFile: "/c", CAFile: "/a", CertFile: "/x", KeyFile: "/k",
		},
		"nats://token@host/b/": {Servers: []string{"nats://token@host"}, Bucket: "b"},
	} {
		got, err := natsbus.Parse(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, text := range []string{
		"", "host", "http://secret@host", "nats://", "nats:///b", "nats://secret@", "nats://u:secret%zz@host", "nats://secret@host,",
		"nats://secret@host/a/b", "nats://secret@host/a.b", "nats://secret@host/*", "nats://secret@host/%3e", "nats://secret@host/b?unknown=x",
		"nats://secret@host/?ca=", "nats://secret@host/?ca=a&ca=b", "nats://secret@host?cert=a", "nats://secret@host?key=a", "nats://secret@host#f",
		"nats://secret@host?%zz", "nats://secret@" + strings.Repeat("a", 10_000),
	} {
		_, err := natsbus.Parse(text)
		require.Error(t, err, text)
		require.NotContains(t, err.Error(), "secret")
	}
}

func TestOpenFails(t *testing.T) {
	secured := serve(t, t.TempDir(), func(o *server.Options) { o.Username, o.Password = "user", "password" })
	plain := serve(t, t.TempDir(), func(o *server.Options) { o.JetStream = false })
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	for name, text := range map[string]string{
		"nobody listens":       "nats://127.0.0.1:1",
		"a silent server":      "nats://" + silent.Addr().String(),
		"no user":              url(secured, "", ""),
		"a wrong password":     url(secured, "user:wrong@", ""),
		"no JetStream":         url(plain, "", ""),
		"no credentials":       url(plain, "", "?credentials="+filepath.Join(t.TempDir(), "none")),
		"no authority":         url(plain, "", "?ca="+filepath.Join(t.TempDir(), "none")),
		"a server without TLS": strings.Replace(url(plain, "", ""), "nats:", "tls:", 1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, err := natsbus.Parse(text)
			require.NoError(t, err)
			_, err = natsbus.Open(t.Context(), cfg)
			require.Error(t, err)
			require.NotContains(t, err.Error(), "wrong@")
		})
	}
	open(t, url(secured, "user:password@", ""))

	// Entries of a bucket without markers would never expire.
	conn, err := nats.Connect(url(secured, "user:password@", ""))
	require.NoError(t, err)
	defer conn.Close()
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	_, err = js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "forever"})
	require.NoError(t, err)
	cfg, err := natsbus.Parse(url(secured, "user:password@", "/forever"))
	require.NoError(t, err)
	_, err = natsbus.Open(t.Context(), cfg)
	require.ErrorContains(t, err, "limit marker TTL")
}

// The permissions of the package comment are sufficient, and the buckets of two runtimes are
// separate.
func TestPermissions(t *testing.T) {
	s := serve(t, t.TempDir(), func(o *server.Options) {
		o.Users = []*server.User{{Username: "coder", Password: "p", Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: []string{"$JS.API.>", "$KV.coder.>", "agenthost.coder.>", "_INBOX.>"}},
			Subscribe: &server.SubjectPermission{Allow: []string{"agenthost.coder.>", "_INBOX.>"}},
		}}, {Username: "admin", Password: "p"}}
	})
	owner := run.New(run.Config{Bus: open(t, url(s, "coder:p@", "/coder"))})
	defer owner.Close()
	other := run.New(run.Config{Bus: open(t, url(s, "coder:p@", "/coder"))})
	defer other.Close()
	foreign := run.New(run.Config{Bus: open(t, url(s, "admin:p@", "/writer"))})
	defer foreign.Close()
	r, err := owner.Claim(t.Context(), ids.Random())
	require.NoError(t, err)
	require.NoError(t, r.Start())
	_, err = foreign.Cancel(r.ID(), wire.ReasonClientRequest)
	require.ErrorIs(t, err, run.ErrNotFound)
	_, err = other.Cancel(r.ID(), wire.ReasonClientRequest)
	require.NoError(t, err)
	require.Error(t, r.Context().Err(), "the notification has arrived")
	r.Finish(nil)
}

// An entry that another program has written is an error, not a state.
func TestForeignEntries(t *testing.T) {
	s := serve(t, t.TempDir(), nil)
	bus := open(t, url(s, "", "/b"))
	conn, err := nats.Connect(url(s, "", ""))
	require.NoError(t, err)
	defer conn.Close()
	for _, text := range []string{"x", "{}", `{"owner":1}`, `{"owner":"*"}`, `[]`} {
		id := ids.Random()
		_, err = conn.Request("$KV.b."+id.String(), []byte(text), bustest.Limit)
		require.NoError(t, err)
		_, err = bus.Get(t.Context(), id)
		require.Error(t, err, text)
	}
}

func TestTLS(t *testing.T) {
	dir := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	ca, secret := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "key.pem")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(secret, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	pair, err := tls.LoadX509KeyPair(ca, secret)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	s := serve(t, dir, func(o *server.Options) {
		o.TLS, o.TLSVerify, o.TLSTimeout = true, true, 5
		o.TLSConfig = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
	})
	address := "tls://" + s.Addr().String()
	bus := open(t, address+"?ca="+ca+"&cert="+ca+"&key="+secret)
	_, err = bus.Get(t.Context(), ids.Random())
	require.NoError(t, err)
	for name, query := range map[string]string{"an unknown authority": "", "no client certificate": "?ca=" + ca} {
		cfg, err := natsbus.Parse(address + query)
		require.NoError(t, err)
		_, err = natsbus.Open(t.Context(), cfg)
		require.Error(t, err, name)
	}
}

// BenchmarkCancel measures a cancel at one replica until the context of the run at another one
// ends.
func BenchmarkCancel(b *testing.B) {
	s := serve(b, b.TempDir(), nil)
	owner := run.New(run.Config{Bus: open(b, url(s, "", ""))})
	defer owner.Close()
	other := run.New(run.Config{Bus: open(b, url(s, "", ""))})
	defer other.Close()
	var took []time.Duration
	for b.Loop() {
		r, err := owner.Claim(b.Context(), ids.Random())
		require.NoError(b, err)
		require.NoError(b, r.Start())
		begin := time.Now()
		_, err = other.Cancel(r.ID(), wire.ReasonClientRequest)
		<-r.Context().Done()
		took = append(took, time.Since(begin))
		require.NoError(b, err)
		r.Finish(nil)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "us-p50")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "us-p99")
}

// BenchmarkRun measures what the bus adds to a run: the entries of its start and of its end.
func BenchmarkRun(b *testing.B) {
	g := run.New(run.Config{Bus: open(b, url(serve(b, b.TempDir(), nil), "", ""))})
	defer g.Close()
	for b.Loop() {
		r, err := g.Claim(b.Context(), ids.Random())
		require.NoError(b, err)
		require.NoError(b, r.Start())
		r.Finish(nil)
	}
}
