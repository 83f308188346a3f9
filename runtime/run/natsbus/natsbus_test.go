package natsbus_test

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
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
	"github.com/seed93082962/agenthost/internal/logtest"
	"github.com/seed93082962/agenthost/runtime/internal/registry"
	"github.com/seed93082962/agenthost/runtime/run"
	"github.com/seed93082962/agenthost/runtime/run/bustest"
	"github.com/seed93082962/agenthost/runtime/run/natsbus"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// The test binary is also the program of a NATS server.
func TestMain(m *testing.M) {
	if serveChild() {
		return
	}
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil { // most of a test is waiting for servers
		panic(err)
	}
	// A server that is shut down waits some seconds for the source of a mirror.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*stream).setupMirrorConsumer.func3"))
}

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
	t.Parallel()
	s := serve(t, t.TempDir(), nil)
	bustest.Test(t, func(t *testing.T) run.Bus { return open(t, url(s, "", "")) })
	t.Run("scope", func(t *testing.T) {
		bustest.Test(t, func(t *testing.T) run.Bus { return open(t, url(s, "", "/shared/one")) })
	})
}

// Runtimes with different scopes of a bucket have neither entries nor notifications in common.
func TestScopes(t *testing.T) {
	s := serve(t, t.TempDir(), nil)
	id, owner := ids.Random(), ids.Random()
	one, two := open(t, url(s, "", "/shared/one")), open(t, url(s, "", "/shared/two"))
	_, err := one.Put(t.Context(), id, run.Claim{Owner: owner}, time.Minute)
	require.NoError(t, err)
	found, err := two.Get(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, run.Claim{}, found)
	defer one.Listen(owner, func(run.ID) {})()
	require.Error(t, two.Notify(t.Context(), owner, id))
	third := open(t, url(s, "", "/shared/one"))
	// The server may read the message of another connection before the subscription.
	require.Eventually(t, func() bool { return third.Notify(t.Context(), owner, id) == nil }, time.Minute, time.Millisecond)
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
			var logs logtest.Buffer
			cfg, err := natsbus.Parse(url(s, "", ""))
			require.NoError(t, err)
			cfg.Logger = slog.New(slog.NewTextHandler(&logs, nil))
			bus, err := natsbus.Open(t.Context(), cfg)
			require.NoError(t, err)
			defer bus.Close()
			owner := registry.New(registry.Config{Bus: bus})
			defer owner.Close()
			other := registry.New(registry.Config{Bus: open(t, url(s, "", ""))})
			defer other.Close()
			begin := func() *registry.Run {
				r, err := owner.Claim(t.Context(), ids.Random())
				require.NoError(t, err)
				require.NoError(t, r.Start())
				return r
			}
			before, ended := begin(), begin()
			ended.Finish(nil, nil)

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
					state, _ := late.Finish(nil, nil)
					finished <- state
				}()
				bustest.Await(t, func() bool { return !owner.Available() })
				require.NoError(t, before.Context().Err(), "runs continue")
			})
			if state := <-finished; kept {
				require.Equal(t, wire.StateCancelled, state)
			}
			bustest.Await(t, func() bool { return owner.Available() && other.Available() })
			require.Contains(t, logs.String(), "connection to NATS was interrupted")
			bustest.Await(t, func() bool { return strings.Contains(logs.String(), "connection to NATS was restored") })
			bustest.Await(t, func() bool {
				_, err := other.Cancel(before.ID(), wire.ReasonClientRequest)
				return err == nil
			})
			bustest.Await(t, func() bool { return before.Context().Err() != nil })
			state, _ := before.Finish(nil, nil)
			require.Equal(t, wire.StateCancelled, state)
			_, err = other.Cancel(ended.ID(), wire.ReasonClientRequest)
			if kept {
				require.ErrorIs(t, err, registry.ErrEnded)
			}
		})
	}
}

func TestOpenFails(t *testing.T) {
	secured := serve(t, t.TempDir(), func(o *server.Options) { o.Username, o.Password = "user", "password" })
	plain := serve(t, t.TempDir(), func(o *server.Options) { o.JetStream = false })
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { silent.Close() })
	for name, text := range map[string]string{
		"nobody listens":       "nats://127.0.0.1:1",
		"a silent server":      "nats://" + silent.Addr().String(),
		"silent servers":       "nats://" + strings.Repeat(silent.Addr().String()+",", 4) + silent.Addr().String(),
		"no user":              url(secured, "", ""),
		"a wrong password":     url(secured, "user:wrong@", ""),
		"no JetStream":         url(plain, "", ""),
		"no credentials":       url(plain, "", "?credentials="+filepath.Join(t.TempDir(), "none")),
		"no seed":              url(plain, "", "?nkey="+filepath.Join(t.TempDir(), "none")),
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
}

// connect connects as the command nats does.
func connect(t *testing.T, url string) jetstream.JetStream {
	t.Helper()
	conn, err := nats.Connect(url)
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	return js
}

// A bucket that was created before is used with any settings that keep what a bus promises. The
// settings are those of flags of nats kv add.
func TestBuckets(t *testing.T) {
	s := serve(t, t.TempDir(), nil)
	js := connect(t, url(s, "", ""))
	_, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "original", LimitMarkerTTL: time.Second})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		bucket jetstream.KeyValueConfig
		fault  string
	}{
		"the-example":  {bucket: jetstream.KeyValueConfig{LimitMarkerTTL: time.Second}},
		"in-memory":    {bucket: jetstream.KeyValueConfig{LimitMarkerTTL: time.Second, Storage: jetstream.MemoryStorage, Compression: true}},
		"long-markers": {bucket: jetstream.KeyValueConfig{LimitMarkerTTL: time.Hour, MaxValueSize: 1024, MaxBytes: 1 << 20}},
		"long-ttl":     {bucket: jetstream.KeyValueConfig{LimitMarkerTTL: time.Second, TTL: 5 * time.Minute}},
		"forever":      {jetstream.KeyValueConfig{}, "it has no limit marker TTL, so that its entries cannot expire: create it with --marker-ttl 1s"},
		"history":      {jetstream.KeyValueConfig{LimitMarkerTTL: time.Second, History: 2}, "it has a history"},
		"short-ttl":    {jetstream.KeyValueConfig{LimitMarkerTTL: time.Second, TTL: time.Minute}, "it has a TTL of 1m0s, less than the 5m0s"},
		"small-values": {jetstream.KeyValueConfig{LimitMarkerTTL: time.Second, MaxValueSize: 16}, "store entry: "},
		"mirror":       {jetstream.KeyValueConfig{Mirror: &jetstream.StreamSource{Name: "original"}}, "it has no limit marker TTL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.bucket.Bucket = name
			_, err := js.CreateKeyValue(t.Context(), c.bucket)
			require.NoError(t, err)
			cfg, err := natsbus.Parse(url(s, "", "/"+name))
			require.NoError(t, err)
			bus, err := natsbus.Open(t.Context(), cfg)
			if c.fault != "" {
				require.ErrorContains(t, err, "open bucket "+name+" of NATS: "+c.fault)
				return
			}
			require.NoError(t, err)
			bus.Close()
		})
	}
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "KV_no-markers", Subjects: []string{"$KV.no-markers.>"}, MaxMsgsPerSubject: 1, AllowMsgTTL: true, AllowDirect: true,
	})
	require.NoError(t, err)
	cfg, err := natsbus.Parse(url(s, "", "/no-markers"))
	require.NoError(t, err)
	_, err = natsbus.Open(t.Context(), cfg)
	require.ErrorContains(t, err, "it has no limit marker TTL")
}

// permissions are those of the package comment.
func permissions(bucket string, more ...string) *server.Permissions {
	own := []string{"agenthost." + bucket + ".>", "_INBOX." + bucket + ".>"}
	api := []string{"$JS.API.STREAM.INFO.KV_" + bucket, "$JS.API.STREAM.MSG.GET.KV_" + bucket, "$KV." + bucket + ".>"}
	return &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: slices.Concat(own, api, more)},
		Subscribe: &server.SubjectPermission{Allow: own},
	}
}

// The permissions of the package comment are sufficient and necessary, and the buckets of two
// runtimes of one account are separate.
func TestPermissions(t *testing.T) {
	all := permissions("coder")
	users := []*server.User{
		{Username: "creator", Password: "p", Permissions: permissions("coder", "$JS.API.INFO", "$JS.API.STREAM.CREATE.KV_coder")},
		{Username: "coder", Password: "p", Permissions: all},
		{Username: "admin", Password: "p"},
	}
	for i := range all.Publish.Allow {
		less := &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: slices.Delete(slices.Clone(all.Publish.Allow), i, i+1)},
			Subscribe: all.Subscribe,
		}
		users = append(users, &server.User{Username: fmt.Sprint("less", i), Password: "p", Permissions: less})
	}
	s := serve(t, t.TempDir(), func(o *server.Options) { o.Users = users })
	replica := func(bus run.Bus) *registry.Registry {
		g := registry.New(registry.Config{Bus: bus})
		t.Cleanup(g.Close)
		return g
	}
	refused := func(user, bucket, want string) {
		cfg, err := natsbus.Parse(url(s, user+":p@", "/"+bucket))
		require.NoError(t, err)
		var logs logtest.Buffer
		cfg.Logger = slog.New(slog.NewTextHandler(&logs, nil))
		_, err = natsbus.Open(t.Context(), cfg)
		require.Contains(t, logs.String(), "NATS reported an error")
		require.ErrorIs(t, err, nats.ErrPermissionViolation)
		require.ErrorContains(t, err, want)
	}
	refused("coder", "coder", "$JS.API.INFO") // the bucket does not exist
	owner := replica(open(t, url(s, "creator:p@", "/coder")))
	other := replica(open(t, url(s, "coder:p@", "/coder")))
	foreign := replica(open(t, url(s, "admin:p@", "/writer")))
	r, err := owner.Claim(t.Context(), ids.Random())
	require.NoError(t, err)
	require.NoError(t, r.Start())
	_, err = foreign.Cancel(r.ID(), wire.ReasonClientRequest)
	require.ErrorIs(t, err, registry.ErrNotFound)
	_, err = other.Cancel(r.ID(), wire.ReasonClientRequest)
	require.NoError(t, err)
	require.Error(t, r.Context().Err(), "the notification has arrived")
	r.Finish(nil, nil)

	refused("coder", "writer", "_INBOX.writer.")
	for i, subject := range all.Publish.Allow[2:] { // those that Open needs
		refused(fmt.Sprint("less", i+2), "coder", strings.TrimSuffix(subject, ">"))
	}
}

// BenchmarkCancel measures a cancel at one replica until the context of the run at another one
// ends.
func BenchmarkCancel(b *testing.B) {
	s := serve(b, b.TempDir(), nil)
	owner := registry.New(registry.Config{Bus: open(b, url(s, "", ""))})
	defer owner.Close()
	other := registry.New(registry.Config{Bus: open(b, url(s, "", ""))})
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
		r.Finish(nil, nil)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "us-p50")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "us-p99")
}

// BenchmarkRun measures what the bus adds to a run: the entries of its start and of its end.
func BenchmarkRun(b *testing.B) {
	g := registry.New(registry.Config{Bus: open(b, url(serve(b, b.TempDir(), nil), "", ""))})
	defer g.Close()
	for b.Loop() {
		r, err := g.Claim(b.Context(), ids.Random())
		require.NoError(b, err)
		require.NoError(b, r.Start())
		r.Finish(nil, nil)
	}
}
