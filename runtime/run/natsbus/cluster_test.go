//go:build unix

package natsbus_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	neturl "net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/runtime/internal/registry"
	"github.com/seed93082962/agenthost/runtime/run"
	"github.com/seed93082962/agenthost/runtime/run/bustest"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// childEnv names the variable with the JSON of a member.
const childEnv = "NATSBUS_TEST_SERVER"

// member is a NATS server in a process of its own.
type member struct {
	Name, Dir string
	Port      int      // of the connections in the cluster
	Routes    []string // addresses of all members of the cluster

	reserved net.Listener // has the port until the server starts
	cmd      *exec.Cmd
	output   *bufio.Reader
	client   string // address
}

// serveChild runs the NATS server of a child until its standard input ends, and reports whether
// this process is one.
func serveChild() bool {
	text := os.Getenv(childEnv)
	if text == "" {
		return false
	}
	var m member
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	fail(json.Unmarshal([]byte(text), &m))
	options := &server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: m.Dir, NoSigs: true, NoLog: true, ServerName: m.Name,
	}
	if m.Routes != nil {
		options.Cluster = server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: m.Port}
	}
	for _, route := range m.Routes {
		options.Routes = append(options.Routes, &neturl.URL{Scheme: "nats", Host: route})
	}
	s, err := server.NewServer(options)
	fail(err)
	s.Start()
	if !s.ReadyForConnections(bustest.Limit) {
		fail(errors.New("the server is not ready"))
	}
	fmt.Println(s.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
	return true
}

// start starts the server, with the data of before if it was killed.
func (m *member) start(t *testing.T) {
	t.Helper()
	if m.Dir == "" {
		m.Dir = t.TempDir()
	}
	text, err := json.Marshal(m)
	require.NoError(t, err)
	m.cmd = exec.Command(os.Args[0])
	m.cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	m.cmd.Stderr = os.Stderr
	input, err := m.cmd.StdinPipe()
	require.NoError(t, err)
	output, err := m.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, m.cmd.Start())
	t.Cleanup(func() {
		_ = m.cmd.Process.Kill()
		_ = m.cmd.Wait()
		_ = input.Close()
	})
	m.output = bufio.NewReader(output)
}

// await waits until the server is ready.
func (m *member) await(t *testing.T) {
	t.Helper()
	line, err := m.output.ReadString('\n')
	require.NoError(t, err)
	m.client = strings.TrimSpace(line)
}

// cluster starts a cluster of three servers, and returns them by name.
func cluster(t *testing.T) (members map[string]*member, url string) {
	t.Helper()
	members = map[string]*member{"a": {}, "b": {}, "c": {}}
	var routes, clients []string
	for name, m := range members {
		reserved, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer reserved.Close()
		m.Name, m.reserved = name, reserved
		m.Port = reserved.Addr().(*net.TCPAddr).Port
		routes = append(routes, reserved.Addr().String())
	}
	for _, m := range members {
		require.NoError(t, m.reserved.Close())
		m.Routes = routes
		m.start(t)
	}
	for _, m := range members {
		m.await(t)
		clients = append(clients, m.client)
	}
	return members, "nats://" + strings.Join(clients, ",")
}

// freeze makes a server stop responding, and thaw makes it continue.
// freeze stops the process. It returns when all threads are stopped.
func (m *member) freeze(t *testing.T) {
	require.NoError(t, m.cmd.Process.Signal(syscall.SIGSTOP))
	var status syscall.WaitStatus
	_, err := syscall.Wait4(m.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
	require.NoError(t, err)
	require.True(t, status.Stopped())
}

func (m *member) thaw(t *testing.T) { require.NoError(t, m.cmd.Process.Signal(syscall.SIGCONT)) }

// While a server does not respond, runs start, are cancelled and end. Afterwards all replicas know
// them.
func TestAFrozenServer(t *testing.T) {
	t.Parallel()
	m := &member{Name: "frozen"}
	m.start(t)
	m.await(t)
	owner := registry.New(registry.Config{Bus: open(t, "nats://"+m.client)})
	defer owner.Close()
	other := registry.New(registry.Config{Bus: open(t, "nats://"+m.client)})
	defer other.Close()
	begin := func() *registry.Run {
		r, err := owner.Claim(t.Context(), ids.Random())
		require.NoError(t, err)
		require.NoError(t, r.Start())
		return r
	}
	before, ended := begin(), begin()
	m.freeze(t)

	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			r, err := owner.Claim(t.Context(), ids.Random())
			if err == nil {
				err = r.Start()
			}
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := owner.Cancel(r.ID(), wire.ReasonClientRequest); err != nil {
				t.Error(err)
			}
			if state, _ := r.Finish(nil, nil); state != wire.StateCancelled {
				t.Error(state)
			}
		})
	}
	all.Go(func() {
		if state, _ := ended.Finish(nil, nil); state != wire.StateCompleted {
			t.Error(state)
		}
	})
	_, err := other.Cancel(before.ID(), wire.ReasonClientRequest)
	require.ErrorIs(t, err, run.ErrUnavailable)
	all.Wait()
	require.NoError(t, before.Context().Err(), "runs continue")
	require.False(t, owner.Available())

	m.thaw(t)
	bustest.Await(t, func() bool { return owner.Available() && other.Available() })
	bustest.Await(t, func() bool {
		_, err := other.Cancel(ended.ID(), wire.ReasonClientRequest)
		return errors.Is(err, registry.ErrEnded)
	})
	bustest.Await(t, func() bool {
		_, err := other.Cancel(before.ID(), wire.ReasonClientRequest)
		return err == nil
	})
	bustest.Await(t, func() bool { return before.Context().Err() != nil })
	before.Finish(nil, nil)
}

// kill ends the server at once.
func (m *member) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, m.cmd.Process.Kill())
	_ = m.cmd.Wait() // its status is that of the signal
}

// bounded calls do, and requires that it returns in the time of a few calls of the bus.
func bounded(t *testing.T, do func()) {
	t.Helper()
	began := time.Now()
	do()
	require.Less(t, time.Since(began), 15*time.Second)
}

// createBucket creates the bucket of a cluster as soon as its members have found each other.
func createBucket(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	config := jetstream.KeyValueConfig{Bucket: "coder", Replicas: 3, LimitMarkerTTL: time.Second}
	require.Eventually(t, func() bool {
		_, err := js.CreateKeyValue(t.Context(), config)
		return err == nil
	}, bustest.Limit, 50*time.Millisecond)
}

// The two servers that do not lead the bucket are killed. The leader reads entries without a
// majority, but cannot write them. A cancel fails and a run ends in bounded time. When the servers
// return, the end is stored, and cancels take effect.
func TestNoMajority(t *testing.T) {
	t.Parallel()
	members, address := cluster(t)
	js := connect(t, address)
	createBucket(t, js)
	owner := registry.New(registry.Config{Bus: open(t, address+"/coder")})
	defer owner.Close()
	other := registry.New(registry.Config{Bus: open(t, address+"/coder")})
	defer other.Close()
	begin := func() *registry.Run {
		r, err := owner.Claim(t.Context(), ids.Random())
		require.NoError(t, err)
		require.NoError(t, r.Start())
		return r
	}
	continued, ended := begin(), begin()
	stream, err := js.Stream(t.Context(), "KV_coder")
	require.NoError(t, err)
	delete(members, stream.CachedInfo().Cluster.Leader)
	for _, m := range members {
		m.kill(t)
	}

	bounded(t, func() {
		_, err := other.Cancel(continued.ID(), wire.ReasonClientRequest)
		require.ErrorIs(t, err, run.ErrUnavailable)
	})
	bounded(t, func() {
		state, _ := ended.Finish(nil, nil)
		require.Equal(t, wire.StateCompleted, state)
	})
	require.NoError(t, continued.Context().Err(), "runs continue")
	require.False(t, owner.Available(), "its health reports it")

	for _, m := range members {
		m.start(t)
	}
	for _, m := range members {
		m.await(t)
	}
	bustest.Await(t, func() bool { return owner.Available() && other.Available() })
	bustest.Await(t, func() bool {
		_, err := other.Cancel(ended.ID(), wire.ReasonClientRequest)
		return errors.Is(err, registry.ErrEnded)
	})
	bustest.Await(t, func() bool {
		_, err := other.Cancel(continued.ID(), wire.ReasonClientRequest)
		return err == nil
	})
	bustest.Await(t, func() bool { return continued.Context().Err() != nil })
	state, reason := continued.Finish(nil, nil)
	require.Equal(t, wire.StateCancelled, state)
	require.Equal(t, wire.ReasonClientRequest, reason)
}

// A cluster of three servers with three copies of the bucket loses the server that leads it, which
// is killed or does not respond, while runs are cancelled. A cancel that was accepted takes effect,
// and one that was not is accepted soon.
func TestLossOfTheLeader(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*member, *testing.T){
		"killed": func(m *member, t *testing.T) { require.NoError(t, m.cmd.Process.Kill()) },
		"frozen": (*member).freeze,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			members, address := cluster(t)
			js := connect(t, address)
			createBucket(t, js)
			owner := registry.New(registry.Config{Bus: open(t, address+"/coder")})
			defer owner.Close()
			other := registry.New(registry.Config{Bus: open(t, address+"/coder")})
			defer other.Close()
			runs := make([]*registry.Run, 300)
			for i := range runs {
				var err error
				runs[i], err = owner.Claim(t.Context(), ids.Random())
				require.NoError(t, err)
				require.NoError(t, runs[i].Start())
			}
			ended := runs[0]
			ended.Finish(nil, nil)
			runs = runs[1:]

			stream, err := js.Stream(t.Context(), "KV_coder")
			require.NoError(t, err)
			leader := members[stream.CachedInfo().Cluster.Leader]
			var all sync.WaitGroup
			var done, rejected atomic.Int64
			lost, once := make(chan struct{}), sync.Once{}
			for i := range 4 {
				all.Go(func() {
					for _, r := range runs[i*len(runs)/4 : (i+1)*len(runs)/4] {
						for {
							_, err := other.Cancel(r.ID(), wire.ReasonClientRequest)
							if err == nil {
								break
							}
							if !errors.Is(err, run.ErrUnavailable) {
								t.Error(err)
								return
							}
							rejected.Add(1)
							<-time.After(50 * time.Millisecond) // as a client does after a 503
						}
						if done.Add(1) >= 50 {
							once.Do(func() { close(lost) })
						}
					}
				})
			}
			<-lost
			lose(leader, t)
			all.Wait()
			t.Log(rejected.Load(), "cancels were rejected meanwhile")
			bustest.Await(t, owner.Available)
			for _, r := range runs {
				bustest.Await(t, func() bool { return r.Context().Err() != nil })
				state, _ := r.Finish(nil, nil)
				require.Equal(t, wire.StateCancelled, state)
			}
			bustest.Await(t, func() bool {
				_, err := other.Cancel(ended.ID(), wire.ReasonClientRequest)
				return errors.Is(err, registry.ErrEnded)
			})
		})
	}
}
